"""`run` and `run_all`: a function on one task, and on all that there is to do."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    ExecutionContext,
    GiveUp,
    LockLostError,
    Report,
    RetryLater,
    Step,
    TaskNotFoundError,
    UseCase,
)
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.query import state_scan
from tests.support.engines import only_dynoxide
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

THREADS = [1, 8]

Ctx = ExecutionContext[Order]


class Eager(AppTask):
    use_case_id = UseCase("eager")

    work = Step(10, max_attempts=99)


def nothing(_ctx: ExecutionContext[Any]) -> None:
    """Do what there is to do in a block that only succeeds."""


def test_run_returns_what_the_function_returns() -> None:
    Order.create("o-1", amount=20)
    assert Order.confirm_payment.run("o-1", lambda ctx: (ctx.task.amount, ctx.attempt)) == (20, 1)
    assert Order.get_task("o-1").state == Order.ship.pending


def test_run_propagates_the_exception_of_the_function() -> None:
    def break_down(_ctx: Ctx) -> None:
        raise Broken("it broke")

    Order.create("o-1")
    with pytest.raises(Broken, match="it broke"):
        Order.confirm_payment.run("o-1", break_down)
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


def test_run_takes_a_time_for_its_lock(clock: StoppedClock) -> None:
    Order.create("o-1")
    expire = Order.confirm_payment.run("o-1", lambda ctx: ctx.lock_expire_time, lock_for=timedelta(hours=1))
    assert expire == clock.now() + timedelta(hours=1)


@pytest.mark.parametrize("threads", THREADS)
def test_run_all_runs_what_is_pending_failed_and_abandoned(threads: int, clock: StoppedClock) -> None:
    Order.create("abandoned")
    die(Order.confirm_payment, "abandoned")
    clock.advance(timedelta(minutes=6))
    Order.create("failed")
    fail(Order.confirm_payment, "failed")
    Order.create("pending")
    report = Order.confirm_payment.run_all(nothing, threads=threads)
    assert (sorted(report.succeeded), Order.ship.pending.count()) == (["abandoned", "failed", "pending"], 3)


@pytest.mark.parametrize("threads", THREADS)
def test_run_all_leaves_what_is_not_due_running_finished_or_ignored(threads: int, clock: StoppedClock) -> None:
    Order.create("later", due_time=clock.now() + timedelta(hours=1))
    Order.create("running")
    die(Order.confirm_payment, "running")
    Order.create("done")
    succeed(Order.confirm_payment, "done")
    Order.create("ignored", state=Order.confirm_payment.ignored)
    assert Order.confirm_payment.run_all(nothing, threads=threads) == Report()


@pytest.mark.parametrize("threads", THREADS)
def test_the_report_lists_the_outcome_of_each_task(threads: int) -> None:
    def work(ctx: Ctx) -> None:
        match ctx.task.task_id:
            case "breaks" | "breaks too":
                raise Broken
            case "gives up":
                raise GiveUp
            case "later":
                raise RetryLater(timedelta(hours=1))
            case "odd":
                ctx.task.data["a"] = object()
            case _:
                pass

    Order.create_many(["succeeds", "breaks", "breaks too", "gives up", "later", "odd", "succeeds too"])
    for _ in range(2):
        fail(Order.confirm_payment, "breaks too")
    report = Order.confirm_payment.run_all(work, threads=threads)
    assert (sorted(report.succeeded), sorted(report.failed)) == (["succeeds", "succeeds too"], ["breaks", "later"])
    assert (sorted(report.ignored), report.refused) == (["breaks too", "gives up", "odd"], {})


@pytest.mark.parametrize("threads", THREADS)
def test_a_task_whose_attempts_are_used_up_is_reported_as_ignored(threads: int, clock: StoppedClock) -> None:
    Order.create("o-1")
    for _ in range(3):
        die(Order.confirm_payment, "o-1")
        clock.advance(timedelta(minutes=6))
    assert Order.confirm_payment.run_all(nothing, threads=threads) == Report(ignored=["o-1"])


@pytest.mark.parametrize("threads", THREADS)
def test_a_task_that_fails_again_is_not_tried_twice(threads: int) -> None:
    ran: list[str] = []

    def work(ctx: ExecutionContext[Eager]) -> None:
        ran.append(ctx.task.task_id)
        raise Broken

    Eager.create_many([{"task_id": f"e-{number}", "state": Eager.work.failed} for number in range(10)])
    report = Eager.work.run_all(work, threads=threads)
    assert sorted(report.failed) == sorted(ran) == sorted(f"e-{number}" for number in range(10))


@only_dynoxide
def test_a_task_that_fails_again_is_not_tried_twice_from_a_later_page(clock: StoppedClock) -> None:
    ran: list[str] = []

    def work(ctx: ExecutionContext[Eager]) -> None:
        ran.append(ctx.task.task_id)
        if len(ran) < 3:
            clock.advance(timedelta(seconds=1))
            raise Broken

    Eager.create_many((f"e-{number:03}" for number in range(110)), threads=4)
    Eager.work.run_all(work)
    assert len(ran) == len(set(ran)) == 110


def test_a_task_that_another_worker_took_meanwhile_is_refused() -> None:
    def work(ctx: Ctx) -> None:
        if ctx.task.task_id == "o-1":
            Order.delete_task("o-2")
            die(Order.confirm_payment, "o-3")

    Order.create_many(["o-1", "o-2", "o-3", "o-4"])
    report = Order.confirm_payment.run_all(work)
    assert sorted(report.succeeded) == ["o-1", "o-4"]
    assert {task_id: type(error).__name__ for task_id, error in report.refused.items()} == {
        "o-2": "TaskNotFoundError",
        "o-3": "TaskLockedError",
    }


def test_a_task_whose_lock_was_lost_is_refused(clock: StoppedClock) -> None:
    def work(_: Ctx) -> None:
        clock.advance(timedelta(minutes=6))
        succeed(Order.confirm_payment, "o-1")

    Order.create("o-1")
    report = Order.confirm_payment.run_all(work)
    assert type(report.refused["o-1"]) is LockLostError
    assert (report.succeeded, report.failed) == ([], [])


@pytest.mark.parametrize("error", [LockLostError("of another task"), TaskNotFoundError("of another task")])
def test_an_error_of_another_task_within_the_function_is_a_failure_of_this_one(error: Exception) -> None:
    def work(_: Ctx) -> None:
        raise error

    Order.create("o-1")
    assert Order.confirm_payment.run_all(work) == Report(failed=["o-1"])


@pytest.mark.parametrize("threads", THREADS)
def test_ctrl_c_in_the_function_propagates_and_releases_its_task(threads: int) -> None:
    def work(ctx: Ctx) -> None:
        if ctx.task.task_id == "o-1":
            raise KeyboardInterrupt

    Order.create("o-1")
    with pytest.raises(KeyboardInterrupt):
        Order.confirm_payment.run_all(work, threads=threads)
    task = Order.get_task("o-1")
    assert (task.state, task.attempt) == (Order.confirm_payment.pending, 0)


@pytest.mark.parametrize("threads", THREADS)
def test_sys_exit_in_the_function_is_recorded_and_propagates(threads: int) -> None:
    def work(_: Ctx) -> None:
        raise SystemExit(3)

    Order.create("o-1")
    with pytest.raises(SystemExit):
        Order.confirm_payment.run_all(work, threads=threads)
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


@pytest.mark.parametrize("threads", THREADS)
def test_a_function_that_raises_a_cancelled_error_fails_its_task_and_the_batch_continues(threads: int) -> None:
    def leave_first(ctx: Ctx) -> None:
        if ctx.task.task_id == "o-1":
            raise asyncio.CancelledError

    Order.create_many(["o-1", "o-2"])
    report = Order.confirm_payment.run_all(leave_first, threads=threads)
    assert (report.failed, report.succeeded) == (["o-1"], ["o-2"])


def test_ctrl_c_starts_nothing_more(clock: StoppedClock) -> None:
    def work(ctx: Ctx) -> None:
        if ctx.task.task_id == "o-3":
            raise KeyboardInterrupt

    for number in range(6):
        Order.create(f"o-{number}")
        clock.advance(timedelta(seconds=10))
    with pytest.raises(KeyboardInterrupt):
        Order.confirm_payment.run_all(work)
    assert sorted(task.task_id for task in Order.confirm_payment.pending.query()) == ["o-3", "o-4", "o-5"]
    assert Order.ship.pending.count() == 3


def test_ctrl_c_on_threads_leaves_no_task_in_progress() -> None:
    def work(ctx: Ctx) -> None:
        if ctx.task.task_id == "o-5":
            raise KeyboardInterrupt

    Order.create_many((f"o-{number}" for number in range(40)), threads=4)
    with pytest.raises(KeyboardInterrupt):
        Order.confirm_payment.run_all(work, threads=8)
    assert Order.confirm_payment.in_progress.count() == 0
    assert Order.confirm_payment.pending.count() + Order.ship.pending.count() == 40


def test_run_all_on_threads_runs_on_so_many_at_once() -> None:
    barrier = threading.Barrier(4, timeout=60)

    def work(_: Ctx) -> None:
        barrier.wait()

    Order.create_many(f"o-{number}" for number in range(8))
    assert len(Order.confirm_payment.run_all(work, threads=4).succeeded) == 8


def test_run_all_on_one_thread_runs_in_this_one() -> None:
    seen: list[threading.Thread] = []
    Order.create("o-1")
    Order.confirm_payment.run_all(lambda _: seen.append(threading.current_thread()))
    assert seen == [threading.current_thread()]


def test_run_all_of_one_shard_begins_with_the_oldest(clock: StoppedClock) -> None:
    ran: list[str] = []
    for number in range(5):
        Order.create(f"o-{number}")
        clock.advance(timedelta(minutes=1))
    Order.confirm_payment.run_all(lambda ctx: ran.append(ctx.task.task_id))
    assert ran == [f"o-{number}" for number in range(5)]


@pytest.mark.parametrize("threads", THREADS)
def test_run_all_takes_a_limit_and_a_window(threads: int, clock: StoppedClock) -> None:
    begin = clock.now()
    for number in range(6):
        Order.create(f"o-{number}")
        clock.advance(timedelta(minutes=1))
    window: dict[str, Any] = {"since": begin + timedelta(minutes=1), "until": begin + timedelta(minutes=5)}
    report = Order.confirm_payment.run_all(nothing, threads=threads, limit=2, **window)
    assert sorted(report.succeeded) == ["o-1", "o-2"]


@only_dynoxide
def test_run_all_reads_a_page_of_tasks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_scan, "PAGE", 50)
    monkeypatch.setattr(Eager.use_case_id, "pausable", False)  # no request for its pauses
    operations: list[str] = []

    def work(_: ExecutionContext[Eager]) -> None:
        operations.extend(requests.operations)
        requests.clear()

    Eager.create_many((f"e-{number}" for number in range(51)), threads=4)
    with recorded() as requests:
        Eager.work.run_all(work)
    first = operations.index("UpdateItem")
    assert (operations[:first], operations[first:].count("Query")) == (["Query"] * 3, 1)


def test_run_all_of_nothing_reports_nothing() -> None:
    assert Order.confirm_payment.run_all(nothing) == Report()


def test_a_report_is_printed_in_words() -> None:
    Order.create_many(["o-1", "o-2"])
    assert str(Order.confirm_payment.run_all(nothing)) == "2 succeeded, 0 failed, 0 ignored, 0 refused"
