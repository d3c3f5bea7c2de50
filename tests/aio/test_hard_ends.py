"""Runs whose program ends around them: how they end is recorded all the same."""

import asyncio
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.aio import pool
from pynamodb_tracker.testing import StoppedClock
from tests.aio.slow_requests import held
from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")


class InBlock:
    """A run that stays in its block, and its coroutine, which no task has."""

    def __init__(self, *, heartbeat: bool) -> None:
        self.is_inside = False
        self.coroutine: Coroutine[Any, Any, None] = self._run(heartbeat=heartbeat)

    async def _run(self, *, heartbeat: bool) -> None:
        async with Order.confirm_payment.astart("o-1", heartbeat=heartbeat):
            self.is_inside = True
            await asyncio.Event().wait()

    def __await__(self) -> Generator[Any, Any, None]:
        """Wait until it is inside."""
        while True:
            waits_for = self.coroutine.send(None)
            if self.is_inside:
                return
            yield waits_for


@pytest.mark.parametrize("heartbeat", [False, True])
@pytest.mark.parametrize("has_loop", [False, True])
def test_a_coroutine_that_is_closed_in_its_block_fails_the_attempt(heartbeat: object, has_loop: object) -> None:
    Order.create("o-1")

    async def main() -> InBlock:
        run = InBlock(heartbeat=bool(heartbeat))
        await run
        if has_loop:
            run.coroutine.close()
        return run

    asyncio.run(main()).coroutine.close()

    task = Order.get_task("o-1")
    assert (task.state, [failure.type for failure in task.errors]) == (Order.confirm_payment.failed, ["GeneratorExit"])


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_coroutine_that_is_closed_during_its_claim_releases_the_task(is_answered: object) -> None:
    Order.create("o-1")

    async def run() -> None:
        async with Order.confirm_payment.astart("o-1"):
            pytest.fail("the block must not start")

    async def main() -> None:
        with held(1) as claim:
            coroutine = run()
            answered: asyncio.Future[Any] = coroutine.send(None)
            await claim.sent()
            if is_answered:
                claim.answer()
                await asyncio.wait((answered,))
            else:
                threading.Timer(0.01, claim.answer).start()
            coroutine.close()

    asyncio.run(main())
    assert Order.get_task("o-1").state == Order.confirm_payment.pending


def test_a_coroutine_that_is_closed_while_its_heartbeat_ends_records_how_the_block_ended() -> None:
    Order.create("o-1")

    async def run() -> None:
        async with Order.confirm_payment.astart("o-1", heartbeat=True):
            pass

    async def main() -> None:
        coroutine = run()
        await asyncio.wait((coroutine.send(None),))
        coroutine.send(None)
        coroutine.close()

    asyncio.run(main())
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_run_is_recorded_although_the_main_thread_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1")
    ended = ThreadPoolExecutor()
    ended.shutdown()  # what Python does to all of them then

    async def main() -> None:
        async with Order.confirm_payment.astart("o-1") as ctx:
            monkeypatch.setattr(pool.RUNS, "_executor", ended)
            ctx.task.amount = 5
            await ctx.save()

    asyncio.run(main())
    task = Order.get_task("o-1")
    assert (task.state, task.amount) == (Order.ship.pending, 5)


def test_a_heartbeat_goes_on_while_a_block_cancelled_with_all_tasks_cleans_up(stopped_clock: StoppedClock) -> None:
    Order.create("o-1")
    extended = list[timedelta]()

    async def clean_up() -> None:
        async with Order.confirm_payment.astart("o-1", heartbeat=True) as ctx:
            try:
                inside.set()
                await asyncio.Event().wait()
            finally:
                before = ctx.lock_expire_time
                stopped_clock.advance(timedelta(minutes=2))
                while ctx.lock_expire_time == before:
                    await asyncio.sleep(0.002)
                extended.append(ctx.lock_expire_time - before)

    async def main() -> None:
        run = asyncio.create_task(clean_up())
        await inside.wait()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(run, 60)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    inside = asyncio.Event()
    asyncio.run(main())
    assert extended == [timedelta(minutes=2)]
    assert Order.get_task("o-1").state == Order.confirm_payment.pending
