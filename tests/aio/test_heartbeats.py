"""Heartbeats as asyncio tasks: when they extend the lock, and when they end."""

import asyncio
import gc
import weakref
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import AsyncContext
from pynamodb_tracker.dynamodb.connection import shares_requests
from pynamodb_tracker.testing import StoppedClock
from tests.aio.slow_requests import Held, held
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order
from tests.support.through import Dispatch, through

LOCK = timedelta(minutes=5)
THIRD = LOCK / 3


def heartbeats() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if "heartbeat" in task.get_name()]


def test_a_heartbeat_extends_the_lock_after_each_third_of_its_time(clock: StoppedClock) -> None:
    Order.create("o-1")

    async def main() -> None:
        async with Order.confirm_payment.astart("o-1", heartbeat=True) as ctx:
            for _ in range(2):
                before = ctx.lock_expire_time
                clock.advance(THIRD - timedelta(seconds=1))
                await asyncio.sleep(0.05)
                assert ctx.lock_expire_time == before
                clock.advance(timedelta(seconds=1))  # no further: a beat may be slow, by the real time
                while ctx.lock_expire_time == before:
                    await asyncio.sleep(0.005)
                assert ctx.lock_expire_time - before == THIRD
        assert not heartbeats()

    asyncio.run(asyncio.wait_for(main(), 30))
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_beat_within_a_batch_does_not_wait_for_the_writes_of_others(clock: StoppedClock) -> None:
    Order.create("o-1")
    shared = list[bool]()

    def note(send: Dispatch, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if name == "UpdateItem":  # a thread may still read whether the step is paused
            shared.append(shares_requests())
        return send(name, body)

    async def run(ctx: AsyncContext[Order]) -> None:
        before = ctx.lock_expire_time
        shared.clear()
        clock.advance(THIRD)
        while ctx.lock_expire_time == before:
            await asyncio.sleep(0.002)
        assert shared == [False]

    with through(AppTask, note):
        report = asyncio.run(asyncio.wait_for(Order.confirm_payment.arun_all(run, heartbeat=True), 30))
    assert report.succeeded == ["o-1"]
    assert shared[-1]  # its end


def test_a_heartbeat_finds_out_that_the_lock_is_lost_and_ends(clock: StoppedClock) -> None:
    Order.create("o-1")

    async def main() -> None:
        async with Order.confirm_payment.astart("o-1", heartbeat=True, skip_error=True) as ctx:
            Order.confirm_payment.ignore("o-1", reason="wrong", even_running=True)
            clock.advance(THIRD)
            while heartbeats():
                await asyncio.sleep(0.002)
            assert ctx.lock_lost
            raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        asyncio.run(asyncio.wait_for(main(), 30))
    assert Order.get_task("o-1").state == Order.confirm_payment.ignored


def test_the_end_of_a_block_waits_for_a_beat_that_is_on_its_way(clock: StoppedClock) -> None:
    Order.create("o-1")

    async def main() -> None:
        with held(2) as beat:
            async with Order.confirm_payment.astart("o-1", heartbeat=True) as ctx:
                clock.advance(THIRD)
                await beat.sent()
                asyncio.get_running_loop().call_later(0.05, beat.answer)
            assert ctx.lock_expire_time == clock.now() + LOCK

    asyncio.run(asyncio.wait_for(main(), 30))
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_cancel_while_a_block_end_waits_for_a_beat_is_raised_once_the_end_is_recorded(clock: StoppedClock) -> None:
    Order.create("o-1")

    async def run(beat: Held, leaves: asyncio.Event) -> None:
        async with Order.confirm_payment.astart("o-1", heartbeat=True):
            clock.advance(THIRD)
            await beat.sent()
            leaves.set()

    async def main() -> None:
        with held(2) as beat:
            leaves = asyncio.Event()
            task = asyncio.create_task(run(beat, leaves))
            await leaves.wait()
            task.cancel()
            await asyncio.sleep(0)
            beat.answer()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(main(), 30))
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_run_that_is_dropped_inside_its_block_sends_no_further_beat(clock: StoppedClock) -> None:
    Order.create("o-1")

    async def main() -> None:
        run = Order.confirm_payment.astart("o-1", heartbeat=True)
        await run.__aenter__()
        dropped = weakref.ref(run)
        del run
        while dropped() is not None:  # the thread of its claim may hold it for a moment
            await asyncio.sleep(0.002)
            gc.collect()
        with recorded(AppTask) as requests:
            clock.advance(THIRD)
            while heartbeats():
                await asyncio.sleep(0.002)
        assert requests == []

    asyncio.run(asyncio.wait_for(main(), 30))
