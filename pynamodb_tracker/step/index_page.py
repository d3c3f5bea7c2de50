"""Index entries of tasks, read without their rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.row import TaskRow, load, readable


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The index entry of a task, which may have changed since. None for missing or unreadable values."""

    task_id: str
    """The id, with which `get_task` reads the current task."""
    attempt: int | None
    """Attempts of the step so far."""
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
        """Return the readable values of a stored entry."""
        row = readable(load(TaskRow, entry))
        times = row.create_time, row.update_time, row.due_time
        return cls(entry["task_id"]["S"], row.attempt, *times, row.last_error)


@dataclass(frozen=True, slots=True)
class IndexPage:
    """The index entries of some tasks of a state, and the cursor of the next ones."""

    tasks: list[IndexEntry]
    """Up to `limit` tasks in the order of the query."""
    cursor: str | None
    """Text for the next `index_page`, or None on the last one."""
