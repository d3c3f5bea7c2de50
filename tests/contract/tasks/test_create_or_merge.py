"""Merging: each call of `create_or_merge` is followed by one run that began after it, whatever the task is doing."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.attributes import ListAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import PutError, UpdateError

from pynamodb_tracker import Merged, Step, TaskFormatError, TaskNotReadyError, UseCase, ValueNotStorableError
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.presentation.commands import run_now
from tests.support.network import Answer, Network, Request, before, error, passing, silent, unheard, unreached
from tests.support.recorder import recorded
from tests.support.rows import all_rows, change, client, index_entries, remove, stored
from tests.support.shop import AppTask
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

HOUR = timedelta(hours=1)
BIG = "x" * 250_000


class Index(AppTask):
    """Two steps, so that a task may be past its first one; tasks that succeeded, and ignored ones, expire."""

    use_case_id = UseCase("index", keep_for=timedelta(days=30))

    build = Step(10, max_attempts=2, retry_delay=timedelta(minutes=5))
    publish = Step(20)

    pages = ListAttribute[str](default=list)
    note = UnicodeAttribute(null=True)
    weight = NumberAttribute(default=1)


def union(task: Index, new: Mapping[str, Any]) -> None:
    task.pages = sorted({*task.pages, *new["pages"]})


def ask(*pages: str, **options: Any) -> Merged[Index]:
    return Index.create_or_merge("i-1", pages=list(pages), merge=union, **options)


def waits_for_a_retry() -> None:
    fail(Index.build, "i-1")


def is_ignored() -> None:
    Index.build.ignore("i-1", reason="wait")


def runs() -> None:
    die(Index.build, "i-1")


def is_past_its_first_step() -> None:
    succeed(Index.build, "i-1")


def failed_later() -> None:
    succeed(Index.build, "i-1")
    fail(Index.publish, "i-1")


def is_ignored_later() -> None:
    succeed(Index.build, "i-1")
    Index.publish.ignore("i-1", reason="wait")


def runs_later() -> None:
    succeed(Index.build, "i-1")
    die(Index.publish, "i-1")


def is_pending() -> None:
    """Leave it as it was created."""


IGNORED = {is_ignored, is_ignored_later}

waiting = pytest.mark.parametrize("state", [is_pending, waits_for_a_retry, is_ignored], ids=lambda each: each.__name__)
busy = pytest.mark.parametrize(
    "state", [runs, is_past_its_first_step, failed_later, is_ignored_later, runs_later], ids=lambda each: each.__name__
)


def finish() -> None:
    succeed(Index.build, "i-1")
    succeed(Index.publish, "i-1")


# What becomes of the row, and what it costs.


def test_a_missing_task_is_created_as_create_does(clock: StoppedClock) -> None:
    with recorded() as requests:
        done = Index.create_or_merge("i-1", due_time=HOUR, pages=["a"], note="new", data={"seen": 1})
    assert requests.operations == ["PutItem"]
    assert (done.effect, done.task.state, done.task.due_time) == ("created", Index.build.pending, clock.now() + HOUR)
    assert done.task.to_dynamodb_dict() == Index.get_task("i-1").to_dynamodb_dict()
    assert (done.task.pages, done.task.note, done.task.data, done.task.weight) == (["a"], "new", {"seen": 1}, 1)


@waiting
def test_a_waiting_task_stays_as_it_is_if_nothing_is_to_be_changed(state: Callable[[], None]) -> None:
    Index.create("i-1", pages=["a", "b"])
    state()
    row = stored(Index, "i-1")
    with recorded() as requests:
        collapsed = Index.create_or_merge("i-1", pages=["z"])
        same = ask("a")
    assert requests.operations == ["PutItem", "PutItem"]
    how = "ignored" if state in IGNORED else "merged"
    assert (collapsed.effect, same.effect, same.task.pages, stored(Index, "i-1")) == (how, how, ["a", "b"], row)


@waiting
def test_a_waiting_task_is_merged_in_its_row_and_stays_where_it_is(state: Callable[[], None]) -> None:
    Index.create("i-1", pages=["b"], note="old")
    state()
    row = stored(Index, "i-1")
    with recorded() as requests:
        done = ask("a", note="new")
    assert requests.operations == ["PutItem", "UpdateItem"]
    assert (done.effect, done.task.pages, done.task.note) == (
        "ignored" if state in IGNORED else "merged",
        ["a", "b"],
        "old",
    )
    after = stored(Index, "i-1")
    assert after == {**row, **{name: after[name] for name in ("request_count", "request_tokens", "pages")}}
    assert done.task.to_dynamodb_dict() == Index.get_task("i-1").to_dynamodb_dict()


@busy
def test_a_task_that_cannot_take_it_keeps_it_for_its_next_run(state: Callable[[], None], clock: StoppedClock) -> None:
    Index.create("i-1", pages=["a"])
    state()
    row = stored(Index, "i-1")
    with recorded() as requests:
        first = ask("b", due_time=HOUR, weight=2)
    assert requests.operations == ["PutItem", "UpdateItem"]
    with recorded() as requests:
        second = ask("c", due_time=HOUR / 2, weight=3)
    assert requests.operations == ["PutItem", "UpdateItem"]
    with recorded() as requests:
        third = Index.create_or_merge("i-1", pages=["d"], due_time=HOUR)
    assert requests.operations == ["PutItem"]
    assert {first.effect, second.effect, third.effect} == {"ignored" if state in IGNORED else "queued"}
    after = stored(Index, "i-1")
    waits = after["queued"]["M"]
    assert waits["attributes"] == {"M": {"pages": {"L": [{"S": "b"}, {"S": "c"}]}, "weight": {"N": "2"}}}
    assert waits["due_time"] == {"S": (clock.now() + HOUR / 2).strftime("%Y-%m-%dT%H:%M:%S.%f+0000")}
    assert after == {**row, **{name: after[name] for name in ("queued", "request_count", "request_tokens")}}


def test_a_task_that_has_succeeded_begins_anew_with_the_given_attributes_and_keeps_its_data() -> None:
    Index.create("i-1", pages=["a"], note="old", weight=5, trace={"by": "first"})
    fail(Index.build, "i-1")
    Index.build.reopen("i-1")
    with Index.build.start("i-1", must_match="payload") as ctx:
        ctx.task.data["cursor"] = 7
    succeed(Index.publish, "i-1")
    row = stored(Index, "i-1")
    with recorded() as requests:
        done = Index.create_or_merge("i-1", pages=["b"], note=None, data={"cursor": 0})
    task = done.task
    assert (requests.operations[0], requests.operations[-1]) == ("PutItem", "UpdateItem")
    assert (done.effect, task.state, task.attempt) == ("restarted", Index.build.pending, 0)
    assert (task.pages, task.note, task.weight, task.trace) == (["b"], None, 5, None)
    assert (task.data, len(task.errors), task.round, task.expire_time) == ({"cursor": 7}, 1, task.lock, None)
    assert task.round > row["lock"]["S"]
    assert "payload#10" not in stored(Index, "i-1")
    assert Index.build.run("i-1", lambda ctx: ctx.attempt, must_match="another payload") == 1


def test_beginning_anew_is_two_requests_without_a_time_to_live() -> None:
    class Lasting(AppTask):
        use_case_id = UseCase("lasting")
        build = Step(10)

    Lasting.create("l-1")
    succeed(Lasting.build, "l-1")
    with recorded() as requests:
        assert Lasting.create_or_merge("l-1", due_time=HOUR, trace={"by": "second"}).task.trace == {"by": "second"}
    assert requests.operations == ["PutItem", "UpdateItem"]


def test_large_data_of_a_task_that_begins_anew_is_kept_for_ever() -> None:
    Index.create("i-1", data={"text": [str(number) for number in range(2_000)]})
    finish()
    assert ask("a").effect == "restarted"
    items = [*all_rows(Index)]
    assert len(items) == 2
    assert not [item for item in items if "expire_time" in item]
    assert Index.get_task("i-1").data["text"][-1] == "1999"


def test_large_data_of_a_task_that_did_not_begin_anew_expires_as_before(network: Network) -> None:
    Index.create("i-1", data={"text": [str(number) for number in range(2_000)]})
    finish()
    before_call = [*all_rows(Index)]
    network.rule = refuse_updates
    with pytest.raises(TaskNotReadyError):
        ask("a")
    after = [*all_rows(Index)]
    assert [item["expire_time"] for item in after] == [item["expire_time"] for item in before_call]


def test_a_task_whose_large_data_has_expired_begins_anew_without_it() -> None:
    Index.create("i-1", data={"text": [str(number) for number in range(2_000)]})
    finish()
    chunk = {"task_id": {"S": "i-1"}, "use_case_id": {"S": "index#data#A#0"}}
    remove(Index, chunk)  # as time to live does
    done = ask("a")
    assert (done.effect, done.task.data, Index.get_task("i-1").data) == ("restarted", {}, {})


@pytest.mark.parametrize("step", ["build", "publish"])
def test_an_ignored_task_that_expires_is_kept_as_long_as_if_it_had_been_ignored_now(
    step: str, clock: StoppedClock
) -> None:
    class Short(AppTask):
        use_case_id = UseCase("short", keep_ignored_for=timedelta(days=30))
        build = Step(10)
        publish = Step(20)

    def ends() -> set[str | None]:
        items = [*all_rows(Short)]
        assert len(items) == 2
        return {item.get("expire_time", {}).get("N") for item in items}

    bound = getattr(Short, step)
    Short.create("s-1", state=bound.pending, data={"text": [str(number) for number in range(2_000)]})
    bound.ignore("s-1", reason="wait")
    clock.advance(timedelta(days=20))
    assert Short.create_or_merge("s-1").task.status == bound.ignored.code
    assert ends() == {str(int((clock.now() + timedelta(days=30)).timestamp()))}
    bound.reopen("s-1")
    assert ends() == {None}


# Due times.


def test_the_earlier_due_time_wins_and_moves_the_task_in_the_index(clock: StoppedClock) -> None:
    ask("a", due_time=HOUR)
    assert ask("a", due_time=2 * HOUR).task.due_time == clock.now() + HOUR
    assert ask("a", due_time=HOUR / 2).task.due_time == clock.now() + HOUR / 2
    assert Index.create_or_merge("i-1").task.due_time == clock.now()
    assert [entry["due_time"] for entry in index_entries(Index)] == [stored(Index, "i-1")["due_time"]]
    assert [task.task_id for task in Index.build.due()] == ["i-1"]


def test_later_moves_the_due_time_to_the_given_one(clock: StoppedClock) -> None:
    begin = clock.now()
    for number in range(3):
        done = ask("a", due_time=HOUR, debounce=True)
        assert done.task.due_time == begin + HOUR + number * timedelta(minutes=1)
        clock.advance(timedelta(minutes=1))
    runs_at_last = clock.now() + HOUR / 2
    assert ask("a", due_time=runs_at_last, debounce=True).task.due_time == runs_at_last


def test_what_waits_for_the_success_of_a_run_is_put_off_by_later(clock: StoppedClock) -> None:
    Index.create("i-1")
    runs()
    queued = [ask("a", due_time=due_time, debounce=True).task.queued for due_time in (HOUR, 2 * HOUR)]
    assert queued[-1] is not None
    assert queued[-1].due_time == Index.get_task("i-1").update_time + 2 * HOUR
    assert Index.build.unlock("i-1", reason="its host is gone", worker=this_worker()).due_time == clock.now()
    task = ask("a", due_time=3 * HOUR, debounce=True).task
    assert task.queued is not None
    assert (task.due_time, task.queued.due_time) == (clock.now(), clock.now() + 3 * HOUR)


@pytest.mark.parametrize("later", [False, True])
def test_a_clock_that_is_behind_makes_a_task_due_no_earlier_than_it_was_written(
    clock: StoppedClock, *, later: bool
) -> None:
    ask("a", due_time=HOUR)
    clock.advance(-timedelta(minutes=1))
    task = ask("a", due_time=timedelta(0), debounce=later).task
    assert task.due_time == task.update_time > clock.now()


@pytest.mark.parametrize("state", [waits_for_a_retry, is_ignored], ids=lambda each: each.__name__)
@pytest.mark.parametrize("options", [{}, {"due_time": HOUR, "debounce": True}], ids=["now", "later"])
def test_a_failed_task_keeps_the_time_of_its_retry_and_an_ignored_one_stays_ignored(
    state: Callable[[], None], options: dict[str, Any]
) -> None:
    Index.create("i-1")
    state()
    row = stored(Index, "i-1")
    task = ask("a", **options).task
    assert (task.pages, str(task.status), stored(Index, "i-1")["due_time"]) == (
        ["a"],
        row["status"]["N"],
        row["due_time"],
    )


def test_a_task_that_may_start_already_is_not_moved() -> None:
    ask("a")
    with recorded() as requests:
        ask("a")
    assert requests.operations == ["PutItem"]


# The function that merges.


def break_it(_task: Index, _new: Mapping[str, Any]) -> None:
    raise Broken("it broke")


def return_it(task: Index, _new: Mapping[str, Any]) -> Index:
    return task


def change_data(task: Index, _new: Mapping[str, Any]) -> None:
    task.data["a"] = 1


def change_the_status(task: Index, _new: Mapping[str, Any]) -> None:
    task.status = 20


def change_what_is_given(_task: Index, new: Mapping[str, Any]) -> None:
    new["pages"] = []  # type: ignore[index]  # that is what is wrong with it


def store_a_number(task: Index, _new: Mapping[str, Any]) -> None:
    task.note = 7  # type: ignore[assignment]  # as above


def store_too_much(task: Index, _new: Mapping[str, Any]) -> None:
    task.note = BIG


WRONG: dict[Any, tuple[type[Exception], str]] = {
    break_it: (Broken, "it broke"),
    return_it: (TypeError, "merge of Index 'i-1' returned"),
    change_data: (TypeError, "merge changed data of Index 'i-1'"),
    change_the_status: (AttributeError, "status"),
    change_what_is_given: (TypeError, "does not support item assignment"),
    store_a_number: (ValueNotStorableError, "Index.note"),
    store_too_much: (ValueNotStorableError, "Index 'i-1' would take"),
}


@pytest.mark.parametrize("merge", WRONG, ids=lambda each: each.__name__)
@pytest.mark.parametrize("state", [is_pending, runs], ids=lambda each: each.__name__)
def test_a_merge_that_goes_wrong_leaves_the_task_as_it_is(merge: Any, state: Callable[[], None]) -> None:
    Index.create("i-1")
    change(Index, "i-1", written_by_others={"S": BIG})
    state()
    if state is runs:
        ask("a")  # only what waits already is merged
    row = stored(Index, "i-1")
    kind, message = WRONG[merge]
    with pytest.raises(kind, match=message):
        Index.create_or_merge("i-1", merge=merge, pages=["a"])
    assert stored(Index, "i-1") == row


def test_what_is_kept_for_the_next_run_has_to_fit_into_the_row_beside_the_rest() -> None:
    Index.create("i-1", note=BIG)
    runs()
    row = stored(Index, "i-1")
    with pytest.raises(ValueNotStorableError, match="put queued, which takes 250") as caught:
        Index.create_or_merge("i-1", note=BIG)
    assert (caught.value.task_id, caught.value.attribute, stored(Index, "i-1")) == ("i-1", "queued", row)


def test_the_function_sees_what_waits_and_not_what_runs() -> None:
    seen = []

    def look(task: Index, new: Mapping[str, Any]) -> None:
        seen.append((task.pages, task.note, task.weight, dict(new)))

    Index.create("i-1", pages=["a"], note="running", weight=5)
    runs()
    Index.create_or_merge("i-1", merge=look, pages=["b"], note=None)
    Index.create_or_merge("i-1", merge=look, weight=3)
    assert seen == [(["b"], None, 5, {"weight": 3})]


# Lost answers, late copies, and rivals.


class Copies:
    """Keeps the requests of an operation, to send them a second time."""

    def __init__(self, network: Network, operation: str = "UpdateItem") -> None:
        self.operation = operation
        self.sent: list[Request] = []
        network.rule = self

    def __call__(self, operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        if operation == self.operation:
            self.sent.append(request)
        return send()

    def arrive(self) -> list[bool]:
        return [self._is_applied(request) for request in self.sent]

    def _is_applied(self, request: Request) -> bool:
        try:
            client(Index).update_item(**request)
        except client(Index).exceptions.ConditionalCheckFailedException:
            return False
        return True


def pages() -> list[str]:
    """Return the pages that the task runs with next."""
    again = Index.get_task("i-1").queued
    return [page["S"] for page in again.attributes["pages"]["L"]] if again else Index.get_task("i-1").pages


def append(task: Index, new: Mapping[str, Any]) -> None:
    """Count every merge."""
    task.pages = [*task.pages, *new["pages"]]


def count(page: str) -> Merged[Index]:
    """Ask for one page, which is there as often as it was asked for."""
    return Index.create_or_merge("i-1", pages=[page], merge=append)


def test_a_create_whose_answer_got_lost_is_not_merged_with_itself(network: Network) -> None:
    network.rule = unheard("PutItem")
    assert (count("a").effect, pages()) == ("created", ["a"])


def test_a_create_that_never_arrived_is_sent_again(network: Network) -> None:
    def rule(_operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        network.rule = passing
        return silent("PutItem")(_operation, _request, send)

    network.rule = rule
    assert (count("a").effect, pages()) == ("created", ["a"])


@pytest.mark.parametrize("state", [is_pending, runs, finish], ids=lambda each: each.__name__)
def test_a_merge_whose_answer_got_lost_counts_once(network: Network, state: Callable[[], None]) -> None:
    count("a")
    state()
    network.rule = unheard("UpdateItem")
    done = count("b")
    network.rule = passing
    assert (done.effect, pages().count("b")) == ({runs: "queued", finish: "restarted"}.get(state, "merged"), 1)
    assert Index.get_task("i-1").request_count == 1


def test_a_merge_that_never_arrived_is_sent_again_and_its_late_copy_is_refused(network: Network) -> None:
    count("a")
    copies = Copies(network)

    def lose(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        if operation == "UpdateItem":
            network.rule = passing
            copies.sent.append(request)
        return silent("UpdateItem")(operation, request, send)

    network.rule = lose
    assert (count("b").effect, pages(), copies.arrive(), pages()) == ("merged", ["a", "b"], [False], ["a", "b"])


@pytest.mark.parametrize("state", [is_pending, runs, finish], ids=lambda each: each.__name__)
def test_a_late_copy_of_a_merge_is_refused(network: Network, state: Callable[[], None]) -> None:
    count("a")
    state()
    copies = Copies(network)
    count("b")
    network.rule = passing
    before_copy = stored(Index, "i-1")
    assert copies.arrive() == [False]
    count("c")
    assert copies.arrive() == [False]
    assert stored(Index, "i-1") != before_copy
    assert pages()[-2:] == ["b", "c"]


def test_a_late_copy_of_a_merge_is_refused_by_the_next_task_of_that_id(network: Network) -> None:
    def lose(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        if operation == "UpdateItem":
            copies.sent.append(request)
        return silent("UpdateItem")(operation, request, send)

    copies = Copies(network)
    network.rule = lose
    Index.create("i-1", pages=["a"])
    with pytest.raises(UpdateError):
        count("b")
    network.rule = passing
    Index.delete_task("i-1")
    Index.create("i-1", pages=["a"])  # at the same time, by a stopped clock
    assert (copies.arrive(), pages()) == ([False] * 3, ["a"])


def test_another_callers_merge_in_between_is_not_overwritten(network: Network) -> None:
    count("a")
    before(network, "UpdateItem", lambda: count("b"))
    count("c")
    assert pages() == ["a", "b", "c"]


def test_a_due_time_that_moved_in_between_is_not_overwritten(network: Network, clock: StoppedClock) -> None:
    ask("a", due_time=24 * HOUR)
    reopened_at = clock.now()

    def reopen() -> None:
        is_ignored()
        Index.build.reopen("i-1")

    before(network, "UpdateItem", reopen)
    ask("a", due_time=HOUR)
    assert Index.get_task("i-1").due_time == reopened_at


def test_a_task_that_is_claimed_in_between_runs_again_with_it(network: Network) -> None:
    count("a")
    before(network, "UpdateItem", runs)
    assert (count("b").effect, pages()) == ("queued", ["b"])


def test_a_task_that_ends_in_between_begins_anew(network: Network) -> None:
    count("a")
    succeed(Index.build, "i-1")
    before(network, "UpdateItem", lambda: succeed(Index.publish, "i-1"))
    assert (count("b").effect, pages()) == ("restarted", ["b"])


def test_a_task_that_is_deleted_in_between_is_created(network: Network) -> None:
    count("a")
    before(network, "UpdateItem", lambda: Index.delete_task("i-1"))
    assert (count("b").effect, pages()) == ("created", ["b"])


def test_eight_merges_after_a_lost_answer_show_it_and_nine_do_not(network: Network) -> None:
    def unanswered(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        if operation != "UpdateItem":
            return send()
        network.rule = passing
        send()
        for number in range(others):
            count(f"{number}")
        return silent("UpdateItem")(operation, request, send)

    count("a")
    others = 7
    network.rule = unanswered
    assert (count("b").effect, pages().count("b")) == ("merged", 1)
    others = 8
    network.rule = unanswered
    with pytest.raises(UpdateError) as caught:
        count("c")
    assert "it may have been merged" in caught.value.__notes__[0]
    assert pages().count("c") == 1


@pytest.mark.parametrize("act", [lambda: None, lambda: Index.delete_task("i-1")], ids=["forgotten", "deleted"])
def test_a_repeated_merge_that_the_row_does_not_show_any_more_is_an_error(
    network: Network, act: Callable[[], None]
) -> None:
    def repeated(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation != "UpdateItem":
            return send()
        network.rule = passing
        send()
        act()
        for number in range(8):
            count(f"{number}")
        raise error("UpdateItem", "ConditionalCheckFailedException", repeats=1)

    count("a")
    network.rule = repeated
    with pytest.raises(UpdateError, match="the first response was lost") as caught:
        count("b")
    assert "it may have been merged" in caught.value.__notes__[0]


def test_a_table_that_answers_nothing_is_an_error_after_three_tries(network: Network) -> None:
    sent: list[str] = []

    def rule(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        sent.append(operation)
        return silent("PutItem")(operation, request, send)

    network.rule = rule
    with pytest.raises(PutError):
        count("a")
    assert sent == ["PutItem", "GetItem"] * 3


def refuse_updates(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
    if operation == "UpdateItem" and request["Key"]["use_case_id"] == {"S": "index"}:
        raise error(operation, "ConditionalCheckFailedException")
    return send()


def test_a_row_that_changes_all_the_time_is_an_error(network: Network) -> None:
    count("a")
    network.rule = refuse_updates
    with pytest.raises(TaskNotReadyError, match=r"it changed 16 times during the call\. Try again"):
        count("b")


def test_a_lost_request_that_was_overtaken_is_no_longer_in_doubt(network: Network) -> None:
    def overtaken(operation: str, _request: Request, _send: Callable[[], Answer]) -> Answer:
        network.rule = passing
        count("first")
        before(network, "UpdateItem", lambda: [count(f"{number}") for number in range(8)])
        raise error(operation, "ConditionalCheckFailedException", repeats=1)

    count("a")
    network.rule = lambda operation, request, send: (overtaken if operation == "UpdateItem" else passing)(
        operation, request, send
    )
    assert (count("b").effect, pages().count("b")) == ("merged", 1)


def test_a_task_of_a_later_version_is_left_alone() -> None:
    Index.create("i-1")
    change(Index, "i-1", v={"N": "9"})
    with pytest.raises(TaskFormatError):
        ask("a")


INDEX: Any = Index

WRONG_ARGUMENTS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "debounce alone": (lambda: ask("a", debounce=True), ValueError, "give a due_time"),
    "debounce as text": (lambda: ask("a", debounce="yes"), TypeError, "debounce must be True or False"),
    "a state": (lambda: ask("a", state=Index.build.pending), TypeError, "does not take a state"),
    "a group": (lambda: ask("a", group="g"), TypeError, "does not take a group"),
    "data with merge": (lambda: ask("a", data={}), TypeError, "data cannot be merged"),
    "an unknown attribute": (lambda: ask("a", page=1), TypeError, "did you mean 'pages'"),
    "a function of one": (lambda: INDEX.create_or_merge("i-1", merge=lambda _: None), TypeError, "a function of"),
    "no due time": (lambda: ask("a", due_time=5), TypeError, "due_time must be"),
    "a text for a list": (lambda: Index.create_or_merge("i-1", pages="a"), ValueNotStorableError, "Index.pages"),
    "the table": (lambda: AppTask.create_or_merge("i-1"), TypeError, "is not a use case"),
}


@pytest.mark.parametrize("call", WRONG_ARGUMENTS)
def test_wrong_arguments_are_refused_before_any_request(call: str) -> None:
    act, kind, message = WRONG_ARGUMENTS[call]
    with unreached(), pytest.raises(kind, match=message):
        act()


# A task that only its due time holds back is made due by a write of that time.


def make_due(task_id: str) -> Any:
    return run_now(rows_to_show(Index, [task_id]).get(task_id))


def test_a_later_task_is_made_due_now_and_stays_as_it_is_otherwise(clock: StoppedClock) -> None:
    Index.create("i-1", pages=["a"], due_time=HOUR)
    row = stored(Index, "i-1")
    with recorded() as requests:
        task = make_due("i-1")
    assert requests.operations == ["BatchGetItem", "UpdateItem"]
    assert task is not None
    assert (task.due_time, task.to_dynamodb_dict()) == (clock.now(), Index.get_task("i-1").to_dynamodb_dict())
    after = stored(Index, "i-1")
    assert after == {**row, **{name: after[name] for name in ("request_count", "request_tokens", "due_time")}}
    assert make_due("i-1") is None
    assert stored(Index, "i-1") == after


def test_a_task_is_made_due_once_although_the_answer_got_lost(network: Network, clock: StoppedClock) -> None:
    Index.create("i-1", due_time=HOUR)

    def repeat(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        """Send an update again after the first response got lost, as botocore does."""
        if operation == "UpdateItem":
            send()
        return send()

    network.rule = repeat
    task = make_due("i-1")
    assert task is not None
    assert (task.due_time, Index.get_task("i-1").request_count) == (clock.now(), 1)


def recreate() -> None:
    due = Index.get_task("i-1").due_time
    Index.delete_task("i-1")
    Index.create("i-1", due_time=due)


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda: change(Index, "i-1", awaited_signals={"SS": ["paid"]}),
        lambda: change(Index, "i-1", blockers={"N": "1"}),
        lambda: Index.create_or_merge("i-1", due_time=HOUR / 2),
        lambda: Index.build.ignore("i-1", reason="no"),
        lambda: Index.delete_task("i-1"),
        recreate,
    ],
    ids=["awaits a signal", "waits for a task", "is due earlier", "is ignored", "is deleted", "is another"],
)
def test_a_task_that_changes_meanwhile_is_not_made_due(network: Network, meanwhile: Callable[[], object]) -> None:
    Index.create("i-1", due_time=HOUR)
    left = list[Any]()

    def act() -> None:
        meanwhile()
        left.append(list(all_rows(Index)))

    before(network, "UpdateItem", act)
    assert make_due("i-1") is None
    assert left == [list(all_rows(Index))]
