"""Pages of tasks and of index entries, and the cursors that lead from one to the next."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import check_key, check_task_id, shown
from pynamodb_tracker.model.row import TaskRow, load, readable
from pynamodb_tracker.query.state_scan import Position, StateScan

P = TypeVar("P")
T_co = TypeVar("T_co", bound=TaskRow, covariant=True)


@dataclass(frozen=True, slots=True)
class TaskPage(Generic[T_co]):
    """Some tasks of a state, and the cursor for the next page."""

    tasks: list[T_co]
    """Up to `limit` tasks in the order of the query."""
    cursor: str | None
    """For the next `page`, or None on the last one."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A task's index entry, which the task may have left. Missing or unreadable values are None."""

    task_id: str
    """The task id."""
    attempt: int | None
    """How many attempts the step has had."""
    create_time: datetime | None
    """When the task was created."""
    update_time: datetime | None
    """When it came into the state."""
    due_time: datetime | None
    """When it may start, when its claimed lock expires, or when it ended. The end of 9999 while it waits for others."""
    last_error: str | None
    """The last failure on one line, up to 200 characters."""

    @classmethod
    def of(cls, entry: Item) -> IndexEntry:
        """Parse a stored entry."""
        row = readable(load(TaskRow, entry))
        times = row.create_time, row.update_time, row.due_time
        return cls(entry["task_id"]["S"], row.attempt, *times, row.last_error)


@dataclass(frozen=True, slots=True)
class IndexPage:
    """Some index entries of a state, and the cursor for the next ones."""

    tasks: list[IndexEntry]
    """Up to `limit` tasks in the order of the query."""
    cursor: str | None
    """For the next `index_page`, or None on the last one."""


def cursor_of(scan_id: list[Any], at: object) -> str:
    """Return a text from which another process can continue a scan."""
    return base64.urlsafe_b64encode(strict_json.dumps([scan_id, at], separators=(",", ":")).encode()).decode()


def read_cursor(cursor: str, scan_id: list[Any], checked: Callable[[Any], P], what: str) -> P:
    """Return how far a cursor's scan has come, if it is a scan of `what`."""
    try:
        found, stored = json.loads(base64.urlsafe_b64decode(cursor))
        at = checked(stored)
    except (AttributeError, RecursionError, TypeError, ValueError):
        raise ValueError(f"this is not a page cursor: {shown(cursor)}. Pass the cursor of the last page") from None
    if found != scan_id:
        raise ValueError(
            f"the cursor belongs to another query than {what} with these arguments: use the arguments of the first page"
        )
    return at


def begin_at(cursor: str | None, scan: StateScan[Any], use_case_id: str, what: str) -> list[Any]:
    """Let a scan of a state begin at a cursor, and return what identifies it in the next cursor."""
    times = [time and time.isoformat() for time in (scan.window.since, scan.window.until)]
    scan_id = [use_case_id, scan.code, scan.latest_due_first, *times]
    if cursor is not None:
        scan.positions = read_cursor(cursor, scan_id, _checked_positions, what)
        if not all(map(scan.has_position, scan.positions.values())):
            raise ValueError(f"this is not a page cursor: {shown(cursor)}. It points to a place outside the window")
    return scan_id


def _checked_positions(stored: Any) -> dict[str, Position]:
    """Check positions in the index, where other programs may have written any due time."""
    if not all(isinstance(at, list) for at in stored.values()):
        raise TypeError(stored)
    return {key: (check_key("due time", due), check_task_id(task_id)) for key, (due, task_id) in stored.items()}
