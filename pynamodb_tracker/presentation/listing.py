"""The tasks of a state, a page at a time, as the index has them; those with an error are found by a bounded search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.presentation.errors import error_pattern
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.index_page import IndexEntry
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

NO_ERROR = "no error is recorded"
"""The pattern of a task without an error."""

PAGE = 50
"""Tasks on a page."""

_MOST_SEARCHED = 2000
"""Entries that are searched for one page: about 90 read units."""
_READ_AT_ONCE = 250


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks of a state are meant."""

    state: State[Any]
    since: datetime | None = None
    until: datetime | None = None
    error: str = ""
    """A part of the last error."""
    exactly: bool = False
    """Whether `error` is the pattern of a group of errors instead, and means that group only."""
    latest_due_first: bool = False

    def matches(self, entry: IndexEntry) -> bool:
        """Return whether an entry has the error; its state and times are what was asked for."""
        if self.exactly:
            return pattern_of(entry) == self.error
        return self.error.casefold() in (entry.last_error or NO_ERROR).casefold()


@dataclass(frozen=True, slots=True)
class Running:
    """Who runs a task, and until when; None is what cannot be read."""

    worker: str | None
    expires: datetime | None


@dataclass(frozen=True, slots=True)
class Listing:
    """Tasks that were found."""

    entries: list[IndexEntry]
    cursor: str | None
    """Where to go on; None at the end."""
    searched: int
    """How many entries were looked at."""
    running: Mapping[str, Running] = field(default_factory=dict)
    """By task id, what the rows of tasks in progress say: the index has neither worker nor extensions of the lock."""


def pattern_of(entry: IndexEntry) -> str:
    """Return the pattern of the last error of a task."""
    return error_pattern(entry.last_error or NO_ERROR, entry.task_id)


def find(what: Filter, cursor: str | None = None, *, limit: int, most_searched: int = _MOST_SEARCHED) -> Listing:
    """Return the next tasks that match: up to `limit` and a few, or what is among the entries that may be searched."""
    found: list[IndexEntry] = []
    searched = 0
    while True:
        asked = min(max(limit, _READ_AT_ONCE), most_searched) if what.error else limit
        part = what.state.index_page(
            limit=asked,
            cursor=cursor,
            since=what.since,
            until=what.until,
            latest_due_first=what.latest_due_first,
        )
        searched += len(part.tasks)
        found += [entry for entry in part.tasks if not what.error or what.matches(entry)]
        cursor = part.cursor
        if cursor is None or len(found) >= limit or searched >= most_searched:
            break
    is_running = what.state.status is Status.IN_PROGRESS and what.state.step and found
    return Listing(found, cursor, searched, _running(what.state.model, found) if is_running else {})


def _running(model: type[Task], entries: Sequence[IndexEntry]) -> dict[str, Running]:
    found = rows_to_show(model, [entry.task_id for entry in entries])
    return {task_id: Running(row.worker, row.lock_expire_time) for task_id, row in found.items()}
