"""Runs on an event loop: what they do, what is recorded, and what never happens on the loop itself."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    AsyncContext,
    ExecutionContext,
    TaskAlreadySucceededError,
    TaskLockedError,
    TaskNotFoundError,
)
from pynamodb_tracker.instrumentation import Hook, RunDetails, add_hook
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order, Parcel
from tests.support.through import Dispatch, through

pytestmark = pytest.mark.usefixtures("table")

tracing: ContextVar[str] = ContextVar("tracing", default="none")


def test_the_context_has_the_members_of_the_one_without_an_event_loop() -> None:
    assert set(dir(AsyncContext)) >= {name for name in dir(ExecutionContext) if not name.startswith("_")}


async def ship(ctx: AsyncContext[Order]) -> str:
    ctx.task.data["label"] = "L-1"
    return "shipped"


def test_arun_returns_what_the_function_returns() -> None:
    Order.create("o-1")
    assert asyncio.run(Order.confirm_payment.arun("o-1", ship)) == "shipped"
    assert Order.get_task("o-1").data == {"label": "L-1"}


def test_arun_stores_the_answer_with_the_success() -> None:
    Order.create("o-1")
    assert asyncio.run(Order.confirm_payment.arun("o-1", ship, store_result=True)) == "shipped"
    assert Order.confirm_payment.result("o-1") == "shipped"


def test_refusals_are_those_of_start() -> None:
    Order.create("o-1")

    async def main() -> None:
        async with Order.confirm_payment.astart("o-1"):
            with pytest.raises(TaskLockedError):
                await Order.confirm_payment.arun("o-1", ship)
        with pytest.raises(TaskAlreadySucceededError):
            await Order.confirm_payment.arun("o-1", ship)
        with pytest.raises(TaskNotFoundError):
            await Order.confirm_payment.arun("o-2", ship)

    asyncio.run(main())


def test_arguments_are_checked_when_astart_is_called() -> None:
    for wrong in ({"lock_for": 5}, {"heartbeat": "yes"}, {"skip_errors": True}):
        with pytest.raises(TypeError):
            Order.confirm_payment.astart("o-1", **wrong)


def test_arun_takes_no_skip_error_because_it_would_have_nothing_to_return() -> None:
    Order.create("o-1")
    options: dict[str, Any] = {"skip_error": True}
    with pytest.raises(TypeError, match="values for keyword argument 'skip_error'"):
        asyncio.run(Order.confirm_payment.arun("o-1", ship, **options))
    assert Order.get_task("o-1").state == Order.confirm_payment.pending


def test_a_forgotten_async_with_is_an_error_that_says_so() -> None:
    forgotten: Any = Order.ship.astart("o-1")
    with pytest.raises(
        AttributeError, match=r"write `async with Order\.ship\.astart\('o-1'\) as ctx:`, and ctx\.task in its block"
    ):
        forgotten.task.data["a"] = 1
    with pytest.raises(AttributeError, match="a run has no attribute 'tsak'"):
        forgotten.tsak()
    runs = [forgotten]
    del forgotten
    with pytest.warns(ResourceWarning, match="was never entered, so nothing was claimed"):
        runs.clear()


def test_each_kind_of_run_says_which_with_it_is_for() -> None:
    blocking: Any = Order.ship.start("o-1")

    async def enter() -> None:
        async with blocking:
            pytest.fail("it has begun")

    with pytest.raises(
        TypeError, match=r"start\('o-1'\) is for `with`: write `async with Order\.ship\.astart\('o-1'\)`"
    ):
        asyncio.run(enter())
    forgotten: Any = Order.ship.astart("o-1")
    with (
        pytest.raises(TypeError, match=r"is for `async with`: write that, or `with Order\.ship\.start\('o-1'\)`"),
        forgotten,
    ):
        pytest.fail("it has begun")


def test_a_run_is_entered_once() -> None:
    Order.create("o-1")
    run = Order.confirm_payment.astart("o-1")

    async def main() -> None:
        async with run:
            with pytest.raises(RuntimeError, match=r"call astart\(\) for each run"):
                await run.__aenter__()

    asyncio.run(main())


def test_the_context_saves_extends_creates_and_stores_without_waiting_on_the_loop() -> None:
    Order.create("o-1")
    threads = set[int]()

    def note(send: Dispatch, name: str, body: dict[str, Any]) -> dict[str, Any]:
        threads.add(threading.get_ident())
        return send(name, body)

    async def main() -> None:
        async with Order.confirm_payment.astart("o-1") as ctx:
            ctx.task.amount = 1
            await ctx.save()
            await ctx.extend_lock(timedelta(hours=1))
            await ctx.create(Parcel, "o-1/parcel", wait=True, weight=3)
            await ctx.wait_until(timedelta(days=1))
            ctx.store_result({"paid": True})
            assert ctx.fencing_token
            assert ctx.occurrence is None
            assert repr(ctx).startswith("<AsyncContext Order.confirm_payment 'o-1' attempt 1")

    with through(AppTask, note):
        asyncio.run(main())
    assert threading.get_ident() not in threads
    task = Order.get_task("o-1")
    assert (task.blockers, task.amount, Parcel.get_task("o-1/parcel").weight) == (1, 1, 3)
    assert Order.confirm_payment.result(task) == {"paid": True}


def test_the_data_of_a_group_is_read_in_a_thread_and_saved_with_the_success() -> None:
    Order.create("o-1", group="customer-7")

    async def main() -> None:
        async with Order.confirm_payment.astart("o-1") as ctx:
            assert ctx.group.name == "customer-7"
            (await ctx.group.data())["orders"] = 1
            assert await ctx.group.data() == {"orders": 1}

    asyncio.run(main())
    assert Order.group("customer-7").data == {"orders": 1}

    async def replace() -> None:
        async with Order.ship.astart("o-1") as ctx:
            ctx.group.replace_data({"orders": 2})

    asyncio.run(replace())
    assert Order.group("customer-7").data == {"orders": 2}


def test_data_and_failures_that_are_stored_off_row_are_read_with_the_claim() -> None:
    Order.create("o-1", data={"scan": "x" * 500_000})
    with pytest.raises(ValueError, match="y"):
        Order.confirm_payment.run("o-1", lambda _: (_ for _ in ()).throw(ValueError("y" * 2000)))

    async def main() -> None:
        async with Order.confirm_payment.astart("o-1") as ctx:
            with recorded(AppTask) as requests:
                assert len(ctx.task.data["scan"]) == 500_000
                assert len(ctx.task.errors[0].message) > 1000
            assert requests == []

    asyncio.run(main())


def test_a_task_whose_data_cannot_be_read_with_the_claim_is_released() -> None:
    Order.create("o-1", data={"scan": "x" * 500_000})

    def refuse(send: Dispatch, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if name == "BatchGetItem":
            raise OSError("no network")
        return send(name, body)

    with through(AppTask, refuse), pytest.raises(OSError, match="no network"):
        asyncio.run(Order.confirm_payment.arun("o-1", ship))
    assert (Order.get_task("o-1").state, Order.get_task("o-1").attempt) == (Order.confirm_payment.pending, 0)


def test_requests_have_the_context_variables_of_the_block() -> None:
    Order.create("o-1")
    seen = set[str]()

    def note(send: Dispatch, name: str, body: dict[str, Any]) -> dict[str, Any]:
        seen.add(tracing.get())
        return send(name, body)

    async def main() -> None:
        tracing.set("span 1")
        await Order.confirm_payment.arun("o-1", ship)

    with through(AppTask, note):
        asyncio.run(main())
    assert seen == {"span 1"}


class Spans(Hook):
    """Sets a context variable around each block, and notes where its methods are called."""

    def __init__(self) -> None:
        self.threads = set[int]()
        self.outcomes = list[str | None]()

    @contextmanager
    def on_start(self, run: RunDetails) -> Iterator[None]:
        self.threads.add(threading.get_ident())
        before = tracing.set(f"span of {run.task_id}")
        yield
        tracing.reset(before)  # an error in another context than that of the block

    def on_end(self, run: RunDetails) -> None:
        self.threads.add(threading.get_ident())
        self.outcomes.append(run.outcome)

    def on_refuse(self, run: RunDetails) -> None:
        self.outcomes.append(run.outcome)


def test_hooks_are_called_in_the_context_of_the_block(caplog: pytest.LogCaptureFixture) -> None:
    Order.create("o-1")
    seen, spans = list[str](), Spans()

    async def note(ctx: AsyncContext[Order]) -> None:
        seen.append(tracing.get())
        await ctx.extend_lock()

    async def main() -> None:
        await Order.confirm_payment.arun("o-1", note)
        with pytest.raises(TaskAlreadySucceededError):
            await Order.confirm_payment.arun("o-1", note)
        run = asyncio.create_task(Order.ship.arun("o-1", lambda _: asyncio.Event().wait()))
        while Order.get_task("o-1").state == Order.ship.pending:
            await asyncio.sleep(0.001)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        seen.append(tracing.get())

    remove = add_hook(spans)
    try:
        asyncio.run(main())
    finally:
        remove()
    assert seen == ["span of o-1", "none"]
    assert (spans.outcomes, spans.threads) == (["succeeded", "refused", "released"], {threading.get_ident()})
    assert caplog.text == ""
