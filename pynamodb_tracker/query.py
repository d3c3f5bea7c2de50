"""The only reader of the index: finds candidates there, reads the whole rows, and drops what has moved on."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, islice
from typing import Any, Generic, TypeVar

from pynamodb.expressions.condition import Condition

from pynamodb_tracker import clock, whole
from pynamodb_tracker.model import StatusIndex, TaskRow, stored_row
from pynamodb_tracker.status import Codes
from pynamodb_tracker.stored import Stored

__all__ = ["Position", "Walk", "Window", "count", "counts", "task_ids", "todo"]

T = TypeVar("T", bound=TaskRow)

Position = tuple[str, str]
"""The due time and the task id of an index entry: where a walk through a shard stands."""

_MOST_KEYS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html"""

_MOST_DATA = 4 * 1024 * 1024
"""Bytes of data beside rows that are held at a time, packed; a single task may have more."""

_PAGE = 500
"""Entries a request to the index asks for where no limit is given; about 150 KB."""

_INDEX = StatusIndex.Meta.index_name


@dataclass(frozen=True, slots=True)
class Window:
    """`since <= update_time < until`."""

    since: datetime | None = None
    until: datetime | None = None

    def on_update_time(self, not_before: datetime | None = None) -> Condition | None:
        """Return the filter that makes the window exact; what came there before `not_before` is not wanted either."""
        condition = None
        since = max((time for time in (self.since, not_before) if time is not None), default=None)
        if since is not None:
            condition &= TaskRow.update_time >= since
        if self.until is not None:
            condition &= TaskRow.update_time < self.until
        return condition

    def on_due_time(self, latest: datetime | None) -> Condition | None:
        """Return the key condition that keeps a query from reading what lies before the window, or after `latest`.

        `update_time` is never later than `due_time`.
        """
        if self.since is not None and latest is not None:
            return StatusIndex.due_time.between(self.since, max(self.since, latest))
        if self.since is not None:
            return StatusIndex.due_time >= self.since
        return None if latest is None else StatusIndex.due_time <= latest


@dataclass(slots=True)
class Walk(Generic[T]):
    """A walk through the tasks of one state in the order of `due_time`, across shards, a page in memory."""

    model: type[T]
    code: int
    window: Window = Window()
    latest_first: bool = False
    latest: datetime | None = None
    """The last due time that is of interest."""
    with_data: bool = True
    """Whether the data of the rows is read, too."""
    positions: dict[str, Position] = field(default_factory=dict)
    """By index key, the last entry that was consumed; the walk starts behind it, and moves it on."""
    _entries: Iterator[Stored] = field(default_factory=lambda: iter(()))

    def rows(self, limit: int | None = None) -> Iterator[T]:
        """Yield each task that is in the state, whole, once."""
        self._entries = self.entries(limit)
        seen, wanted = set[str](), limit
        while chunk := list(islice(self._entries, min(_MOST_KEYS, wanted or _MOST_KEYS))):
            for entry, row in self._whole(chunk):
                self.positions[entry["status_key"]["S"]] = position(entry)
                if row is None or row.task_id in seen or not still(row, entry):
                    continue
                seen.add(row.task_id)
                yield row
                if wanted is not None:
                    wanted -= 1
            if wanted == 0:
                return

    def _whole(self, chunk: Sequence[Stored]) -> Iterator[tuple[Stored, T | None]]:
        """Yield each entry with its row, whose data is in memory for as many at a time as the bound allows."""
        rows = whole.rows(self.model, (entry["task_id"]["S"] for entry in chunk))
        rows = {
            entry["task_id"]["S"]: row
            for entry in chunk
            if (row := rows.get(entry["task_id"]["S"])) and still(row, entry)
        }
        if not self.with_data:
            whole.leave_out(rows.values())
        for group in _groups(chunk, rows):
            found = {entry["task_id"]["S"]: row for entry in group if (row := rows.get(entry["task_id"]["S"]))}
            filled = whole.fill(self.model, found) if self.with_data else found
            yield from ((entry, filled.get(entry["task_id"]["S"])) for entry in group)

    def has_more(self) -> bool:
        """Tell whether the index has an entry behind the last row that `rows` yielded."""
        return next(self._entries, None) is not None

    def entries(self, limit: int | None = None) -> Iterator[Stored]:
        """Yield the index entries of all shards, merged; each shard is read page by page, as it is needed."""
        shards = [self._shard(key, limit) for key in self.model.tracker.use_case.status_keys(self.code)]
        return heapq.merge(*shards, key=position, reverse=self.latest_first)

    def _shard(self, status_key: str, limit: int | None) -> Iterator[Stored]:
        at = self.positions.get(status_key)
        pages = _pages(
            self.model.tracker.connection().query,
            status_key,
            range_key_condition=self.window.on_due_time(self.last_due()),
            filter_condition=self.window.on_update_time(),
            index_name=_INDEX,
            scan_index_forward=not self.latest_first,
            limit=min(limit or _PAGE, _PAGE),
            start=None if at is None else self._start_key(status_key, at),
        )
        for page in pages:
            yield from page["Items"]

    def last_due(self) -> datetime | None:
        """Return the last due time of interest: of a finished task it is when it got there, so `until` bounds it."""
        if self.latest is None and self.model.tracker.ends_at(self.code):
            return self.window.until
        return self.latest

    def _start_key(self, status_key: str, at: Position) -> Stored:
        due_time, task_id = at
        key = {"status_key": {"S": status_key}, "due_time": {"S": due_time}}
        return {**key, **self.model.tracker.key(task_id)}


def position(entry: Mapping[str, Any]) -> Position:
    """Return where an index entry stands in the order of a walk."""
    return entry["due_time"]["S"], entry["task_id"]["S"]


def still(row: TaskRow, entry: Stored) -> bool:
    """Tell whether the row is what its index entry says, and not past its time to live."""
    stored = stored_row(row)
    moved = stored["status"] != entry["status"] or stored["due_time"] != entry["due_time"]
    expire_time: datetime | None = row.expire_time
    return not moved and (expire_time is None or expire_time > clock.now())


def _groups(chunk: Sequence[Stored], rows: Mapping[str, TaskRow]) -> Iterator[list[Stored]]:
    """Cut a chunk of entries where the data beside their rows would take too much memory."""
    group: list[Stored] = []
    room = _MOST_DATA
    for entry in chunk:
        row = rows.get(entry["task_id"]["S"])
        size = whole.size_beside(row) if row else 0
        if group and size > room:
            yield group
            group, room = [], _MOST_DATA
        group.append(entry)
        room -= size
    yield group


def count(model: type[TaskRow], code: int, window: Window) -> int:
    """Return how many tasks the index has in a state; eventually consistent, and it reads every entry it counts."""
    within = Walk(model, code, window)
    kept = _kept_since(model, code)
    pages = (
        page
        for status_key in model.tracker.use_case.status_keys(code)
        for page in _pages(
            model.tracker.connection().query,
            status_key,
            range_key_condition=window.on_due_time(within.last_due()),
            filter_condition=window.on_update_time(kept),
            index_name=_INDEX,
            select="COUNT",
        )
    )
    return sum(page["Count"] for page in pages)


def counts(model: type[TaskRow]) -> dict[int, int]:
    """Return how many tasks the index has by code, codes that no step declares included; reads the whole index once."""
    prefix = model.tracker.use_case.prefix
    pages = _pages(
        model.tracker.connection().scan,
        filter_condition=StatusIndex.status_key.startswith(prefix),
        attributes_to_get=["status_key", "update_time"],
        index_name=_INDEX,
    )
    found = Counter[int]()
    for entry in (entry for page in pages for entry in page["Items"]):
        code = int(entry["status_key"]["S"].removeprefix(prefix).partition("#")[0])
        kept = _kept_since(model, code)
        found[code] += kept is None or entry["update_time"]["S"] >= clock.stamp(kept)
    return found


def _kept_since(model: type[TaskRow], code: int) -> datetime | None:
    """Return since when a task must have been in an ended state to be there still; a time to live is in seconds."""
    keep_for = model.tracker.use_case.keep_for
    if keep_for is None or not model.tracker.ends_at(code):
        return None
    return clock.now().replace(microsecond=0) + timedelta(seconds=1) - keep_for


def _pages(
    read: Callable[..., dict[str, Any]], *args: Any, start: Any = None, **options: Any
) -> Iterator[dict[str, Any]]:
    """Yield the answers of a query or a scan, each asked for when it is wanted."""
    while True:
        page = read(*args, exclusive_start_key=start, **options)
        yield page
        start = page.get("LastEvaluatedKey")
        if not start:
            return


def todo(
    model: type[T], codes: Codes, window: Window, limit: int | None = None, *, with_data: bool = True
) -> Iterator[T]:
    """Return what a step has to do now, oldest first: pending and failed tasks that are due, and abandoned ones."""
    now, margin = clock.now(), model.tracker.margin

    def left_behind(row: T) -> bool:
        expire_time: datetime | None = row.lock_expire_time
        return expire_time is not None and expire_time < now - margin

    walks = [
        Walk(model, codes.pending, window, latest=now + margin, with_data=with_data).rows(limit),
        Walk(model, codes.failed, window, latest=now + margin, with_data=with_data).rows(limit),
        filter(left_behind, Walk(model, codes.in_progress, window, latest=now - margin, with_data=with_data).rows()),
    ]
    merged = heapq.merge(*walks, key=lambda row: (row.due_time, row.task_id))
    return islice(_each_once(merged), limit)


def _each_once(rows: Iterable[T]) -> Iterator[T]:
    """Yield each task once: one that changes its state during the walk may be met in both."""
    seen = set[str]()
    for row in rows:
        if row.task_id not in seen:
            seen.add(row.task_id)
            yield row


def task_ids(model: type[TaskRow]) -> Iterator[str]:
    """Yield the id of every task of the use case once, strongly consistent; reads the whole table.

    Also of those of which a delete that was cut short has left only what lay beside the row.
    """
    use_case = model.tracker.use_case
    pages = _pages(
        model.tracker.connection().scan,
        filter_condition=(TaskRow.use_case_id == use_case.name) | TaskRow.use_case_id.startswith(use_case.prefix),
        attributes_to_get=["task_id"],
        consistent_read=True,
    )
    ids = (item["task_id"]["S"] for page in pages for item in page["Items"])
    return (task_id for task_id, _ in groupby(ids))  # a scan reads the items of one hash key one after the other
