"""A task as a line of a table, or as JSON: what people look for in it depends on the state that it is in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.cli.damaged import unread_of
from pynamodb_tracker.cli.exits import one_line
from pynamodb_tracker.cli.files.json_values import attributes_of
from pynamodb_tracker.cli.lookup import name_of
from pynamodb_tracker.cli.terminal.table import Cell, Column
from pynamodb_tracker.cli.times import age, between, stamp
from pynamodb_tracker.status import Status
from pynamodb_tracker.task.task import Task

__all__ = ["columns_of", "is_abandoned", "row_of", "told"]

_Cell = Callable[[Task], str | Cell]


def _age(task: Task) -> str:
    return age(clock.now() - task.update_time)


def _due(task: Task) -> str:
    return between(task.due_time) if task.due_time >= clock.now() + timedelta(seconds=1) else "now"


def _lock(task: Task) -> str | Cell:
    expires: datetime | None = task.lock_expire_time
    if expires is None:
        return ""
    return Cell(f"ended {between(expires)}", "red") if is_abandoned(task) else f"ends {between(expires)}"


def _error(task: Task) -> str:
    return task.last_error or ""


_TASK: tuple[Column, _Cell] = (Column("task"), lambda task: Cell(task.task_id, "bold"))
_ATTEMPT: tuple[Column, _Cell] = (Column("attempt", right=True), lambda task: str(task.attempt))
_SINCE: tuple[Column, _Cell] = (Column("age", right=True), _age)
_DUE: tuple[Column, _Cell] = (Column("due", right=True), _due)
_LOCK: tuple[Column, _Cell] = (Column("lock"), _lock)
_WORKER: tuple[Column, _Cell] = (Column("worker"), lambda task: task.worker or "")
_ERROR: tuple[Column, _Cell] = (Column("error"), _error)

_SHOWN: dict[Status | None, tuple[tuple[Column, _Cell], ...]] = {
    Status.PENDING: (_TASK, _SINCE, _DUE, _ERROR),
    Status.IN_PROGRESS: (_TASK, _ATTEMPT, _SINCE, _LOCK, _WORKER),
    Status.FAILED: (_TASK, _ATTEMPT, _SINCE, _DUE, _ERROR),
    Status.IGNORED: (_TASK, _ATTEMPT, _SINCE, _ERROR),
    Status.SUCCEEDED: (_TASK, _SINCE),
    None: (_TASK, _ATTEMPT, _SINCE, _DUE, _ERROR),
}


def columns_of(status: Status | None) -> list[Column]:
    """Return the columns of a table of tasks in such a state."""
    return [column for column, _ in _SHOWN[status]]


def row_of(status: Status | None, task: Task) -> list[str | Cell]:
    """Return the cells of a task."""
    return [tell(task) for _, tell in _SHOWN[status]]


def is_abandoned(task: Task) -> bool:
    """Tell whether a worker left the task behind: the lock is over, clocks that differ allowed for."""
    expires: datetime | None = task.lock_expire_time
    in_progress = task.state.status is Status.IN_PROGRESS
    return in_progress and expires is not None and expires < clock.now() - task.tracker.margin


def told(task: Task, *, with_data: bool = False) -> dict[str, Any]:
    """Return a task for programs; what of it cannot be read is None, and told."""
    unread = unread_of(task)
    attributes = attributes_of(task, unread, with_data=with_data)
    found = {
        "task_id": task.task_id,
        "state": name_of(task.state),
        "attempt": task.attempt,
        "fence": task.fence,
        "create_time": stamp(task.create_time),
        "update_time": stamp(task.update_time),
        "due_time": stamp(task.due_time),
        "worker": task.worker,
        "lock_expire_time": stamp(task.lock_expire_time),
        "expire_time": stamp(task.expire_time),
        "last_error": task.last_error,
        "attributes": attributes,
    }
    return found | ({"unread": {name: one_line(error) for name, error in unread.items()}} if unread else {})
