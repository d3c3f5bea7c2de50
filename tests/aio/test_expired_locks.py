"""A lock that expires before its block: no block begins until the lock lasts again, whatever took so long."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import AsyncWorker, LockLostError, Tally, TaskNotStartableError, Worker
from pynamodb_tracker.aio.loop_thread import LoopThread
from pynamodb_tracker.aws_lambda import handles
from pynamodb_tracker.exceptions import address_of
from pynamodb_tracker.instrumentation import Hook, RunDetails, add_hook
from pynamodb_tracker.testing import StoppedClock
from tests.contract.runs.test_claims_released import given_back
from tests.support.network import error
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order
from tests.support.through import Change, Dispatch, through
from tests.support.workers import die

OVER = timedelta(minutes=6)
"""More than the lock of a run and the clock margin."""
TEXT = "x" * 50_000


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    remove = add_hook(hook)
    try:
        yield
    finally:
        remove()


def after(name: str, act: Callable[[], object]) -> Change:
    """Let something happen before each answer to a request of that operation arrives."""

    def change(send: Dispatch, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = send(operation, body)
        if operation == name:
            act()
        return answer

    return change


def busy(clock: StoppedClock, calls: list[bool]) -> Callable[[], None]:
    """Let the loop be busy for long before it comes to an answer that a thread has received; note who sends requests.

    An answer that the loop has waited for itself is the last one: what comes then is the end of the run.
    """
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def act() -> None:
        calls.append(threading.get_ident() == thread)
        if not any(calls):
            loop.call_soon_threadsafe(clock.advance, OVER)

    return act


async def begins(ctx: Any, *_: object) -> None:
    assert not ctx.lock_lost
    ctx.task.data["began"] = True


async def never(_: Any, *__: object) -> None:
    pytest.fail("the function began")


def test_after_a_slow_read_of_off_row_data_the_lock_is_extended(clock: StoppedClock) -> None:
    Order.create("o-1", data={"text": TEXT})
    with through(AppTask, after("BatchGetItem", lambda: clock.advance(OVER))), recorded(AppTask) as requests:
        asyncio.run(Order.confirm_payment.arun("o-1", begins))
    assert requests.operations[:3] == ["UpdateItem", "BatchGetItem", "UpdateItem"]
    assert Order.get_task("o-1").data["began"]


def test_a_run_that_lost_its_task_before_its_block_never_begins_it(clock: StoppedClock) -> None:
    Order.create("o-1", data={"text": TEXT})
    taken = list[bool]()

    def take() -> None:
        if not taken:
            taken.append(True)
            clock.advance(OVER)
            die(Order.confirm_payment, "o-1")

    with through(AppTask, after("BatchGetItem", take)), pytest.raises(LockLostError, match="extend the lock") as lost:
        asyncio.run(Order.confirm_payment.arun("o-1", never))
    assert lost.value.__notes__ == [address_of(LockLostError)]
    assert (Order.get_task("o-1").state, Order.get_task("o-1").fence) == (Order.confirm_payment.in_progress, 2)


@pytest.mark.parametrize("way", ["astart", "arun_all", "AsyncWorker"])
def test_on_a_busy_loop_the_last_extension_does_not_leave_it(clock: StoppedClock, way: str) -> None:
    Order.create("o-1")
    calls, step = list[bool](), Order.confirm_payment
    step._definition.pause()  # records the numbers of the steps, before updates are counted

    async def main() -> None:
        with through(AppTask, after("UpdateItem", busy(clock, calls))):
            match way:
                case "astart":
                    async with step.astart("o-1", heartbeat=True) as ctx:
                        await begins(ctx)
                        assert calls == [False, False, False, True]
                case "arun_all":
                    assert (await step.arun_all(begins)).succeeded == ["o-1"]
                case _:
                    await AsyncWorker({step: begins}).run(until_idle=True)

    asyncio.run(asyncio.wait_for(main(), 30))
    assert calls == [False, False, False, True, False]  # claim, three extensions, and the end
    assert Order.get_task("o-1").data["began"]


@pytest.mark.parametrize(("way", "failing"), [("handles", False), ("handles", True), ("Worker", False)])
def test_a_function_that_a_thread_runs_waits_for_its_loop_before_the_check(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch, way: str, *, failing: bool
) -> None:
    Order.create("o-1")
    Order.confirm_payment._definition.pause()  # as above
    call, updates = LoopThread.call, list[str]()

    def late(loop: LoopThread, work: Any) -> Any:
        clock.advance(OVER)
        return call(loop, work)

    def fail(send: Dispatch, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        updates.extend([operation] if operation == "UpdateItem" else [])
        if failing and len(updates) == 2:
            raise error(operation, "AccessDeniedException")
        return send(operation, body)

    function = never if failing else begins
    monkeypatch.setattr(LoopThread, "call", late)
    with through(AppTask, fail):
        if way == "Worker":
            (tally,) = Worker({Order.confirm_payment: function}).run(until_idle=True).values()
            assert tally == Tally(succeeded=1)
        elif failing:
            with pytest.raises(UpdateError):
                handles(Order.confirm_payment, task_id="id", threads=1)(function)({"id": "o-1"}, None)
        else:
            handles(Order.confirm_payment, task_id="id")(function)({"id": "o-1"}, None)
    assert len(updates) == 3
    assert given_back() if failing else Order.get_task("o-1").data["began"]


class Slow(Hook):
    """Takes long, once before each start."""

    def __init__(self, clock: StoppedClock) -> None:
        self.clock = clock
        self.ends = list[str | None]()

    def on_start(self, run: RunDetails) -> None:  # noqa: ARG002 - it takes as long for all
        self.clock.advance(OVER)

    def on_end(self, run: RunDetails) -> None:
        self.ends.append(run.outcome)


@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_after_a_slow_hook_the_lock_is_extended_three_times_at_most(clock: StoppedClock, late: int) -> None:
    Order.create("o-1")
    slow, durations = Slow(clock), iter([timedelta(0), *[OVER] * late])
    answered = after("UpdateItem", lambda: clock.advance(next(durations, timedelta(0))))
    with hooked(slow), through(AppTask, answered), recorded(AppTask) as requests:
        if late < 3:
            with Order.confirm_payment.start("o-1") as ctx:
                assert not ctx.lock_lost
        else:
            with pytest.raises(
                TaskNotStartableError, match=r"responses take longer than lock_for \(0:05:00\)"
            ) as raised:
                Order.confirm_payment.run("o-1", lambda _: pytest.fail("it began"))
            assert raised.value.__notes__ == [address_of(TaskNotStartableError)]
    assert requests.operations == ["UpdateItem"] * (min(late + 1, 3) + 2)
    assert slow.ends == ["succeeded" if late < 3 else "released"]
    assert given_back() is (late == 3)
