"""What a step has to do now."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.model import TaskRow
from pynamodb_tracker.query.walk import Walk
from pynamodb_tracker.query.window import Window
from pynamodb_tracker.status import Codes

__all__ = ["todo"]

T = TypeVar("T", bound=TaskRow)


def todo(
    model: type[T], codes: Codes, window: Window, limit: int | None = None, *, with_data: bool = True
) -> Iterator[T]:
    """Return what a step has to do now, oldest first: pending and failed tasks that are due, and abandoned ones."""
    now, margin = clock.now(), model.tracker.margin

    def left_behind(row: T) -> bool:
        expire_time: datetime | None = row.lock_expire_time
        return expire_time is not None and expire_time < now - margin

    walks = [
        Walk(model, codes.pending, window, latest=now + margin, with_data=with_data).rows(limit),
        Walk(model, codes.failed, window, latest=now + margin, with_data=with_data).rows(limit),
        filter(left_behind, Walk(model, codes.in_progress, window, latest=now - margin, with_data=with_data).rows()),
    ]
    merged = heapq.merge(*walks, key=lambda row: (row.due_time, row.task_id))
    return islice(_each_once(merged), limit)


def _each_once(rows: Iterable[T]) -> Iterator[T]:
    """Yield each task once: one that changes its state during the walk may be met in both."""
    seen = set[str]()
    for row in rows:
        if row.task_id not in seen:
            seen.add(row.task_id)
            yield row
