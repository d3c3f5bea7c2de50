"""A worker of async functions: on one event loop, until it is stopped."""

import asyncio
import logging
import os
import re
import signal
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest

from pynamodb_tracker import AsyncContext, AsyncWorker, LockLostError, Tally
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work import executor
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.source import Given
from pynamodb_tracker.work.task_executor import TaskExecutor
from pynamodb_tracker.worker.async_worker import _build_work
from pynamodb_tracker.worker.team import build_dispatcher, log_ended
from tests.support.processes import until
from tests.support.workers import Broken, die, raising
from tests.worker.shop import Order, Parcel

pytestmark = pytest.mark.usefixtures("shop")

AT_ONCE = timedelta(0)
LONG = timedelta(days=1)
WAIT = 30.0
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")

Ctx = AsyncContext[Order]

name: ContextVar[str] = ContextVar("name", default="nobody")


async def nothing(_ctx: AsyncContext[Any]) -> None:
    await asyncio.sleep(0)


class Waiting:
    def __init__(self, go: Callable[[asyncio.Event], Awaitable[object]] = asyncio.Event.wait) -> None:
        self.inside = asyncio.Event()
        self.go = asyncio.Event()
        self.was_cancelled = False
        self._wait = go

    async def __call__(self, ctx: Ctx) -> None:
        ctx.task.note = "not recorded"
        self.inside.set()
        try:
            await self._wait(self.go)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


async def begun(worker: AsyncWorker, function: Waiting) -> asyncio.Task[Any]:
    """Run a worker, and return its asyncio task once the function waits."""
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(function.inside.wait(), WAIT)
    return running


def run(worker: AsyncWorker) -> Any:
    return asyncio.run(asyncio.wait_for(worker.run(until_idle=True), WAIT))


def later(_ctx: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("functions", "options", "error"),
    [
        ({Order.confirm: later}, {}, "takes an async function"),
        ([Order], {}, "no step of Order has a function"),
        ({}, {}, "a function for each step"),
        ({Order.confirm: nothing}, {"concurrency": 0}, "concurrency must be a whole number from 1"),
        ({Order.confirm: nothing}, {"grace": 30}, "grace must be a timedelta"),
    ],
    ids=["not async", "not bound", "none", "concurrency", "grace"],
)
def test_wrong_arguments_are_refused_before_any_request(functions: Any, options: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        AsyncWorker(functions, **options)


def test_it_runs_all_due_tasks_of_every_bound_step(shop: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    async def work(ctx: AsyncContext[Any]) -> None:
        await ctx.save()
        ran.append(ctx.task.task_id)
        if ran.count("fails") == 1 and ctx.task.task_id == "fails":
            raise Broken

    for step in (Order.confirm, Order.ship, Parcel.sort):
        monkeypatch.setattr(step, "function", work)
    Order.create("abandoned")
    die(Order.confirm, "abandoned")
    shop.advance(timedelta(minutes=6))
    Order.create("fails")
    Parcel.create("p-1")
    assert run(AsyncWorker([Order, Parcel])) == {
        Order.confirm: Tally(succeeded=2, failed=1),
        Order.ship: Tally(succeeded=2),
        Parcel.sort: Tally(succeeded=1),
    }
    assert len(ran) == 6


@pytest.mark.parametrize("concurrency", [1, 3])
def test_as_many_functions_run_at_a_time_as_its_concurrency_says(concurrency: int) -> None:
    running, most, full = 0, 0, asyncio.Event()

    async def work(_ctx: Ctx) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == concurrency:
            full.set()
        await full.wait()
        running -= 1

    Order.create_many(f"o-{number}" for number in range(12))
    tallies = run(AsyncWorker({Order.confirm: work}, concurrency=concurrency))
    assert (tallies[Order.confirm].succeeded, most) == (12, concurrency)


def test_functions_run_on_the_loop_of_the_caller_with_its_context_variables() -> None:
    seen: list[object] = []

    async def work(_ctx: Ctx) -> None:
        seen.extend([asyncio.get_running_loop(), name.get()])
        name.set("one that nobody else sees")

    async def program() -> None:
        name.set("the program")
        await AsyncWorker({Order.confirm: work}).run(until_idle=True)
        assert seen == [asyncio.get_running_loop(), "the program"] * 2

    Order.create_many(["o-1", "o-2"])
    asyncio.run(program())


def test_what_still_runs_after_the_grace_time_is_cancelled_and_released(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        function = Waiting()
        worker = AsyncWorker({Order.confirm: function}, grace=AT_ONCE)
        running = await begun(worker, function)
        worker.stop()
        assert await running == {Order.confirm: Tally(released=1)}
        assert function.was_cancelled

    Order.create("o-1")
    asyncio.run(program())
    task = Order.get_task("o-1")
    assert (task.state, task.attempt) == (Order.confirm.pending, 0)
    assert task.to_dict().get("note") is None
    assert "Order.confirm of 'o-1' (attempt 1) was cancelled, and its task was released" in caplog.text


@pytest.mark.parametrize("stopped_first", [False, True])
def test_a_run_that_a_person_has_cancelled_is_cancelled_when_it_stops(*, stopped_first: bool) -> None:
    worker: Any = None

    async def lose(ctx: Ctx) -> None:
        await Order.confirm.aignore("o-1", reason="cancelled", even_running=True)
        if stopped_first:
            worker.stop()
            await asyncio.sleep(0)
        with pytest.raises(LockLostError):
            await ctx.extend_lock()
        worker.stop()
        await asyncio.Event().wait()

    async def main() -> None:
        nonlocal worker
        worker = AsyncWorker({Order.confirm: lose}, grace=LONG)
        running = asyncio.create_task(worker.run())
        done, _ = await asyncio.wait([running], timeout=WAIT / 2)
        for _ in range(2):  # ends the grace time
            running.cancel()
            await asyncio.sleep(0)
        assert done
        assert running.result() == {Order.confirm: Tally(refused=1)}

    Order.create("o-1")
    asyncio.run(main())
    assert Order.get_task("o-1").state == Order.confirm.ignored


def test_a_cancellation_stops_it_gracefully_and_leaves_once_everything_has_ended() -> None:
    async def program() -> None:
        function = Waiting()
        running = await begun(AsyncWorker({Order.confirm: function}, grace=LONG), function)
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=0.05)
        assert not done
        function.go.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    Order.create("o-1")
    asyncio.run(program())
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_second_cancellation_ends_the_grace_time() -> None:
    async def program() -> None:
        function = Waiting()
        running = await begun(AsyncWorker({Order.confirm: function}, grace=LONG), function)
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert function.was_cancelled

    Order.create("o-1")
    asyncio.run(program())
    assert Order.get_task("o-1").attempt == 0


def test_a_scope_of_anyio_that_cancels_again_and_again_does_not_end_the_grace_time() -> None:
    import anyio  # noqa: PLC0415 - where it is imported, cancellations are shielded from it

    async def program() -> None:
        function = Waiting()
        async with anyio.create_task_group() as group:
            group.start_soon(AsyncWorker({Order.confirm: function}, grace=LONG).run)
            await function.inside.wait()
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.sleep(0.05)
            function.go.set()
        assert not function.was_cancelled

    Order.create("o-1")
    asyncio.run(program())
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_function_that_ignores_its_cancellation_is_left_behind_and_its_task_released(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor, "GIVE_BACK_WITHIN", 0.05)

    async def stubborn(go: asyncio.Event) -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    async def program() -> None:
        function = Waiting(stubborn)
        worker = AsyncWorker({Order.confirm: function}, grace=AT_ONCE)
        running = await begun(worker, function)
        worker.stop()
        assert await running == {Order.confirm: Tally(released=1)}
        assert Order.get_task("o-1").state == Order.confirm.pending
        function.go.set()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    Order.create("o-1")
    asyncio.run(program())
    assert Order.get_task("o-1").fence == 1
    assert "still ran after the grace time and was released" in caplog.text


def test_a_task_that_is_cancelled_before_its_first_line_is_answered_and_does_not_count() -> None:
    async def main() -> None:
        settings = AsyncWorker({Order.confirm: nothing})._settings
        dispatcher = build_dispatcher(settings, partial(_build_work, settings))
        [source] = dispatcher.sources
        executor = TaskExecutor(dispatcher, 1, log_ended)
        source.window.note_sent()
        given = Given(source, "o-1", None, is_follow_up=False)
        executor._handed.add(given)
        executor._begin(given)
        [task] = executor._tasks
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
        assert (source.window.unanswered, source.tally) == (0, Tally())

    asyncio.run(main())


def test_an_error_of_the_library_itself_stops_the_worker_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dispatcher, "take", raising(NotImplementedError))
    with pytest.raises(NotImplementedError):
        run(AsyncWorker({Order.confirm: nothing, Order.ship: nothing}))


def test_a_cancellation_that_the_function_raises_itself_is_a_failure_and_the_worker_goes_on() -> None:
    async def work(ctx: Ctx) -> None:
        if ctx.task.task_id == "cancelled":
            raise asyncio.CancelledError

    Order.create_many(["cancelled", "o-1"])
    tally = run(AsyncWorker({Order.confirm: work}))[Order.confirm]
    assert (tally.succeeded, tally.released) == (1, 0)
    assert Order.get_task("cancelled").errors[0].type == "CancelledError"


def test_while_nothing_is_due_neither_the_loop_nor_its_threads_are_busy() -> None:
    async def program() -> None:
        worker = AsyncWorker({Order.confirm: nothing}, concurrency=100)
        running = asyncio.create_task(worker.run())
        loop: Any = asyncio.get_running_loop()
        turns, run_once = 0, loop._run_once

        def counted() -> None:
            nonlocal turns
            turns += 1
            run_once()

        loop._run_once = counted
        await asyncio.sleep(0.2)
        assert turns <= 10
        worker.stop()
        await running

    asyncio.run(program())


def test_a_second_stop_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        function = Waiting()
        worker = AsyncWorker({Order.confirm: function})
        running = await begun(worker, function)
        worker.stop()
        worker.stop()
        function.go.set()
        await running

    Order.create("o-1")
    caplog.set_level(logging.INFO)
    asyncio.run(program())
    assert caplog.text.count("stopping: ") == 1


def test_a_stop_after_its_end_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        worker = AsyncWorker({Order.confirm: nothing})
        await worker.run(until_idle=True)
        worker.stop()
        await asyncio.sleep(0)

    caplog.set_level(logging.INFO)
    asyncio.run(program())
    assert "stopping: " not in caplog.text


@posix
def test_sigterm_stops_it_gracefully_and_its_default_is_back_afterwards() -> None:
    during: list[Any] = []

    async def work(_ctx: Ctx) -> None:
        during.append(signal.getsignal(signal.SIGTERM))
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)

    Order.create("o-1")
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    tallies = asyncio.run(asyncio.wait_for(AsyncWorker({Order.confirm: work}).run(), WAIT))
    assert tallies == {Order.confirm: Tally(succeeded=1)}
    assert during != [signal.SIG_DFL]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == before


@posix
def test_sigterm_stops_all_workers_of_a_loop_whichever_ends_first() -> None:
    async def program() -> None:
        functions = [Waiting(), Waiting()]
        before = signal.getsignal(signal.SIGTERM)
        workers = [AsyncWorker({Order.confirm: function}, concurrency=1) for function in functions]
        running = [await begun(worker, function) for worker, function in zip(workers, functions, strict=True)]
        workers[0].stop()
        functions[0].go.set()
        await asyncio.wait_for(running[0], WAIT)
        assert signal.getsignal(signal.SIGTERM) is not before
        os.kill(os.getpid(), signal.SIGTERM)
        functions[1].go.set()
        await asyncio.wait_for(running[1], WAIT)
        assert signal.getsignal(signal.SIGTERM) is before

    Order.create("o-1")
    Order.create("o-2")
    asyncio.run(program())


@posix
def test_a_signal_that_the_program_or_its_server_handles_is_left_to_that() -> None:
    received: list[int] = []

    async def work(_ctx: Ctx) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)

    Order.create_many(["o-1", "o-2"])
    before = signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    try:
        assert run(AsyncWorker({Order.confirm: work})) == {Order.confirm: Tally(succeeded=2)}
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM] * 2


@posix
def test_a_handler_that_is_set_while_it_runs_stays() -> None:
    def handler(_number: int, _frame: object) -> None:
        pass

    async def work(_ctx: Ctx) -> None:
        signal.signal(signal.SIGTERM, handler)

    Order.create("o-1")
    before = signal.getsignal(signal.SIGTERM)
    try:
        run(AsyncWorker({Order.confirm: work}))
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


@posix
def test_ctrl_c_is_left_to_asyncio_which_cancels_the_worker() -> None:
    async def work(_ctx: Ctx) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.01)

    Order.create("o-1")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(AsyncWorker({Order.confirm: work}).run())
    assert Order.get_task("o-1").state == Order.ship.pending


@posix
def test_sigusr1_prints_what_runs_and_what_was_done(capfd: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []

    async def work(_ctx: Ctx) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        while "next poll" not in "".join(printed):
            await asyncio.sleep(0.01)
            printed.append(capfd.readouterr().err)

    Order.create("o-1")
    run(AsyncWorker({Order.confirm: work}, concurrency=7))
    first, second, _ = "".join(printed).splitlines()
    assert re.fullmatch(rf"worker .+:{os.getpid()}:\w{{4}}: 1 of 7 tasks run", first)
    assert second.startswith("  Order.confirm of 'o-1' (attempt 1): ")


def test_a_loop_that_is_closed_under_it_leaves_no_task_locked(caplog: pytest.LogCaptureFixture) -> None:
    """As when `asyncio.run` ends because of an exception elsewhere, and cancels everything."""
    caplog.set_level(logging.ERROR)

    async def program() -> None:
        function = Waiting()
        await begun(AsyncWorker({Order.confirm: function}, grace=LONG), function)

    Order.create("o-1")
    asyncio.run(program())
    assert Order.get_task("o-1").state == Order.confirm.pending
    assert not caplog.records


def test_after_its_loop_was_closed_no_thread_looks_for_tasks_any_more(shop: StoppedClock) -> None:
    def has_ended() -> bool:
        shop.advance(timedelta(seconds=30))
        return not [each for each in threading.enumerate() if each.name.startswith("pynamodb_tracker finder")]

    loop = asyncio.new_event_loop()
    running = loop.create_task(AsyncWorker({Order.confirm: nothing}).run())
    loop.run_until_complete(asyncio.wait([running], timeout=0.05))
    running.get_coro().close()  # what Python does when it drops the task
    # Otherwise asyncio logs an error when it is collected, in the middle of another test.
    cast("Any", running)._log_destroy_pending = False
    loop.close()
    Order.create("o-1")
    until(has_ended)
    assert Order.get_task("o-1").fence == 0
