"""Requests and capacity units of the library's further operations, and what a setting changes."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from pynamodb_tracker import ExecutionContext, State
from tests.benchmarks.by_tracker import ByTracker, fail_below
from tests.benchmarks.cost import SIZES, measured, row
from tests.benchmarks.orders import SHARDS, Kept, Order, Sharded
from tests.benchmarks.tables import table
from tests.benchmarks.usage import Operation
from tests.benchmarks.ways import engine

QUERIED = 100
WITH_DATA = 10


class Further(ByTracker):
    """What the other ways do not have, or have no such setting for."""

    def operations(self, data: dict[str, Any]) -> Iterator[Operation]:
        yield from of_a_run(data)
        yield from of_people(data)
        yield from at_the_end(data)
        yield from of_many(data)


def report() -> Iterator[str]:
    yield "Requests, write units (W) and read units (R) of further operations of the library, by the size of data"
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        by_size = [dict(measured(Further(), size)) for size in SIZES.values()]
    header = ["operation", "requests", *(f"W {size}" for size in SIZES), *(f"R {size}" for size in SIZES)]
    rows = [row(name, "", [used[name] for used in by_size]) for name in by_size[0]]
    yield from table(header, [[name, *figures] for name, _, *figures in rows])


def of_a_run(data: dict[str, Any]) -> Iterator[Operation]:
    Order.create("r-1", data=data)
    with suppress(ConnectionError), Order.ship.start("r-1"):
        raise ConnectionError("the printer does not answer")
    yield "run after a failure", lambda: Order.ship.run("r-1", lambda _: None)
    Order.create("r-6", data=data)
    fail("r-6", 20)
    yield "a failure of another kind", lambda: fail("r-6", 21)
    Order.create("r-2", data=data)
    yield "run that reads data", lambda: Order.ship.run("r-2", lambda ctx: len(ctx.task.data))
    Order.create("r-3", data=data)
    with Order.ship.start("r-3") as ctx:
        yield "extend_lock, or a beat", ctx.extend_lock
        ctx.task.note = "half way"
        yield "save of an attribute", ctx.save
        ctx.task.data["receipt"] = "r-1"
        yield "save of data", ctx.save
    Order.create("r-4", data=data)
    with Order.ship.start("r-4") as ctx:
        yield "transaction of its own, empty", lambda: transact(ctx)
    Order.create("r-5", data=data)
    yield "run with transaction(succeed=True)", lambda: commit("r-5")


def fail(task_id: str, calls: int) -> None:
    with Order.ship.start(task_id, skip_error=True):
        fail_below(calls)


def transact(ctx: ExecutionContext[Order]) -> None:
    with ctx.transaction():
        pass


def commit(task_id: str) -> None:
    with Order.ship.start(task_id) as ctx, ctx.transaction(succeed=True):
        pass


def of_people(data: dict[str, Any]) -> Iterator[Operation]:
    Order.create("p-1", data=data)
    yield "ignore", lambda: Order.ship.ignore("p-1", reason="cancelled")
    yield "reopen", lambda: Order.ship.reopen("p-1")
    yield "get_task, data not touched", lambda: Order.get_task("p-1")
    yield "get_task, data read", lambda: len(Order.get_task("p-1").data)
    yield "delete_task", lambda: Order.delete_task("p-1")


def at_the_end(data: dict[str, Any]) -> Iterator[Operation]:
    """Compare the end of a task that is kept for ever with that of one that DynamoDB deletes later."""
    Order.create("e-1", state=Order.deliver.pending, data=data)
    yield "run of the last step", lambda: Order.deliver.run("e-1", lambda _: None)
    Kept.create("e-1", state=Kept.deliver.pending, data=data)
    yield "run of the last step, keep_for", lambda: Kept.deliver.run("e-1", lambda _: None)


def of_many(data: dict[str, Any]) -> Iterator[Operation]:
    """Read many tasks, ten of them with data, in one shard and in several."""
    later = datetime.now(UTC) + timedelta(days=1)
    for order in (Order, Sharded):
        for number in range(QUERIED):
            order.create(f"q-{number}", state=order.deliver.failed, data=data if number < WITH_DATA else {})
            order.create(f"later-{number}", due_time=later)
    yield from reads(Order.deliver.failed, "")
    yield from reads(Sharded.deliver.failed, f", {SHARDS} shards")
    yield f"counts, {4 * QUERIED} in the index", Order.counts


def reads(failed: State[Any], where: str) -> Iterator[Operation]:
    yield f"query of {WITH_DATA}{where}", lambda: list(failed.query(limit=WITH_DATA))
    yield f"query of {WITH_DATA}, without data{where}", lambda: list(failed.query(limit=WITH_DATA, with_data=False))
    yield f"query of {QUERIED}{where}", lambda: list(failed.query())
    yield f"count of {QUERIED}{where}", failed.count
