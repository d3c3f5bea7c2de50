"""Index entries, read without their rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.row import TaskRow, load, readable


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
