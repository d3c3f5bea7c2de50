import asyncio

import pytest
from opentelemetry.trace import StatusCode

from pynamodb_tracker import AsyncContext
from tests.opentelemetry.conftest import Telemetry
from tests.opentelemetry.shop import Order, Parcel
from tests.opentelemetry.test_spans import context_of, current


def test_concurrent_runs_of_one_loop_have_their_own_span_each_and_leave_none(telemetry: Telemetry) -> None:
    telemetry.instrument()
    for number in range(6):
        Order.create(f"o-{number}")
    seen: dict[str, set[int]] = {}

    async def ship(ctx: AsyncContext[Order]) -> None:
        before = current().span_id
        await all_there.wait()
        await ctx.save()
        seen[ctx.task.task_id] = {before, current().span_id}

    async def shift() -> None:
        waiting = [asyncio.create_task(Order.ship.arun(f"o-{number}", ship)) for number in range(5)]
        async with Order.ship.astart("o-5") as ctx:
            await ship(ctx)
        await asyncio.gather(*waiting)
        assert current() == around.get_span_context()

    all_there = asyncio.Barrier(6)
    with telemetry.tracer.start_as_current_span("shift") as around:
        asyncio.run(shift())

    spans = {str((run.attributes or {})["messaging.message.id"]): context_of(run).span_id for run in telemetry.runs}
    assert seen == {task_id: {span_id} for task_id, span_id in spans.items()}
    assert len(spans) == 6
    assert [run.parent for run in telemetry.runs] == [around.get_span_context()] * 6


@pytest.mark.usefixtures("request_spans")
def test_requests_from_the_threads_of_a_loop_are_inside_the_run(telemetry: Telemetry) -> None:
    telemetry.instrument()

    async def ship() -> None:
        await Order.acreate("o-1")
        async with Order.ship.astart("o-1") as ctx:
            ctx.task.data["label"] = "printed"
            await ctx.save()
            await ctx.create(Parcel, "o-1/parcel")

    with telemetry.tracer.start_as_current_span("request") as request:
        asyncio.run(ship())

    [run] = telemetry.runs
    inside = [span.name for span in telemetry.spans if span.parent and span.parent.span_id == context_of(run).span_id]
    assert inside == ["DynamoDB.UpdateItem", "DynamoDB.TransactWriteItems"]
    assert [link.context.span_id for link in run.links] == [request.get_span_context().span_id]
    kept = Parcel.get_task("o-1/parcel").trace or {}
    assert kept["traceparent"].split("-")[2] == f"{context_of(run).span_id:016x}"


def test_a_cancelled_run_is_released_and_no_error(telemetry: Telemetry) -> None:
    telemetry.instrument()
    Order.create("o-1")

    async def cancelled() -> None:
        begun = asyncio.Event()

        async def ship(_: AsyncContext[Order]) -> None:
            begun.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(Order.ship.arun("o-1", ship))
        await begun.wait()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(cancelled())
    [run] = telemetry.runs
    outcome = (run.attributes or {})["pynamodb_tracker.outcome"]
    assert (outcome, run.status.status_code) == ("released", StatusCode.UNSET)
