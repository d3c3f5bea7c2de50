"""What was asked for while a task ran: its last success takes it in, and nothing else loses or repeats it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.attributes import ListAttribute, NumberAttribute, UnicodeAttribute

from pynamodb_tracker import (
    BoundStep,
    ExecutionContext,
    GiveUp,
    LockLostError,
    Merged,
    Repeat,
    Report,
    Step,
    TaskIgnoredError,
    UseCase,
)
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.worker_name import this_worker
from tests.support.engines import only_dynoxide
from tests.support.network import Answer, Network, Request, passing, unheard
from tests.support.recorder import recorded
from tests.support.rows import change, client, stored
from tests.support.shop import AppTask
from tests.support.workers import die, entered, succeed

pytestmark = pytest.mark.usefixtures("table")

HOUR = timedelta(hours=1)


class Feed(AppTask):
    use_case_id = UseCase("feed")

    read = Step(10, max_attempts=2)
    send = Step(20, max_attempts=2)

    items = ListAttribute[str](default=list)
    note = UnicodeAttribute(null=True)
    weight = NumberAttribute(default=1)


class Cursor(AppTask):
    """One step, as most tasks that are merged have."""

    use_case_id = UseCase("cursor")

    step = Step(10, max_attempts=3)

    items = ListAttribute[str](default=list)


def append(task: Any, new: Mapping[str, Any]) -> None:
    task.items = [*task.items, *new["items"]]


def ask(item: str, **options: Any) -> Merged[Cursor]:
    """Ask for one item, which is there as often as it was asked for."""
    return Cursor.create_or_merge("c", items=[item], merge=append, **options)


def drain() -> list[list[str]]:
    worked_on = []
    while Cursor.get_task("c").state != Cursor.step.succeeded:
        worked_on.append(Cursor.step.run("c", lambda ctx: list(ctx.task.items)))
    return worked_on


# The success of the last step.


@pytest.mark.parametrize("step", [Cursor.step, Feed.send], ids=str)
def test_a_run_has_succeeded_although_its_task_is_pending_again(step: BoundStep[Any]) -> None:
    step.model.create("c", state=step.pending)
    contexts = []

    def ask_meanwhile(ctx: ExecutionContext[Any]) -> None:
        contexts.append(ctx)
        step.model.create_or_merge("c", items=["more"])

    assert step.run_all(ask_meanwhile) == Report(succeeded=["c"])
    assert [ctx.outcome for ctx in contexts] == ["succeeded"]


@only_dynoxide
def test_any_number_of_calls_during_a_run_make_one_run_more(clock: StoppedClock) -> None:
    ask("first")
    with Cursor.step.start("c") as ctx:
        for number in range(50):
            ask(f"{number}", due_time=HOUR * (50 - number))
        ctx.task.data["cursor"] = 1
    task = Cursor.get_task("c")
    assert (task.state, task.attempt, task.due_time) == (Cursor.step.pending, 0, clock.now() + HOUR)
    assert (task.queued, task.request_count, len(task.request_tokens), task.round is None) == (None, 50, 8, False)
    assert (ctx.task.state, ctx.task.items, ctx.task.round) == (task.state, task.items, task.round)
    clock.advance(HOUR)
    assert (drain(), Cursor.get_task("c").data) == ([[f"{number}" for number in range(50)]], {"cursor": 1})


def test_taking_in_is_two_requests_more() -> None:
    ask("a")
    started = entered(Cursor.step, "c")
    ask("b")
    with recorded() as requests:
        started.__exit__(None, None, None)
    assert requests.operations == ["UpdateItem", "GetItem", "UpdateItem"]
    assert requests[1].body["ConsistentRead"]


def test_what_was_asked_for_wins_over_what_the_block_assigned() -> None:
    Feed.create("f", state=Feed.send.pending, items=["a"], note="old", weight=1)
    with Feed.send.start("f") as ctx:
        Feed.create_or_merge("f", items=["b"], note=None)
        ctx.task.items = ["by the block"]
        ctx.task.note = "by the block"
        ctx.task.weight = 9
    for task in (ctx.task, Feed.get_task("f")):
        assert (task.state, task.items, task.note, task.weight) == (Feed.read.pending, ["b"], None, 9)


@pytest.mark.parametrize("trace", [None, {"traceparent": "of the request"}], ids=["none", "one"])
def test_the_next_round_has_the_trace_of_the_first_request_for_it(trace: dict[str, str] | None) -> None:
    Feed.create("f", state=Feed.send.pending, trace={"traceparent": "of the create"})
    with Feed.send.start("f") as ctx:
        Feed.create_or_merge("f", trace=trace)
        Feed.create_or_merge("f", items=["more"], merge=append, trace={"traceparent": "of a later one"})
        assert ctx.task.trace == {"traceparent": "of the create"}
    assert (ctx.task.trace, Feed.get_task("f").trace) == (trace, trace)


def test_a_new_rule_alone_leaves_the_trace() -> None:
    trace = {"traceparent": "of the create"}
    Feed.create("f", state=Feed.send.pending, trace=trace)
    with Feed.send.start("f"):
        Feed.create_or_merge("f", repeat=Repeat.every(HOUR), trace={"traceparent": "of a start"})
    assert Feed.get_task("f").trace == trace


def test_the_success_of_an_earlier_step_leaves_it_to_the_last_one() -> None:
    Feed.create("f", items=["a"])
    with Feed.read.start("f"):
        Feed.create_or_merge("f", items=["b"])
    task = Feed.get_task("f")
    assert (task.state, task.items, task.queued is None) == (Feed.send.pending, ["a"], False)
    succeed(Feed.send, "f")
    task = Feed.get_task("f")
    assert (task.state, task.items, task.queued) == (Feed.read.pending, ["b"], None)


def test_the_next_round_may_start_with_another_payload() -> None:
    Feed.create("f")
    with Feed.read.start("f", must_match="one"):
        Feed.create_or_merge("f")
    with Feed.send.start("f", must_match="one") as ctx:
        pass
    assert not {"payload#10", "payload#20"} & ctx.task._row_state.stored.keys()
    assert Feed.read.run("f", lambda ctx: ctx.attempt, must_match="two") == 1
    assert Feed.send.run("f", lambda ctx: ctx.attempt, must_match="two") == 1


def test_a_success_in_a_transaction_takes_it_in() -> None:
    ask("a")
    other = Feed.create("f")
    with Cursor.step.start("c") as ctx:
        ctx.task.data["cursor"] = 1
        ask("b")
        with ctx.transaction(succeed=True) as transaction:
            transaction.update(other, [Feed.note.set("sent")])
    task = Cursor.get_task("c")
    assert (task.state, task.items, task.data, task.queued) == (Cursor.step.pending, ["b"], {"cursor": 1}, None)
    assert Feed.get_task("f").note == "sent"


def test_large_data_and_an_answer_are_stored_with_it() -> None:
    text = [str(number) for number in range(2_000)]
    ask("a")
    with Cursor.step.start("c") as ctx:
        ask("b")
        ctx.task.data["text"] = text
        ctx.store_result({"done": ["a"]})
    task = Cursor.get_task("c")
    assert (task.items, task.data["text"], Cursor.step.result(task)) == (["b"], text, None)  # until it succeeds again
    with Cursor.step.start("c") as ctx:
        ctx.task.data["text"].append("more")
    assert Cursor.get_task("c").data["text"][-1] == "more"


def test_an_attribute_that_only_the_asking_program_declares_is_kept() -> None:
    ask("a")
    with Cursor.step.start("c"):
        ask("b")
        again = stored(Cursor, "c")["queued"]
        again["M"]["attributes"]["M"] |= {"new": {"S": "x"}, "gone": {"NULL": True}}
        change(Cursor, "c", queued=again, gone={"S": "y"})
    row = stored(Cursor, "c")
    assert (row["new"], "gone" in row, row["items"]) == ({"S": "x"}, False, {"L": [{"S": "b"}]})


def test_what_was_asked_for_may_be_due_by_then(clock: StoppedClock) -> None:
    ask("a")
    with Cursor.step.start("c"):
        ask("b")
        clock.advance(timedelta(seconds=1))
    assert Cursor.get_task("c").due_time == clock.now()


def test_a_round_that_starts_from_the_end_is_another_one() -> None:
    Cursor.create("c")
    succeed(Cursor.step, "c")
    with Cursor.step.start("c", also_from=(Cursor.step.succeeded,)) as ctx:
        assert ctx.task.round == ctx.fencing_token
        ask("a")
    assert Cursor.get_task("c").items == ["a"]


# Other ends leave it where it is.


def fails(ctx: ExecutionContext[Cursor]) -> None:
    raise ValueError(ctx.task.items)


def gives_up(ctx: ExecutionContext[Cursor]) -> None:
    raise GiveUp(str(ctx.task.items))


def is_released(_: ExecutionContext[Cursor]) -> None:
    raise KeyboardInterrupt


def end_badly(block: Callable[[ExecutionContext[Cursor]], None], *asked: str) -> None:
    """Run the task once, with these asked for meanwhile, and let it end like that."""

    def ask_and_end(ctx: ExecutionContext[Cursor]) -> None:
        for item in asked:
            ask(item)
        block(ctx)

    with pytest.raises((ValueError, GiveUp, KeyboardInterrupt)):
        Cursor.step.run("c", ask_and_end)


@pytest.mark.parametrize("block", [fails, gives_up, is_released], ids=lambda each: each.__name__)
def test_a_run_that_does_not_succeed_leaves_it_for_after_the_one_that_does(block: Any) -> None:
    ask("a")
    with recorded() as requests:
        end_badly(block)
    assert requests.operations == ["UpdateItem", "UpdateItem"]
    if block is gives_up:
        Cursor.step.reopen("c")
    end_badly(block, "b")
    assert ask("c").effect == (
        "ignored" if block is gives_up else "queued"
    )  # although it waits at its first step: after what waits already
    if block is gives_up:
        Cursor.step.reopen("c")
    assert drain() == [["a"], ["b", "c"]]


def test_a_task_whose_attempts_are_used_up_keeps_it_until_it_is_reopened() -> None:
    Feed.create("f", items=["a"])
    for _ in range(2):
        die(Feed.read, "f", lock_for=timedelta(microseconds=1))
        Feed.create_or_merge("f", items=["b"])
        change(Feed, "f", lock_expire_time={"S": "2000-01-01T00:00:00.000000+0000"})
    with pytest.raises(TaskIgnoredError):
        Feed.read.run("f", print)
    assert Feed.create_or_merge("f", items=["c"], merge=append).effect == "ignored"
    Feed.read.reopen("f")
    succeed(Feed.read, "f")
    succeed(Feed.send, "f")
    task = Feed.get_task("f")
    assert (task.state, task.items) == (Feed.read.pending, ["b", "c"])


COMMANDS: dict[str, Callable[[], object]] = {
    "ignore": lambda: Cursor.step.ignore("c", reason="no", even_running=True),
    "release": lambda: Cursor.step.unlock("c", reason="dead", worker=this_worker()),
}


@pytest.mark.parametrize("end", COMMANDS)
def test_a_command_in_the_middle_of_a_run_leaves_it(end: str) -> None:
    def ask_and_end(_: ExecutionContext[Cursor]) -> None:
        ask("b")
        COMMANDS[end]()

    ask("a")
    with pytest.raises(LockLostError):
        Cursor.step.run("c", ask_and_end)
    assert stored(Cursor, "c")["queued"]["M"]["attributes"]["M"]["items"] == {"L": [{"S": "b"}]}
    if end == "ignore":
        Cursor.step.reopen("c")
    assert drain() == [["a"], ["b"]]


def test_a_takeover_leaves_it_to_the_success_of_the_next_worker(clock: StoppedClock) -> None:
    ask("a")
    frozen = entered(Cursor.step, "c")
    ask("b")
    clock.advance(HOUR)
    with Cursor.step.start("c") as ctx:
        assert ctx.task.items == ["a"]
        ask("c")
        with pytest.raises(LockLostError):
            frozen.__exit__(None, None, None)
    assert drain() == [["b", "c"]]


# Lost answers, late copies, and calls in between.


def at(network: Network, number: int, act: Callable[[], object], *, answered: bool = True) -> list[Request]:
    """Let something happen right before the UpdateItem of that number, or right after it if it is not `answered`."""
    sent: list[Request] = []

    def rule(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        if operation != "UpdateItem":
            return send()
        sent.append(request)
        if len(sent) != number:
            return send()
        network.rule = passing
        if answered:
            act()
            return send()
        network.rule = rule
        send()
        act()
        return unheard("UpdateItem")(operation, request, dict)

    network.rule = rule
    return sent


def arrive(request: Request) -> bool:
    """Send a copy of a request; return whether it was applied."""
    try:
        client(Cursor).update_item(**request)
    except client(Cursor).exceptions.ConditionalCheckFailedException:
        return False
    return True


def test_a_call_between_the_read_and_the_write_that_takes_in_is_taken_in_as_well(network: Network) -> None:
    ask("a")
    with Cursor.step.start("c"):
        ask("b")
        sent = at(network, 2, lambda: ask("c"))
    assert (len(sent), drain()) == (2, [["b", "c"]])


def test_the_first_call_may_come_right_before_the_success(network: Network) -> None:
    ask("a")
    with Cursor.step.start("c"):
        at(network, 1, lambda: ask("b"))
    assert drain() == [["b"]]


def test_calls_that_come_all_the_time_do_not_keep_a_run_from_ending(
    network: Network, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some come right before the writes that take in, and from then on one in each pause."""
    asked = ["b"]
    left = 4

    def ask_once_more(seconds: float = 0) -> None:
        clock.advance(timedelta(seconds=seconds))
        network.rule = passing
        asked.append(f"{len(asked)}")
        ask(asked[-1])

    def rule(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        nonlocal left
        if operation == "UpdateItem" and request["Key"] == Cursor.tracker.key("c") and left:
            left -= 1
            ask_once_more()
            network.rule = rule
        return send()

    ask("a")
    with Cursor.step.start("c"):
        ask("b")
        monkeypatch.setattr(clock, "sleep", ask_once_more)
        network.rule = rule
    monkeypatch.delattr(clock, "sleep")
    network.rule = passing
    assert (left, drain()) == (0, [asked])


@pytest.mark.parametrize("end", COMMANDS)
def test_a_command_between_the_read_and_the_write_leaves_it(network: Network, end: str) -> None:
    def ask_then_end(_: ExecutionContext[Cursor]) -> None:
        ask("b")
        at(network, 2, COMMANDS[end])

    ask("a")
    with pytest.raises(LockLostError):
        Cursor.step.run("c", ask_then_end)
    if end == "ignore":
        Cursor.step.reopen("c")
    assert drain() == [["a"], ["b"]]


def test_a_lost_answer_to_the_write_that_takes_in_is_found_in_the_row(network: Network) -> None:
    ask("a")
    with Cursor.step.start("c"):
        ask("b")
        at(network, 2, lambda: None, answered=False)
    network.rule = passing
    assert drain() == [["b"]]


def test_late_copies_of_both_writes_are_refused_at_any_later_time(network: Network) -> None:
    ask("a")
    with Cursor.step.start("c"):
        ask("b")
        sent = at(network, 9, lambda: None)
    network.rule = passing
    assert [arrive(request) for request in sent] == [False, False]
    ask("c")
    assert [arrive(request) for request in sent] == [False, False]
    with Cursor.step.start("c"):
        ask("d")
        assert [arrive(request) for request in sent] == [False, False]
    assert (drain(), [arrive(request) for request in sent]) == ([["d"]], [False, False])


def test_the_next_run_may_begin_before_a_lost_answer_is_looked_up(network: Network) -> None:
    ask("a")
    with Cursor.step.start("c"):
        ask("b")
        at(network, 2, lambda: die(Cursor.step, "c"), answered=False)
    network.rule = passing
    task = Cursor.get_task("c")
    assert (task.state, task.items, task.attempt) == (Cursor.step.in_progress, ["b"], 1)


def test_the_resolver_sees_the_waiting_one() -> None:
    seen = []

    def resolve(task: Cursor, new: Mapping[str, Any]) -> None:
        seen.append((list(task.items), list(new["items"]), task.state))

    for item in ("a", "b"):
        Cursor.create_or_merge("c", items=[item], merge=resolve)
    with Cursor.step.start("c"):
        for item in ("c", "d"):
            Cursor.create_or_merge("c", items=[item], merge=resolve)
    assert [each[:2] for each in seen] == [(["a"], ["b"]), (["c"], ["d"])]


# What another program has put there.


def asked(attributes: dict[str, Any], due_time: str = "2026-01-31T12:00:00.000000+0000") -> dict[str, Any]:
    return {"M": {"due_time": {"S": due_time}, "attributes": {"M": attributes}}}


@pytest.mark.parametrize(
    "again",
    [
        {"M": {}},
        asked({}, "2026-01-31T12:00"),
        {"M": {**asked({})["M"], "repeat": {"S": '{"often":1}'}}},
        {"M": {**asked({})["M"], "trace": {"S": "[]"}}},
    ],
    ids=["nothing", "no zone", "no rule", "no trace"],
)
def test_a_success_that_cannot_read_what_was_asked_for_is_recorded_as_a_failure(again: dict[str, Any]) -> None:
    Cursor.create("c")
    with pytest.raises(TaskError, match="Cursor 'c' cannot be read: queued"), Cursor.step.start("c"):
        change(Cursor, "c", queued=again, request_count={"N": "1"})
    row = stored(Cursor, "c")
    assert (row["status"], row["errors"]["L"][-1]["M"]["type"]) == ({"N": "12"}, {"S": "TaskError"})


def test_an_attribute_of_another_type_is_taken_in_as_it_was_asked_for() -> None:
    Feed.create("f", state=Feed.send.pending)
    with Feed.send.start("f") as ctx:
        ctx.task.note = "sent"
        change(Feed, "f", queued=asked({"weight": {"S": "heavy"}, "note": {"S": "asked"}}), request_count={"N": "1"})
    assert (ctx.outcome, ctx.task.note, stored(Feed, "f")["weight"]) == ("succeeded", "asked", {"S": "heavy"})
    with pytest.raises(TaskError, match="weight"):
        ctx.task.weight  # noqa: B018 - reading it raises


class Renamed(AppTask):
    use_case_id = UseCase("renamed")

    step = Step(10)

    note = UnicodeAttribute(null=True, attr_name="n")


def test_what_was_asked_for_by_an_earlier_name_of_an_attribute_does_not_meet_what_has_the_name_now() -> None:
    Renamed.create("r")
    with Renamed.step.start("r") as ctx:
        ctx.task.note = "of the run"
        change(Renamed, "r", queued=asked({"note": {"S": "of then"}}), request_count={"N": "1"})
    row = stored(Renamed, "r")
    assert (ctx.task.note, row["n"], row["note"]) == ("of the run", {"S": "of the run"}, {"S": "of then"})
