"""Finds a step's due tasks, including abandoned ones, and tasks that gave up an occurrence."""

import heapq
from collections.abc import Callable, Collection, Iterator
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice, takewhile
from typing import Generic, Self, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, read_page
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model import hydration
from pynamodb_tracker.model.failure_log import failures_in_row
from pynamodb_tracker.model.row import StatusIndex, TaskRow, readable
from pynamodb_tracker.model.status import Codes
from pynamodb_tracker.query.state_scan import ALL, INDEX, Position, SeenIds, StateScan, Window, position

T = TypeVar("T", bound=TaskRow)
V = TypeVar("V")

_LOCKS = 20  # how many index entries of locks cost about half a read unit
_COMMANDS = ("ignored", "cancelled", "reopened", "unlocked")  # the types of commands' entries in `errors`


class LeftBehind(str):
    """The id of an abandoned task."""

    __slots__ = ("is_last", "worker")

    worker: str  # the dead worker
    is_last: bool  # whether only one attempt is left

    def __new__(cls, task_id: str, worker: str, *, is_last: bool) -> Self:
        left = super().__new__(cls, task_id)
        left.worker, left.is_last = worker, is_last
        return left


class DueTasks(Generic[T]):
    """A step's due tasks at one time, oldest first."""

    def __init__(
        self,
        model: type[T],
        codes: Codes,
        now: datetime,
        window: Window,
        *,
        only: frozenset[int] = frozenset(),
        error_contains: str = "",
        goes_on: Callable[[], bool] | None = None,
        shards: slice = ALL,
        max_attempts: int = 0,
    ) -> None:
        self.model = model
        self.codes = codes
        self.now = now
        self.window = window
        self.only = only  # the codes to include, or none for the step's pending, failed and in_progress
        self.error_contains = error_contains  # A text that `last_error` contains, in any case
        self.goes_on = goes_on
        """Called before each entry, because finding a match may take long. The ids end when it returns False."""
        self.shards = shards
        self.max_attempts = max_attempts
        self._parts: dict[int, DueTasks[T]] = {}
        self._abandoned_rows: Iterator[T] | None = None
        self._abandoned_positions: list[Position] = []

    def rows(self, limit: int | None = None, *, with_data: bool = True) -> Iterator[T]:
        """Yield each task once, even if its state changes during the scan."""
        most = None if self.error_contains else limit  # only a row shows whether it matches
        *urgent, others = [
            [scan.rows(most) for scan in self._waiting_scans(shards, with_data=with_data)] for shards in self._in_order
        ]
        others.append(self._find_abandoned(with_data=with_data))
        rows = chain.from_iterable(heapq.merge(*part, key=_position_of) for part in (*urgent, others))
        seen = SeenIds()
        return islice((row for row in rows if self._matches(row._row_state.stored) and seen.is_new(row.task_id)), limit)

    @property
    def _in_order(self) -> list[slice]:
        lane = self.model.tracker.lane
        return [self.shards] if lane is None or self.shards != ALL else [slice(lane, None), slice(lane)]

    def ids(self, limit: int | None = None) -> Iterator[str]:
        """Yield only ids: first abandoned tasks, each as a `LeftBehind`, then urgent ones, then the others.

        Pending and failed tasks come from the index, so they may have changed. `limit` is roughly how many you need.
        """
        most = None if self.error_contains else limit  # few may match
        waiting = chain.from_iterable(self._find_waiting_positions(shards, most) for shards in self._in_order)
        seen = SeenIds()
        for _, task_id in chain(self._find_abandoned_positions(), waiting):  # somebody has begun the abandoned ones
            if seen.is_new(task_id):
                yield task_id

    def _find_waiting_positions(self, shards: slice, most: int | None) -> Iterator[Position]:
        scans = self._waiting_scans(shards)
        found = (map(position, filter(self._matches, self._take_while_going(scan.entries(most)))) for scan in scans)
        return heapq.merge(*found)

    def ids_in(self, shard: int, limit: int | None = None) -> Iterator[str]:
        if shard not in self._parts:
            part = self._parts[shard] = copy(self)  # which keeps abandoned tasks for the next call
            part.shards, part._abandoned_rows, part._abandoned_positions = slice(shard, shard + 1), None, []  # noqa: SLF001
        return self._parts[shard].ids(limit)

    def first(self) -> dict[int, datetime]:
        """Return when the first task can start, now or later, by code. This reads one entry per shard.

        A code is missing if all its tasks wait for others. An extended lock expires later than returned.
        """
        found = {}
        for code in filter(self._is_wanted, (self.codes.pending, self.codes.failed, self.codes.in_progress)):
            entry = next(StateScan(self.model, code, self.window, shards=self.shards).entries(limit=1), None)
            if entry is None:
                continue
            due_time = clock.read(entry["due_time"]["S"]) or self.now  # an unreadable time counts as due
            if due_time < clock.NEVER:
                found[code] = due_time + (self.model.tracker.margin if code == self.codes.in_progress else timedelta(0))
        return found

    def expired_locks(self, known: dict[str, datetime]) -> tuple[list[LeftBehind], datetime | None]:
        """Return the ids of abandoned tasks, and when the next task is abandoned unless its lock is extended.

        Only the rows contain extended locks. `known` keeps when they expire, by task id, so that a row is only read
        again after that.
        """
        margin = self.model.tracker.margin
        expired, next_end = self.now - margin, None
        extended, past = dict[str, datetime](), list[str]()
        for entry in StateScan(self.model, self.codes.in_progress, self.window, shards=self.shards).entries(_LOCKS):
            task_id, end = entry["task_id"]["S"], clock.read(entry["due_time"]["S"])
            if end is not None and end >= expired:
                next_end = end
                break
            if task_id in known and known[task_id] >= expired:
                extended[task_id] = known[task_id]
            else:
                past.append(task_id)
        rows, found = hydration.rows(self.model, past), list[LeftBehind]()
        for task_id in past:
            row = rows.get(task_id)
            if row is None or row.status != self.codes.in_progress:
                continue
            expire_time: datetime | None = readable(row).lock_expire_time
            if expire_time is None or expire_time < expired:  # None: the row is damaged, as its claim will report
                found.append(self._left_behind(row))
            else:
                extended[task_id] = expire_time
        known.clear()
        known.update(extended)
        ends = [*extended.values(), *([] if next_end is None else [next_end])]
        return found, min(ends) + margin if ends else None

    def _waiting_scans(self, shards: slice, *, with_data: bool = True) -> list[StateScan[T]]:
        return [
            StateScan(self.model, code, self.window, latest=self.now, with_data=with_data, shards=shards)
            for code in (self.codes.pending, self.codes.failed)
            if self._is_wanted(code)
        ]

    def _find_abandoned(self, *, with_data: bool) -> Iterator[T]:
        """Yield tasks with an expired lock. Only rows show whether a lock was extended."""
        if not self._is_wanted(self.codes.in_progress):
            return
        expired = self.now - self.model.tracker.margin
        scan = StateScan(
            self.model, self.codes.in_progress, self.window, latest=expired, with_data=with_data, shards=self.shards
        )
        for row in self._take_while_going(scan.rows()):
            expire_time: datetime | None = readable(row).lock_expire_time
            if expire_time is None or expire_time < expired:  # as above
                yield row

    def _find_abandoned_positions(self) -> Iterator[Position]:
        """Yield the positions of abandoned tasks. Repeated calls do not read a row again."""
        yield from self._abandoned_positions
        if self._abandoned_rows is None:
            self._abandoned_rows = self._find_abandoned(with_data=False)
        for row in self._abandoned_rows:
            if self._matches(row._row_state.stored):
                self._abandoned_positions.append((_position_of(row)[0], self._left_behind(row)))
                yield self._abandoned_positions[-1]

    def _left_behind(self, row: T) -> LeftBehind:
        known = readable(row)
        return LeftBehind(row.task_id, known.worker or "", is_last=known.attempt == self.max_attempts - 1)

    def _take_while_going(self, found: Iterator[V]) -> Iterator[V]:
        return takewhile(lambda _: self.goes_on is None or self.goes_on(), found)

    def _is_wanted(self, code: int) -> bool:
        return not self.only or code in self.only

    def _matches(self, item: Item) -> bool:
        return self.error_contains.casefold() in item.get("last_error", {}).get("S", "").casefold()


def _position_of(row: TaskRow) -> Position:
    return position(row._row_state.stored)


def given_up(model: type[T], steps: Collection[str], window: Window, most: int) -> tuple[list[T], bool]:
    """Return the tasks that gave up an occurrence at one of these steps, and whether the search was complete.

    Such a task waits at its first step, where this reads up to `most` index entries.
    """
    keys = model.tracker.status_keys(model.tracker.steps[0].pending)
    searched = side_by_side(partial(_find_failed_ids, model, window, -(-most // len(keys))), keys)
    found = hydration.rows_to_show(model, (task_id for task_ids, _ in searched for task_id in task_ids))
    return [row for row in found.values() if _find_given_up_step(row) in steps], all(is_all for _, is_all in searched)


def _find_failed_ids(model: type[TaskRow], window: Window, most: int, status_key: str) -> tuple[list[str], bool]:
    table, start, task_ids = model.tracker.connection(), None, list[str]()
    now = clock.now()
    due = StatusIndex.due_time.between(max(now, window.since or now), clock.LATEST)
    has_error, in_window = TaskRow.last_error.exists() & (TaskRow.attempt == 0), window.on_update_time()
    while True:
        found = read_page(
            table,
            table.query,
            status_key,
            start=start,
            range_key_condition=due,
            filter_condition=has_error if in_window is None else has_error & in_window,
            index_name=INDEX,
            limit=most,
        )
        task_ids += (entry["task_id"]["S"] for entry in found["Items"])
        most -= found["ScannedCount"]
        start = found.get("LastEvaluatedKey")
        if not start or most <= 0:
            return task_ids, not start


def _find_given_up_step(row: TaskRow) -> str | None:
    """Return the step that gave up the last occurrence, or None if a command has moved the task since."""
    first, failures = row.tracker.steps[0], failures_in_row(row)
    if (row.status, row.attempt) != (first.pending, 0) or not (row.repeat and row.last_error):
        return None
    if not failures:  # the failure did not fit into the row
        return first.step
    last = failures[-1]
    return last.step if last.time == row.update_time and last.type not in _COMMANDS else None
