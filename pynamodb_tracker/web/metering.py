"""What a view costs: its requests, and the read and write units that DynamoDB reports for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pynamodb_tracker.cost import dollars
from pynamodb_tracker.task.task import Task

_READS = frozenset({"BatchGetItem", "GetItem", "Query", "Scan"})


@dataclass(slots=True)
class Spent:
    """Requests, and the capacity that they consumed."""

    requests: int = 0
    reads: float = 0.0
    writes: float = 0.0

    def add(self, other: Spent) -> None:
        """Add what something else has spent."""
        with _gate:
            self.requests += other.requests
            self.reads += other.reads
            self.writes += other.writes

    @property
    def dollars(self) -> float:
        """The price, on demand in us-east-1."""
        return dollars(reads=self.reads, writes=self.writes)


_gate = threading.Lock()
_spent: ContextVar[Spent | None] = ContextVar("pynamodb_tracker_spent", default=None)


@contextmanager
def metered(*models: type[Task]) -> Iterator[Spent]:
    """Yield what the requests of the block to the tables of these classes spend; other requests are not changed."""
    for model in models:
        events = model.tracker.connection().connection.client.meta.events
        with _gate:  # two threads that register at the same time would count twice
            events.register("provide-client-params.dynamodb", _ask, unique_id="pynamodb_tracker.web ask")
            events.register("after-call.dynamodb", _note, unique_id="pynamodb_tracker.web note")
    spent = Spent()
    token = _spent.set(spent)
    try:
        yield spent
    finally:
        _spent.reset(token)


def _ask(params: dict[str, Any], model: Any, **_: object) -> dict[str, Any] | None:
    """Have DynamoDB report the capacity that a request of a metered block consumes."""
    if _spent.get() is None or "ReturnConsumedCapacity" not in model.input_shape.members:
        return None
    return {**params, "ReturnConsumedCapacity": "TOTAL"}


def _note(parsed: dict[str, Any], model: Any, **_: object) -> None:
    """Add what the response to a request of a metered block says."""
    spent = _spent.get()
    if spent is None:
        return
    reported = parsed.get("ConsumedCapacity") or []
    units = sum(each.get("CapacityUnits", 0.0) for each in (reported if isinstance(reported, list) else [reported]))
    is_read = model.name in _READS
    spent.add(Spent(1, units if is_read else 0.0, 0.0 if is_read else units))
