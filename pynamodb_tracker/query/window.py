"""A window of time on a query: what was in its state since then, and until then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pynamodb.expressions.condition import Condition

from pynamodb_tracker.model.row import StatusIndex, TaskRow

__all__ = ["INDEX", "Window"]

INDEX = StatusIndex.Meta.index_name


@dataclass(frozen=True, slots=True)
class Window:
    """`since <= update_time < until`."""

    since: datetime | None = None
    until: datetime | None = None

    def on_update_time(self, not_before: datetime | None = None) -> Condition | None:
        """Return the filter that makes the window exact; what came there before `not_before` is not wanted either."""
        condition = None
        since = max((time for time in (self.since, not_before) if time is not None), default=None)
        if since is not None:
            condition &= TaskRow.update_time >= since
        if self.until is not None:
            condition &= TaskRow.update_time < self.until
        return condition

    def on_due_time(self, latest: datetime | None) -> Condition | None:
        """Return the key condition that keeps a query from reading what lies before the window, or after `latest`.

        `update_time` is never later than `due_time`.
        """
        if self.since is not None and latest is not None:
            return StatusIndex.due_time.between(self.since, max(self.since, latest))
        if self.since is not None:
            return StatusIndex.due_time >= self.since
        return None if latest is None else StatusIndex.due_time <= latest
