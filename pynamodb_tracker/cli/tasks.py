"""Tasks as commands show them: as a row of a table, as JSON, grouped by error, and with attributes that are damaged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli.exits import FOUND, one_line
from pynamodb_tracker.cli.json_values import attributes_of
from pynamodb_tracker.cli.lookup import name_of
from pynamodb_tracker.cli.terminal import Cell, Column, styled, warn
from pynamodb_tracker.cli.times import age, between, stamp
from pynamodb_tracker.model.row_state import readable_value, unreadable_in
from pynamodb_tracker.status import Status
from pynamodb_tracker.task.task import Task

# Rows of a table.


def _age(task: Task) -> str:
    return age(clock.now() - task.update_time)


def _due(task: Task) -> str:
    return between(task.due_time) if task.due_time >= clock.now() + timedelta(seconds=1) else "now"


def _lock(task: Task) -> Cell:
    expires: datetime | None = task.lock_expire_time
    if expires is None:
        return ""
    return styled(f"expired {between(expires)}", "red") if is_abandoned(task) else f"expires {between(expires)}"


_CELLS: dict[str, Callable[[Task], Cell]] = {
    "task": lambda task: styled(task.task_id, "bold"),
    "attempt": lambda task: str(task.attempt),
    "age": _age,
    "due": _due,
    "lock": _lock,
    "worker": lambda task: task.worker or "",
    "error": lambda task: task.last_error or "",
}

_SHOWN: dict[Status | None, tuple[str, ...]] = {
    Status.PENDING: ("task", "age", "due", "error"),
    Status.IN_PROGRESS: ("task", "attempt", "age", "lock", "worker"),
    Status.FAILED: ("task", "attempt", "age", "due", "error"),
    Status.IGNORED: ("task", "attempt", "age", "error"),
    Status.SUCCEEDED: ("task", "age"),
    None: ("task", "attempt", "age", "due", "error"),
}
"""The columns of a table by the status of its tasks: what people look for depends on it."""


def columns_of(status: Status | None) -> list[Column]:
    """Return the columns of a table of tasks with that status."""
    return [Column(title, right=title in {"attempt", "age", "due"}) for title in _SHOWN[status]]


def row_of(status: Status | None, task: Task) -> list[Cell]:
    """Return the cells of a task."""
    return [_CELLS[title](task) for title in _SHOWN[status]]


def is_abandoned(task: Task) -> bool:
    """Return whether a worker left the task behind: its lock has expired, and the clock margin has passed."""
    expires: datetime | None = readable_value(task, "lock_expire_time")
    in_progress = task.state.status is Status.IN_PROGRESS
    return in_progress and expires is not None and expires < clock.now() - task.tracker.margin


def task_as_json(task: Task, *, with_data: bool = False) -> dict[str, Any]:
    """Return a task for programs; damaged attributes are None, and listed under `unread`."""
    unread = unread_of(task)
    attributes = attributes_of(task, unread, with_data=with_data)
    found = {
        "task_id": task.task_id,
        "state": name_of(task.state),
        "attempt": readable_value(task, "attempt"),
        "fence": readable_value(task, "fence"),
        "create_time": stamp(readable_value(task, "create_time")),
        "update_time": stamp(readable_value(task, "update_time")),
        "due_time": stamp(readable_value(task, "due_time")),
        "worker": readable_value(task, "worker"),
        "lock_expire_time": stamp(readable_value(task, "lock_expire_time")),
        "expire_time": stamp(readable_value(task, "expire_time")),
        "last_error": readable_value(task, "last_error"),
        "attributes": attributes,
    }
    return found | ({"unread": {name: one_line(error) for name, error in unread.items()}} if unread else {})


# Damaged tasks: those with attributes that are stored otherwise than declared.

_NOT_IN_TABLES = frozenset({"errors", "creation", "unfinished", "saves"})
"""Attributes of the tracker's own that no table shows."""


def unread_of(task: Task) -> dict[str, Exception]:
    """Return the attributes of a task that cannot be read, and why."""
    return unreadable_in(task)


def remove_unreadable(task: Task) -> None:
    """Remove the attributes that cannot be read from a row that is only shown, so that they read as None."""
    for name in unread_of(task):
        del task.attribute_values[name]


def is_hidden(task: Task) -> bool:
    """Return whether a task cannot be shown in a table, because an attribute that tables show cannot be read."""
    return not unread_of(task).keys().isdisjoint(task.tracker_attributes - _NOT_IN_TABLES)


class Damaged:
    """Reports the damaged ones among the tasks that a command reads."""

    def __init__(self, *, own_too: bool) -> None:
        """With `own_too`, damage to the user's own attributes is reported as well."""
        self._own_too = own_too
        self.read = 0
        """How many tasks were read, damaged ones included."""
        self._damaged = 0

    def reported(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Yield all the tasks, and report what cannot be read of them."""
        for task in tasks:
            self.read += 1
            unread = unread_of(task)
            if unread and (self._own_too or is_hidden(task)):
                self.report(task.task_id, unread)
            yield task

    def report(self, task_id: str, unread: Mapping[str, Exception]) -> None:
        """Count a task, and print what cannot be read of it."""
        self._damaged += 1
        reasons = ", ".join(f"{name} ({one_line(error)})" for name, error in unread.items())
        warn(f"{task_id}  cannot be read: {reasons}")

    def exit(self) -> None:
        """Exit with 1 if a task was damaged."""
        if self._damaged:
            raise typer.Exit(FOUND)


# Groups of tasks with the same error.

_VARIES = re.compile(
    r"""
      \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b  # a UUID
    | \b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?  # a time
    | \b0x[0-9a-f]+\b
    | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b  # a hash
    | \d{4,}  # shorter ones may be codes, such as HTTP's
    """,
    re.VERBOSE | re.IGNORECASE,
)


def error_pattern(error: str, task_id: str) -> str:
    """Return an error with the task's id written as …, and other ids, times and long numbers as #."""
    words = " ".join(task_id.split())  # as an error has it, on its one line
    return _VARIES.sub("#", re.sub(rf"(?<!\w){re.escape(words)}(?!\w)", "…", error) if words else error)


@dataclass(slots=True)
class ErrorGroup:
    """The tasks of one group: `example` is the id of the newest one."""

    error: str
    tasks: int
    newest: datetime
    example: str


class ErrorGroups:
    """Groups of tasks, by a key such as their state and by the pattern of their errors."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], ErrorGroup] = {}

    def add(self, key: str, task_id: str, error: str, time: datetime) -> None:
        """Count the error of a task."""
        pattern = error_pattern(error, task_id)
        group = self._groups.get((key, pattern))
        if group is None:
            self._groups[key, pattern] = ErrorGroup(pattern, 1, time, task_id)
            return
        group.tasks += 1
        if time >= group.newest:
            group.newest, group.example = time, task_id

    def sorted(self) -> list[tuple[str, ErrorGroup]]:
        """Return the groups with their keys, the largest first."""
        found = [(key, group) for (key, _), group in self._groups.items()]
        return sorted(found, key=lambda each: (-each[1].tasks, each[0], each[1].error))
