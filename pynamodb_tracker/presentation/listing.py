"""A state's tasks from the index, page by page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.presentation.errors import error_pattern
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.pages import IndexEntry
from pynamodb_tracker.step.state import State

NO_ERROR = "no error is recorded"

PAGE = 50
_MOST_SEARCHED = 2000  # entries to search for one page, at about 90 read units
_READ_AT_ONCE = 250


@dataclass(frozen=True, slots=True)
class Filter:
    state: State[Any]
    since: datetime | None = None
    until: datetime | None = None
    error: str = ""
    exactly: bool = False  # if true, `error` is an error group's pattern, and only its tasks match
    latest_due_first: bool = False

    def matches(self, entry: IndexEntry) -> bool:
        if self.exactly:
            return error_pattern(entry.last_error or NO_ERROR, entry.task_id) == self.error
        return self.error.casefold() in (entry.last_error or NO_ERROR).casefold()


@dataclass(frozen=True, slots=True)
class Running:
    """A task's worker, and when its lock expires. None means unreadable."""

    worker: str | None
    expires: datetime | None


@dataclass(frozen=True, slots=True)
class Listing:
    entries: list[IndexEntry]
    cursor: str | None
    searched: int
    running: Mapping[str, Running] = field(default_factory=dict)
    """The workers by task id, from the rows, because the index lacks them."""


def find(what: Filter, cursor: str | None = None, *, limit: int, most_searched: int = _MOST_SEARCHED) -> Listing:
    """Return the next matching tasks: about `limit`, or the matches among the next `most_searched` entries."""
    found: list[IndexEntry] = []
    searched = 0
    while True:
        asked = min(max(limit, _READ_AT_ONCE), most_searched) if what.error else limit
        part = what.state.index_page(
            limit=asked, cursor=cursor, since=what.since, until=what.until, latest_due_first=what.latest_due_first
        )
        searched += len(part.tasks)
        found += [entry for entry in part.tasks if not what.error or what.matches(entry)]
        cursor = part.cursor
        if cursor is None or len(found) >= limit or searched >= most_searched:
            break
    is_running = what.state.status is Status.IN_PROGRESS and what.state.step and found
    in_progress = rows_to_show(what.state.model, [entry.task_id for entry in found]) if is_running else {}
    running = {task_id: Running(row.worker, row.lock_expire_time) for task_id, row in in_progress.items()}
    return Listing(found, cursor, searched, running)
