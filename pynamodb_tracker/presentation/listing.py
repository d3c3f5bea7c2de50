"""A state's tasks from the index, page by page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation.errors import NO_ERROR, error_pattern
from pynamodb_tracker.presentation.task_facts import kind_of_wait
from pynamodb_tracker.step.pages import IndexEntry
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

PAGE = 50
_MOST_SEARCHED = 2000  # entries to search for one page, at about 90 read units
_READ_AT_ONCE = 250
_ROWS_COST = 4  # with rows, which take a read unit each, only a part of the entries is searched


@dataclass(frozen=True, slots=True)
class Filter:
    state: State[Any]
    since: datetime | None = None
    until: datetime | None = None
    error: str = ""
    exactly: bool = False  # if true, `error` is an error group's pattern, and only its tasks match
    waits: str = ""  # what pending tasks wait for, one of WAITS
    latest_due_first: bool = False

    def matches(self, entry: IndexEntry) -> bool:
        if self.exactly:
            return error_pattern(entry.last_error or NO_ERROR, entry.task_id) == self.error
        return self.error.casefold() in (entry.last_error or NO_ERROR).casefold()


@dataclass(frozen=True, slots=True)
class Listing:
    entries: list[IndexEntry]
    cursor: str | None
    searched: int
    rows: Mapping[str, Task] = field(default_factory=dict)
    """The rows of running and waiting tasks, because the index lacks their workers and what they wait for."""


def find(what: Filter, cursor: str | None = None, *, limit: int, most_searched: int = _MOST_SEARCHED) -> Listing:
    """Return the next matching tasks: about `limit`, or the matches among the next `most_searched` entries."""
    found, rows, searched = list[IndexEntry](), dict[str, Task](), 0
    while True:
        asked = min(max(limit, _READ_AT_ONCE), most_searched) if what.error or what.waits else limit
        latest = what.latest_due_first or bool(what.waits)
        part = what.state.index_page(
            limit=asked, cursor=cursor, since=what.since, until=what.until, latest_due_first=latest
        )
        searched += len(part.tasks)
        matching = [entry for entry in part.tasks if not what.error or what.matches(entry)]
        if what.waits:
            of_page = _rows_of_waiting(what.state, matching)
            rows |= of_page
            waiting = {task_id for task_id, row in of_page.items() if kind_of_wait(row) == what.waits}
            matching = [entry for entry in matching if entry.task_id in waiting]
        found += matching
        cursor = part.cursor
        most = most_searched // _ROWS_COST if what.waits else most_searched
        if cursor is None or len(found) >= limit or searched >= most:
            return Listing(found, cursor, searched, rows)


def find_page(what: Filter, cursor: str | None = None) -> Listing:
    """Return a page of matching tasks, with the rows of running and waiting ones."""
    found, rows = find(what, cursor, limit=PAGE), dict[str, Task]()
    if what.state.status is Status.IN_PROGRESS:
        rows = rows_to_show(what.state.model, [entry.task_id for entry in found.entries])
    elif what.state.status is Status.PENDING and not what.waits:
        rows = _rows_of_waiting(what.state, found.entries)
    return replace(found, rows={**found.rows, **rows})


def _rows_of_waiting(state: State[Any], entries: Sequence[IndexEntry]) -> dict[str, Task]:
    now = clock.now()
    return rows_to_show(state.model, [each.task_id for each in entries if each.due_time and each.due_time > now])
