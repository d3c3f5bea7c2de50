"""Handlers of async functions: on one event loop, which lives as long as the process."""

import asyncio
import os
import signal
from contextvars import ContextVar
from typing import Any

import pytest

from pynamodb_tracker import AsyncContext
from pynamodb_tracker.aws_lambda import handles, retry_handler
from tests.aws_lambda.events import bare, sqs
from tests.aws_lambda.shop import REQUEST, Broken, Context, Order, ShopTask, ready
from tests.support.recorder import recorded

name: ContextVar[str] = ContextVar("name", default="nobody")

loops: list[asyncio.AbstractEventLoop] = []


@handles(Order.ship, task_id="order_id", threads=3, store_result=True)
async def handler(ctx: AsyncContext[Order], event: Any) -> dict[str, Any]:
    assert ctx.invocation.aws_request_id == REQUEST
    loops.append(asyncio.get_running_loop())
    await ctx.save()
    if event.get("broken"):
        raise Broken(event["broken"])
    ctx.task.label = f"label by {name.get()}"
    return {"attempt": ctx.attempt}


def test_an_async_function_is_awaited_and_what_it_returns_is_stored_and_answered(context: Context) -> None:
    ready("o-1")
    name.set("the test")
    assert [handler(bare("o-1"), context) for _ in range(2)] == [{"attempt": 1}] * 2
    task = Order.get_task("o-1")
    assert (task.state, task.label) == (Order.deliver.pending, "label by the test")


def test_invocations_share_an_event_loop_so_that_clients_can_be_used_again(context: Context) -> None:
    ready("o-1", "o-2")
    loops.clear()
    for task_id in ("o-1", "o-2"):
        handler(bare(task_id), context)
    assert len(loops) == 2
    assert loops[0] is loops[1]


def test_a_handler_can_be_called_in_a_test_that_itself_runs_a_loop(context: Context) -> None:
    async def test() -> object:
        return handler(bare("o-1"), context)

    ready("o-1")
    assert asyncio.run(test()) == {"attempt": 1}


def test_its_failure_is_recorded_and_raised(context: Context) -> None:
    ready("o-1")
    with pytest.raises(Broken):
        handler(bare("o-1", broken="no ink"), context)
    assert Order.get_task("o-1").last_error == "Broken: no ink"


def test_off_row_data_is_read_before_the_function_which_must_not_block_the_loop(context: Context) -> None:
    @handles(Order.ship, task_id="order_id")
    async def look(ctx: AsyncContext[Order], _event: object) -> int:
        with recorded(ShopTask) as requests:
            size = len(ctx.task.data["scan"])
        assert requests == []
        return size

    Order.create("o-1", state=Order.ship.pending, data={"scan": "x" * 500_000})
    assert look(bare("o-1"), context) == 500_000


def test_records_of_a_batch_run_at_the_same_time(context: Context) -> None:
    barrier = asyncio.Barrier(3)

    @handles(Order.ship, task_id="order_id", threads=3)
    async def meet(_ctx: AsyncContext[Order], _event: object) -> None:
        await asyncio.wait_for(barrier.wait(), 30)

    ids = ["o-1", "o-2", "o-3"]
    ready(*ids)
    assert meet(sqs(*({"order_id": task_id} for task_id in ids)), context) == {"batchItemFailures": []}


def test_the_bound_function_of_a_step_may_be_async(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ship(ctx: AsyncContext[Order]) -> str:
        await asyncio.sleep(0)
        return ctx.task.task_id

    monkeypatch.setattr(Order.ship, "function", ship)
    ready("o-1", "o-2", "o-3")
    assert handles(Order.ship, task_id="order_id")(bare("o-1"), context) == "o-1"
    assert retry_handler(Order.ship)({}, context)["succeeded"] == 2


def test_retry_handler_takes_an_async_function(context: Context) -> None:
    async def ship(ctx: AsyncContext[Order]) -> None:
        await ctx.extend_lock()

    ready("o-1", "o-2")
    assert retry_handler(Order.ship, ship, threads=2)({}, context)["succeeded"] == 2


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_cancels_the_function_and_releases_its_task(context: Context) -> None:
    cancelled: list[bool] = []

    @handles(Order.ship, task_id="order_id")
    async def wait(_ctx: AsyncContext[Order], _event: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.append(True)

    ready("o-1")
    with pytest.raises(KeyboardInterrupt):
        wait(bare("o-1"), context)
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, cancelled) == (Order.ship.pending, 0, [True])
