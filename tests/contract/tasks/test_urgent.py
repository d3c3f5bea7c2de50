"""Urgent tasks: a lane in the index that each step reads first."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pynamodb_tracker import GiveUp, Repeat, RetryLater, Signal, Step, UseCase, Worker, clock
from pynamodb_tracker.aws_lambda import retry_handler
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.doctor.rows import examine_rows
from tests.support.declaring import refusal
from tests.support.recorder import recorded
from tests.support.rows import stored
from tests.support.shop import AppTask, Order
from tests.support.workers import die, fail, succeed
from tests.work.test_polling import Poller

pytestmark = pytest.mark.usefixtures("table")

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


class Express(AppTask):
    use_case_id = UseCase("express", urgent=True, status_shards=2)

    pack = Step(10, max_attempts=2, retry_delay=SECOND)
    send = Step(20, max_attempts=2)
    refund = Step(30, branch=True)

    paid = Signal("paid")


class Label(AppTask):
    use_case_id = UseCase("express label")

    print = Step(10)


def in_lane(task_id: str = "t") -> bool:
    """Return whether a task is in the lane, and check that the index finds it once."""
    task = Express.get_task(task_id)
    assert [each.task_id for each in task.state.query()].count(task_id) == 1
    return bool(task.status_key.endswith("#u"))


def is_as_its_row_says(task_id: str = "t") -> bool:
    row = stored(Express, task_id)
    expected = Express.tracker.status_key(int(row["status"]["N"]), task_id, is_urgent="urgent" in row)
    return bool(row["status_key"]["S"] == expected)


def create(**arguments: Any) -> None:
    Express.create("t", urgent=True, **arguments)


def give_up(step: Any = Express.pack) -> None:
    fail(step, "t", GiveUp("never"))


def step_ended() -> None:
    create()
    succeed(Express.pack, "t")


def step_ended_in_a_transaction() -> None:
    create()
    with Express.pack.start("t") as ctx, ctx.transaction(succeed=True):
        pass


def branch_chosen() -> None:
    create()
    with Express.pack.start("t") as ctx:
        ctx.go_to(Express.refund)


def failed() -> None:
    create()
    fail(Express.pack, "t")


def postponed() -> None:
    create()
    fail(Express.pack, "t", RetryLater(SECOND, use_attempt=False))


def released() -> None:
    create()
    fail(Express.pack, "t", KeyboardInterrupt())


def unlocked() -> None:
    create()
    die(Express.pack, "t")
    Express.pack.unlock("t", reason="dead", fencing_token=Express.get_task("t").lock)


def taken_over(clock: StoppedClock) -> None:
    create()
    die(Express.pack, "t")
    clock.advance(HOUR)
    Express.pack.run_all(lambda _: None)


def reopened(**options: Any) -> None:
    create()
    give_up()
    Express.pack.reopen("t", **options)


def reopened_with_many(threads: int) -> None:
    create()
    Express.create("other")
    for task_id in ("t", "other"):
        fail(Express.pack, task_id)
    assert not Express.pack.reopen_many(["t", "other"], threads=threads).refused
    assert not in_lane("other")


def cancelled_and_reopened() -> None:
    create()
    Express.cancel("t", reason="a mistake")
    Express.reopen("t")


def turn_got() -> None:
    Express.create("first", group="g")
    create(group="g")
    assert in_lane()
    for step in (Express.pack, Express.send):
        succeed(step, "first")
    assert Express.get_task("t").due_time <= clock.now()


def entered_again() -> None:
    create(group="g")
    give_up()
    Express.pack.reopen("t")


def signalled() -> None:
    create(wait_for=Express.paid)
    Express.paid.send("t", value=True)


def child_ended() -> None:
    create()
    with Express.pack.start("t") as ctx:
        ctx.create(Label, "l", wait=True)
    succeed(Label.print, "l")


def created_by_another() -> None:
    Express.create("parent")
    with Express.pack.start("parent") as ctx:
        ctx.create(Express, "t", urgent=True)


def repeated() -> None:
    create(repeat=Repeat.every(HOUR))
    Express.pack.run_all(lambda _: None)
    Express.send.run_all(lambda _: None)


def occurrence_given_up() -> None:
    create(repeat=Repeat.every(HOUR))
    give_up()


def occurrence_skipped(clock: StoppedClock) -> None:
    create(repeat=Repeat.every(HOUR))
    for _ in range(2):
        die(Express.pack, "t")
        clock.advance(HOUR)
    Express.pack.run_all(lambda _: None)
    assert Express.get_task("t").errors[-1].type == "skipped"


def merged(**options: Any) -> None:
    create()
    assert Express.create_or_merge("t", **options).effect == "merged"


def restarted() -> None:
    Express.create("t", urgent=True, state=Express.send.succeeded)
    assert Express.create_or_merge("t").effect == "restarted"


def made_urgent_as_it_restarts() -> None:
    Express.create("t", state=Express.send.succeeded)
    assert Express.create_or_merge("t", urgent=True).effect == "restarted"


def made_urgent_for_its_next_run() -> None:
    Express.create("t")
    with Express.pack.start("t"):
        assert Express.create_or_merge("t", urgent=True).effect == "queued"
    assert not in_lane()
    Express.create_or_merge("t")
    succeed(Express.send, "t")


def made_urgent_while_pending() -> None:
    Express.create("t", due_time=HOUR)
    assert Express.create_or_merge("t", urgent=True).effect == "merged"


def made_urgent_while_ignored() -> None:
    Express.create("t")
    give_up()
    assert Express.create_or_merge("t", urgent=True).effect == "ignored"
    Express.pack.reopen("t")


def hurried() -> None:
    Express.create("t")
    assert Express.pack.reopen("t", urgent=True).urgent


def reopened_as_urgent() -> None:
    Express.create("t")
    give_up()
    Express.pack.reopen("t", by="ada", urgent=True)


def reopened_as_urgent_with_many() -> None:
    Express.create_many(["t", "other"])
    for task_id in ("t", "other"):
        fail(Express.pack, task_id)
    with recorded() as requests:
        Express.pack.reopen_many(["t", "other"], urgent=True)
    assert "GetItem" not in requests.operations


def entered_again_as_urgent() -> None:
    Express.create("t", group="g")
    give_up()
    Express.pack.reopen("t", urgent=True)


HISTORIES: list[Callable[..., None]] = [
    *(step_ended, step_ended_in_a_transaction, branch_chosen, failed, postponed, released, unlocked, taken_over),
    *(reopened, partial(reopened, by="ada"), partial(reopened, clear_checkpoints=True), cancelled_and_reopened),
    *(partial(reopened_with_many, 1), partial(reopened_with_many, 25)),
    *(turn_got, entered_again, signalled, child_ended, created_by_another),
    *(repeated, occurrence_given_up, occurrence_skipped),
    *(merged, partial(merged, urgent=True), restarted, made_urgent_as_it_restarts, made_urgent_for_its_next_run),
    *(made_urgent_while_pending, made_urgent_while_ignored, hurried, reopened_as_urgent),
    *(reopened_as_urgent_with_many, entered_again_as_urgent),
]


@pytest.mark.parametrize("history", HISTORIES)
def test_an_urgent_task_is_back_in_the_lane_whenever_it_waits(history: Any, clock: StoppedClock) -> None:
    history(*([clock] if "clock" in getattr(history, "__annotations__", ()) else []))
    assert (in_lane(), Express.get_task("t").urgent) == (True, True)


def run_of_a_step() -> None:
    create()
    with Express.pack.start("t"):
        assert is_as_its_row_says()
        assert not in_lane()
    give_up(Express.send)


def end() -> None:
    Express.create("t", urgent=True, state=Express.send.pending)
    succeed(Express.send, "t")


@pytest.mark.parametrize("history", [run_of_a_step, end])
def test_an_urgent_task_that_does_not_wait_is_in_its_ordinary_shard(history: Callable[[], None]) -> None:
    history()
    assert is_as_its_row_says()
    assert not in_lane()


def worked(ran: list[str]) -> Callable[[Any], None]:
    return lambda ctx: ran.append(ctx.task.task_id)


WAYS: dict[str, Callable[[list[str]], object]] = {
    "run_all": lambda ran: Express.pack.run_all(worked(ran)),
    "Worker": lambda ran: Worker({Express.pack: worked(ran)}, threads=1).run(until_idle=True),
    "retry_handler": lambda ran: retry_handler(Express.pack, worked(ran), threads=1)({}, None),
    "due": lambda ran: ran.extend(task.task_id for task in Express.pack.due()),
    "due_ids": lambda ran: ran.extend(Express.pack.due_ids()),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_urgent_tasks_are_first_among_others_that_are_older(
    way: Callable[[list[str]], object], clock: StoppedClock
) -> None:
    Express.create_many(f"old-{number}" for number in range(60))
    clock.advance(HOUR)
    Express.create_many([{"task_id": f"urgent-{number}", "urgent": True} for number in range(2)])
    fail(Express.pack, "urgent-1")
    clock.advance(HOUR)
    ran: list[str] = []
    way(ran)
    assert {*ran[:2]} == {"urgent-0", "urgent-1"}
    assert len(ran) == len({*ran}) == 62


def test_a_worker_that_goes_through_many_tasks_takes_a_new_urgent_one_within_its_longest_pause(
    clock: StoppedClock,
) -> None:
    Express.create_many(f"old-{number}" for number in range(20))
    poller = Poller(Express.pack._definition, 2 * SECOND)
    for _ in range(3):
        task_id = poller.take() or ""
        succeed(Express.pack, task_id)
        poller.ends(task_id, "succeeded")
    create()
    clock.advance(2 * SECOND)
    assert poller.take() == "t"
    fail(Express.pack, "t")
    task = Express.get_task("t")
    poller.ends("t", "failed", due_time=task.due_time, tracker=task.tracker, status_key=task.status_key)
    clock.advance(2 * SECOND)
    assert (poller.take(), (poller.take() or "").partition("-")[0]) == ("t", "old")


def test_a_poll_asks_for_urgent_tasks_with_one_more_query_and_a_batch_with_two() -> None:
    def asked(model: Any, step: Any) -> tuple[int, int]:
        poller = Poller(step._definition, 2 * SECOND)
        poller.take()
        poller.poll_now()
        with recorded() as poll:
            assert poller.take() is None
        with recorded() as batch:
            step.run_all(print)
        assert {*poll.operations, *batch.operations} == {"Query"}
        shards = model.tracker.use_case.read_shards
        return len(poll.operations) - shards, len(batch.operations) - 3 * shards

    assert (asked(Order, Order.ship), asked(Express, Express.pack)) == ((0, 0), (1, 2))


def test_queries_pages_and_counts_include_urgent_tasks_in_the_order_of_their_due_times(clock: StoppedClock) -> None:
    for number in range(6):
        Express.create(f"t-{number}", urgent=number % 2 == 0)
        clock.advance(SECOND)
    state, ids, cursor = Express.pack.pending, list[str](), None
    while cursor is not None or not ids:
        page = state.page(limit=2, cursor=cursor)
        ids, cursor = [*ids, *(task.task_id for task in page.tasks)], page.cursor
    expected = [f"t-{number}" for number in range(6)]
    assert ids == [task.task_id for task in state.query()] == expected
    assert [entry.task_id for entry in state.index_page().tasks] == expected
    assert (state.count(), state.count(up_to=4), Express.counts()[state]) == (6, 4, 6)
    assert list(Express.pack.next_due()) == [state]


def program(*, urgent: bool) -> Any:
    """Return the use case as a program declares it."""

    class Letter(AppTask):
        use_case_id = UseCase("letter with a lane", urgent=urgent)

        write = Step(10)
        send = Step(20)

    return Letter


def test_a_program_without_the_lane_does_not_find_urgent_tasks_but_takes_them_out_of_it() -> None:
    program(urgent=True).create("t", urgent=True)
    before = program(urgent=False)
    assert list(before.write.due_ids()) == []
    assert "lane#10#u' does not belong to write pending, so declare urgent=True)" in examine_rows(before)[0].found
    succeed(before.write, "t")
    after = program(urgent=True)
    assert (list(after.send.due_ids()), examine_rows(after)) == (["t"], [])
    assert after.get_task("t").urgent
    fail(after.send, "t")
    assert after.get_task("t").status_key == "letter with a lane#22#u"


def by_follow_up(**urgent: Any) -> None:
    Express.create("t")
    with Express.pack.start("t") as ctx:
        ctx.create(Order, "o-1", **urgent)


@pytest.mark.parametrize(
    "call",
    [
        partial(Order.create, "o-1"),
        partial(Order.create_or_merge, "o-1"),
        partial(Order.ship.reopen, "o-1"),
        partial(Order.ship.reopen_many, ["o-1"]),
        by_follow_up,
        lambda **urgent: Order.create_many([{"task_id": "o-1", **urgent}]),
    ],
)
def test_a_use_case_without_the_lane_says_how_to_declare_it(call: Callable[..., object]) -> None:
    told = r"^no Order can be urgent: write use_case_id = UseCase\('order', urgent=True\), and deploy that to all "
    with pytest.raises(TypeError, match=told):
        call(urgent=True)


def test_urgent_is_true_or_false() -> None:
    assert "urgent='yes'" in refusal(use_case_id=UseCase("order", urgent="yes"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="urgent must be True or False"):
        Express.create("t", urgent="yes")  # type: ignore[arg-type]
