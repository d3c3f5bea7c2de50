"""What a finish writes, and how a run finds out that one was applied whose answer it did not hear."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.statements import StepWrites

__all__ = ["Finish", "finish", "landed"]

T = TypeVar("T", bound=TaskRow)

_KEPT_FENCES = 8
"""How many claims that never finished a row remembers; an older one counts as lost."""


class Finish:
    """The end of a run, from one reading of the clock."""

    __slots__ = ("row", "values")  # no dataclass: a cold start would pay for the making of it

    def __init__(self, values: dict[str, Any], row: dict[str, Any]) -> None:
        self.values = values
        """Of the slots of its write."""
        self.row = row
        """What it makes of the row's own attributes."""


def finish(
    writes: StepWrites[T],
    lock: Lock[T],
    code: int,
    *,
    attempt: int,
    now: datetime | None = None,
    due: datetime | None = None,
    **values: Any,
) -> Finish:
    """Return what ends a run in `code`, and what `values` add to it."""
    now = now or clock.now()
    due = max(now, due or now)
    unfinished = lock.unfinished[-_KEPT_FENCES:]
    return Finish(
        values={
            "token": lock.token,
            "attempt": str(attempt),
            "unfinished": [{"N": str(fence)} for fence in unfinished],
            **writes.moved(code, lock.task.task_id, now, due),
            **values,
        },
        row={"status": code, "attempt": attempt, "due_time": due, "update_time": now, "unfinished": unfinished},
    )


def landed(lock: Lock[T], row: T | None) -> bool:
    """Tell whether a finish of this run was applied.

    Token and status cannot tell: after it landed, another worker may hold the next step, or this one again.
    """
    if row is None or row.create_time != lock.create_time:
        return False
    fences = row.unfinished or []
    forgotten = len(fences) >= _KEPT_FENCES and lock.fence < min(fences)
    return lock.fence not in fences and not forgotten
