"""What a step has to do now: pending and failed tasks that are due, and abandoned ones."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import islice, takewhile
from typing import Generic, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.model.row import TaskRow, stored_row
from pynamodb_tracker.model.serialization import Stored
from pynamodb_tracker.query.replay import Kept
from pynamodb_tracker.query.seen_ids import Seen
from pynamodb_tracker.query.state_scan import Position, Walk, position
from pynamodb_tracker.query.window import Window
from pynamodb_tracker.status import Codes

__all__ = ["Todo"]

T = TypeVar("T", bound=TaskRow)
V = TypeVar("V")


@dataclass(frozen=True)
class Todo(Generic[T]):
    """What a step has to do at a moment, the oldest first."""

    model: type[T]
    codes: Codes
    now: datetime
    window: Window
    only: frozenset[int] = frozenset()
    """Codes of the step that are looked at; all three where it is empty."""
    error_like: str = ""
    """Text that occurs in the last error, on one line; upper and lower case are one."""
    goes_on: Callable[[], bool] | None = None
    """Asked for each entry that is read, where there is one: what is looked for may be a long way off."""

    def rows(self, limit: int | None = None, *, with_data: bool = True) -> Iterator[T]:
        """Yield whole tasks, each once: one that changes its state during the walk may be met in both."""
        most = None if self.error_like else limit  # what is like it is known of the rows alone
        walks = [replace(walk, with_data=with_data).rows(most) for walk in self._waiting()]
        rows = (row for row in _merged([*walks, self._abandoned(with_data=with_data)], _of_row) if self._is_like(row))
        seen = Seen()
        return islice((row for row in rows if seen.is_new(row.task_id)), limit)

    def ids(self) -> Iterator[str]:
        """Yield ids alone: of tasks that wait as the index has them, so that a claim may find that one has moved on."""
        waiting = (map(position, filter(self._is_entry_like, self._heeded(walk.entries()))) for walk in self._waiting())
        positions = _merged([*waiting, iter(self._places_abandoned)], lambda each: each)
        return filter(Seen().is_new, (task_id for _, task_id in positions))

    @cached_property
    def _places_abandoned(self) -> Kept[Position]:
        """Where the abandoned tasks are; the rows are read once, for each has to be seen to know."""
        return Kept(_of_row(row) for row in self._abandoned(with_data=False) if self._is_like(row))

    def first(self) -> dict[int, datetime]:
        """Return by code when the first of its tasks can be started, now or later; reads one entry of each shard.

        A lock that was extended ends later than that: the index does not know.
        """
        found = {}
        for code in filter(self._is_wanted, (self.codes.pending, self.codes.failed, self.codes.in_progress)):
            entry = next(Walk(self.model, code, self.window).entries(limit=1), None)
            if entry is not None:
                due_time = clock.read(entry["due_time"]["S"]) or self.now  # one that nobody can read comes first
                found[code] = due_time + (self.model.tracker.margin if code == self.codes.in_progress else timedelta(0))
        return found

    def _waiting(self) -> list[Walk[T]]:
        latest = self.now + self.model.tracker.margin
        return [
            Walk(self.model, code, self.window, latest=latest)
            for code in (self.codes.pending, self.codes.failed)
            if self._is_wanted(code)
        ]

    def _abandoned(self, *, with_data: bool) -> Iterator[T]:
        """Yield tasks whose lock is over by their rows: the index does not know of extensions."""
        if not self._is_wanted(self.codes.in_progress):
            return iter(())
        over = self.now - self.model.tracker.margin
        walk = Walk(self.model, self.codes.in_progress, self.window, latest=over, with_data=with_data)
        return filter(partial(_is_over, over), self._heeded(walk.rows()))

    def _heeded(self, found: Iterator[V]) -> Iterator[V]:
        goes_on = self.goes_on
        return found if goes_on is None else takewhile(lambda _: goes_on(), found)

    def _is_wanted(self, code: int) -> bool:
        return not self.only or code in self.only

    def _is_like(self, row: T) -> bool:
        return self._is_told(row.last_error)

    def _is_entry_like(self, entry: Stored) -> bool:
        return self._is_told(entry.get("last_error", {}).get("S"))

    def _is_told(self, error: str | None) -> bool:
        return not self.error_like or self.error_like.casefold() in (error or "").casefold()


def _is_over(time: datetime, row: TaskRow) -> bool:
    expire_time: datetime | None = row.lock_expire_time
    return expire_time is not None and expire_time < time


def _of_row(row: TaskRow) -> Position:
    return position(stored_row(row))


def _merged(walks: Iterable[Iterator[V]], where: Callable[[V], Position]) -> Iterator[V]:
    return heapq.merge(*walks, key=where)
