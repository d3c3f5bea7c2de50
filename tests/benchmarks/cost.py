"""Requests and capacity units of each operation, as DynamoDB Local reports them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from unittest import mock

from pynamodb_tracker import TaskNotStartableError
from tests.benchmarks.orders import Order, OrderTable, data_of
from tests.benchmarks.tables import table
from tests.engine.dynamodb_local import HOW_TO_GET_ONE, EngineUnavailable, start

__all__ = ["report"]

SIZES = {"0.2 KB": 200, "2 KB": 2_000, "20 KB": 20_000}
WRITES = {"UpdateItem", "PutItem", "TransactWriteItems"}
QUERIED = 10

Operation = tuple[str, Callable[[], object]]


@dataclass
class Usage:
    """What some requests used."""

    requests: int = 0
    refused: int = 0
    """Writes whose condition did not hold: the engine does not say what they used."""
    write_units: float = 0
    read_units: float = 0

    def count(self, model: Any, parsed: dict[str, Any], **_: Any) -> None:
        """Add an answer."""
        self.requests += 1
        if "Error" in parsed:
            self.refused += 1
            return
        used = parsed["ConsumedCapacity"]
        units = sum(part["CapacityUnits"] for part in (used if isinstance(used, list) else [used]))
        if model.name in WRITES:
            self.write_units += units
        else:
            self.read_units += units


def report() -> Iterator[str]:
    yield "Requests, write units and read units of an operation, by the size of data"
    try:
        engine = start()
    except EngineUnavailable as unavailable:
        yield f"left out, for want of DynamoDB Local: {unavailable}"
        yield f"to get one, {HOW_TO_GET_ONE}"
        return
    try:
        yield f"as reported by {engine.how}"
        usages = [dict(measured(engine.endpoint, size_bytes)) for size_bytes in SIZES.values()]
    finally:
        engine.stop()
    header = ["operation", "requests", *(f"W {size}" for size in SIZES), *(f"R {size}" for size in SIZES)]
    yield from table(header, [row(name, [by_size[name] for by_size in usages]) for name in usages[0]])
    yield "* The engine does not say what a refused write used. AWS charges it by the size of the row that is there, so"
    yield "  the figure is that of extend_lock, which writes the same row and touches no index."


def row(name: str, usages: list[Usage]) -> list[str]:
    requests = sorted({usage.requests for usage in usages})
    star = "*" if any(usage.refused for usage in usages) else ""
    writes = [f"{usage.write_units:g}{star}" for usage in usages]
    reads = [f"{usage.read_units:g}" for usage in usages]
    return [name, "/".join(map(str, requests)), *writes, *reads]


def measured(endpoint: str, size_bytes: int) -> Iterator[tuple[str, Usage]]:
    """Yield what each operation used, on a table of its own."""
    with order_table(endpoint) as client:
        extend = 0.0
        for name, operate in operations(data_of(size_bytes)):
            usage = Usage()
            client.meta.events.register("after-call.dynamodb", usage.count)
            operate()
            client.meta.events.unregister("after-call.dynamodb", usage.count)
            extend = usage.write_units if name == "extend_lock" else extend
            usage.write_units += usage.refused * extend
            yield name, usage


@contextmanager
def order_table(endpoint: str) -> Iterator[Any]:
    """Have the table on the engine, under a name that nobody else has; yield its client."""
    name = f"benchmark-{uuid.uuid4().hex}"
    with mock.patch.multiple(OrderTable.Meta, create=True, host=endpoint, table_name=name):
        OrderTable.tracker.table.reconnect()
        OrderTable.create_table(wait=True)
        try:
            yield OrderTable.tracker.connection().connection.client
        finally:
            OrderTable.delete_table()


def operations(data: dict[str, Any]) -> Iterator[Operation]:
    """Yield the operations one by one; what comes between them prepares the next, and is not counted."""
    yield "create", lambda: Order.create("o-1", data=data)
    yield "run", lambda: Order.ship.run("o-1", lambda _: None)
    Order.create("o-2", data=data)
    yield "failing run", lambda: fail("o-2")
    yield "run after a failure", lambda: Order.ship.run("o-2", lambda _: None)
    Order.create("o-3", data=data)
    with Order.ship.start("o-3") as ctx:
        yield "extend_lock", ctx.extend_lock
        yield "refused claim", lambda: refused("o-3", detailed=True)
        yield "refused claim, no detail", lambda: refused("o-3", detailed=False)
        ctx.task.data["receipt"] = "r-1"
        yield "save", ctx.save
    Order.create("o-4", data=data)
    yield "ignore", lambda: Order.ship.ignore("o-4", reason="cancelled")
    yield "reopen", lambda: Order.ship.reopen("o-4")
    for number in range(QUERIED):
        Order.create(f"q-{number}", state=Order.deliver.failed, data=data)
    yield f"query of {QUERIED}", lambda: list(Order.deliver.failed.query(limit=QUERIED))


def fail(task_id: str) -> None:
    with Order.ship.start(task_id, skip_error=True):
        raise ConnectionError("the printer does not answer")


def refused(task_id: str, *, detailed: bool) -> None:
    with suppress(TaskNotStartableError), Order.ship.start(task_id, detailed_error=detailed):
        raise AssertionError("the claim was to be refused")
