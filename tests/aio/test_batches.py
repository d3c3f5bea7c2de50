"""`arun_all`: which tasks run, how many at a time, what is reported, and how it ends early."""

import asyncio
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import AsyncContext, Report
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work.dispatcher import Dispatcher
from tests.support.shop import AppTask, Order
from tests.support.through import Dispatch, through

pytestmark = pytest.mark.usefixtures("table")

FOREVER = 60.0


def create(number: int) -> list[str]:
    ids = [f"o-{each}" for each in range(number)]
    Order.create_many(ids)
    return ids


async def nothing(_ctx: object) -> None:
    pass


def test_each_task_runs_once_and_at_most_so_many_at_a_time() -> None:
    ids, running, most, seen = create(12), 0, 0, list[str]()

    async def main() -> Report:
        four = asyncio.Barrier(4)

        async def run(ctx: AsyncContext[Order]) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            seen.append(ctx.task.task_id)
            await four.wait()
            running -= 1
            if ctx.task.task_id == "o-7":
                raise ValueError

        return await asyncio.wait_for(Order.confirm_payment.arun_all(run, concurrency=4), FOREVER)

    report = asyncio.run(main())
    assert sorted(seen) == sorted(ids)
    assert (len(report.succeeded), report.failed, most) == (11, ["o-7"], 4)


def test_limit_and_only_are_those_of_run_all() -> None:
    create(3)
    with suppress(ZeroDivisionError):
        Order.confirm_payment.run("o-1", lambda _: 1 // 0)
    step = Order.confirm_payment
    assert asyncio.run(step.arun_all(nothing, only=(step.failed,))).succeeded == ["o-1"]
    assert len(asyncio.run(step.arun_all(nothing, limit=1)).succeeded) == 1
    with pytest.raises(ValueError, match="concurrency must be a whole number from 1"):
        asyncio.run(step.arun_all(nothing, concurrency=0))
    with pytest.raises(TypeError, match="progress must be a function"):
        asyncio.run(step.arun_all(nothing, progress="bar"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a function of the report that is not async"):
        asyncio.run(step.arun_all(nothing, progress=nothing))


def test_rate_limits_the_starts_and_progress_is_called_after_each_task(stopped_clock: StoppedClock) -> None:
    create(3)
    begin, counts = stopped_clock.now(), list[int]()

    def note(report: Report) -> None:
        counts.append(len(report.succeeded))

    asyncio.run(Order.confirm_payment.arun_all(nothing, concurrency=1, rate=0.1, progress=note))
    assert counts == [1, 2, 3]
    assert stopped_clock.now() - begin == timedelta(seconds=20)


def test_a_cancel_releases_the_running_tasks_and_starts_no_further_one() -> None:
    create(6)
    before = threading.active_count()

    async def main() -> None:
        begun = asyncio.Semaphore(0)

        async def run(_ctx: object) -> None:
            begun.release()
            await asyncio.sleep(FOREVER)

        batch = asyncio.create_task(Order.confirm_payment.arun_all(run, concurrency=3))
        for _ in range(3):
            await begun.acquire()
        feeds = {thread.daemon for thread in threading.enumerate() if "finder" in thread.name}
        assert feeds == {True}  # a loop that is left here does not keep the process from ending
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    tasks = Order.get_many(f"o-{number}" for number in range(6))
    assert {str(task.state) for task in tasks} == {"confirm_payment pending"}
    assert (sum(task.attempt for task in tasks), sum(task.fence for task in tasks)) == (0, 3)
    feeds = [thread for thread in threading.enumerate() if "finder" in thread.name]
    for feed in feeds:
        feed.join(FOREVER)
    assert threading.active_count() <= before + 32


def test_a_cancel_does_not_wait_for_threads_that_look_for_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    looking, go = threading.Event(), threading.Event()

    def take(_: Dispatcher) -> None:
        looking.set()
        go.wait(FOREVER)

    async def main() -> set[asyncio.Task[Report]]:
        batch = asyncio.create_task(Order.confirm_payment.arun_all(nothing))
        await asyncio.to_thread(looking.wait, FOREVER)
        batch.cancel()
        done, _ = await asyncio.wait([batch], timeout=FOREVER / 4)
        go.set()
        return done

    monkeypatch.setattr(Dispatcher, "take", take)
    assert len(asyncio.run(main())) == 1


@pytest.mark.parametrize("rate", [None, 100.0])
def test_a_cancel_at_any_moment_leaves_no_thread_that_waits(rate: float | None) -> None:
    create(6)

    async def main() -> None:
        for turns in range(12):
            batch = asyncio.create_task(Order.confirm_payment.arun_all(nothing, concurrency=3, rate=rate))
            for _ in range(turns):
                await asyncio.sleep(0.001)
            batch.cancel()
            with suppress(asyncio.CancelledError):
                await batch

    asyncio.run(main())
    for thread in [thread for thread in threading.enumerate() if "finder" in thread.name]:
        thread.join(60)
        assert not thread.is_alive()


def test_an_error_that_is_no_refusal_ends_the_batch_once_the_running_tasks_have_ended() -> None:
    create(4)
    ended = list[str]()

    async def run(ctx: AsyncContext[Order]) -> None:
        await asyncio.sleep(0.05)
        ended.append(ctx.task.task_id)

    def broken(send: Dispatch, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if name == "UpdateItem" and "o-1" in str(body["Key"]):
            raise ArithmeticError("a bug of some signal handler")
        return send(name, body)

    with through(AppTask, broken), pytest.raises(ArithmeticError):
        asyncio.run(Order.confirm_payment.arun_all(run, concurrency=4))
    assert "o-1" not in ended
    assert all(Order.get_task(task_id).state == Order.ship.pending for task_id in ended)


def test_a_cancel_after_such_an_error_releases_what_still_runs() -> None:
    create(3)

    async def main() -> None:
        begun = asyncio.Event()

        async def run(_ctx: object) -> None:
            begun.set()
            await asyncio.sleep(FOREVER)

        def fail_second(send: Dispatch, name: str, body: dict[str, Any]) -> dict[str, Any]:
            if name == "UpdateItem" and "o-1" in str(body["Key"]):
                failed.set()
                raise ArithmeticError("a bug of some signal handler")
            return send(name, body)

        failed = threading.Event()
        with through(AppTask, fail_second):
            batch = asyncio.create_task(Order.confirm_payment.arun_all(run, concurrency=3))
            await begun.wait()
            assert await asyncio.to_thread(failed.wait, FOREVER)
            while any("o-1" in task.get_name() for task in asyncio.all_tasks()):
                await asyncio.sleep(0.001)
            batch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await batch

    asyncio.run(main())
    assert {str(task.state) for task in Order.get_many(["o-0", "o-2"])} == {"confirm_payment pending"}


def test_a_cancelled_error_of_the_function_fails_its_task_and_does_not_end_the_batch() -> None:
    create(3)

    async def run(ctx: AsyncContext[Order]) -> None:
        if ctx.task.task_id == "o-0":
            raise asyncio.CancelledError

    report = asyncio.run(Order.confirm_payment.arun_all(run))
    assert (report.failed, len(report.succeeded)) == (["o-0"], 2)


def test_many_batches_at_the_same_time_do_not_wait_for_each_other_s_threads() -> None:
    create(40)

    async def main() -> list[Report]:
        step = Order.confirm_payment
        return await asyncio.gather(*(step.arun_all(nothing, concurrency=2, limit=1) for _ in range(40)))

    assert len(asyncio.run(asyncio.wait_for(main(), FOREVER))) == 40
