"""Claim and finish by this library."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.orders import InRow, OrderTable

__all__ = ["ByTracker"]


class ByTracker:
    """What a user of the library writes."""

    def __init__(self) -> None:
        OrderTable.tracker.table.reconnect()
        self.client: Any = OrderTable.tracker.connection().connection.client

    def run(self, task_id: str, *, change: bool) -> None:
        with InRow.ship.start(task_id) as ctx:
            if change:
                ctx.task.data["receipt"] = "r-1"
