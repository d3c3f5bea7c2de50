"""A walk through a state: finds candidates in the index, reads the whole rows, and drops what has moved on."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Generic, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.pagination import pages
from pynamodb_tracker.model import hydration as whole
from pynamodb_tracker.model.row import TaskRow, stored_row
from pynamodb_tracker.model.serialization import Stored
from pynamodb_tracker.query.seen_ids import Seen
from pynamodb_tracker.query.window import INDEX, Window

__all__ = ["Position", "Walk", "position"]

T = TypeVar("T", bound=TaskRow)

Position = tuple[str, str]
"""The due time and the task id of an index entry: where a walk through a shard stands."""

_ALWAYS = Window()

_MOST_KEYS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html"""

_MOST_DATA = 4 * 1024 * 1024
"""Bytes of data beside rows that are held at a time; a single task may have more."""

_PAGE = 500
"""Entries a request to the index asks for where no limit is given; about 150 KB."""


@dataclass(slots=True)
class Walk(Generic[T]):
    """A walk through the tasks of one state in the order of `due_time`, across shards, a page in memory."""

    model: type[T]
    code: int
    window: Window = _ALWAYS
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
        seen, wanted = Seen(), limit
        while chunk := list(islice(self._entries, min(_MOST_KEYS, wanted or _MOST_KEYS))):
            for entry, row in self._whole(chunk):
                self.positions[entry["status_key"]["S"]] = position(entry)
                if row is None or not still(row, entry) or not seen.is_new(row.task_id):
                    continue
                yield row
                if wanted is not None:
                    wanted -= 1
            if wanted == 0:
                return

    def _whole(self, chunk: Sequence[Stored]) -> Iterator[tuple[Stored, T | None]]:
        """Yield each entry with its row, whose data is in memory for as many at a time as the bound allows."""
        rows = whole.rows(self.model, (entry["task_id"]["S"] for entry in chunk))
        pairs = deque((entry, _as_indexed(entry, rows)) for entry in chunk)
        rows.clear()  # from here on, what was yielded may go
        while pairs:
            group = _group(pairs)
            found = {row.task_id: row for _, row in group if row is not None}
            if self.with_data:
                filled = whole.fill(self.model, found)
            else:
                whole.leave_out(found.values())
                filled = found
            group.reverse()
            del found
            while group:
                entry, row = group.pop()
                yield entry, None if row is None else filled.pop(row.task_id, None)

    def has_more(self) -> bool:
        """Tell whether the index has an entry behind the last row that `rows` yielded."""
        return next(self._entries, None) is not None

    def entries(self, limit: int | None = None) -> Iterator[Stored]:
        """Yield the index entries of all shards, merged; each shard is read page by page, as it is needed."""
        shards = [self._shard(key, limit) for key in self.model.tracker.use_case.status_keys(self.code)]
        return heapq.merge(*shards, key=position, reverse=self.latest_first)

    def _shard(self, status_key: str, limit: int | None) -> Iterator[Stored]:
        at = self.positions.get(status_key)
        found = pages(
            self.model.tracker.connection().query,
            status_key,
            range_key_condition=self.window.on_due_time(self.last_due()),
            filter_condition=self.window.on_update_time(),
            index_name=INDEX,
            scan_index_forward=not self.latest_first,
            limit=min(limit or _PAGE, _PAGE),
            start=None if at is None else self._start_key(status_key, at),
        )
        for page in found:
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
    # Where the entries lack what rows have, the index is not the declared one: no row would be believed.
    moved = any(stored.get(name) != (entry[name] if name in stored else None) for name in ("status", "due_time"))
    expire_time: datetime | None = row.expire_time
    return not moved and (expire_time is None or expire_time > clock.now())


def _as_indexed(entry: Stored, rows: Mapping[str, T]) -> T | None:
    row = rows.get(entry["task_id"]["S"])
    return row if row is not None and still(row, entry) else None


def _group(pairs: deque[tuple[Stored, T | None]]) -> list[tuple[Stored, T | None]]:
    """Take as many from the front as the bound on the data in memory allows, one at least."""
    group: list[tuple[Stored, T | None]] = []
    room = _MOST_DATA
    while pairs:
        _, row = pairs[0]
        room -= whole.size_beside(row) if row is not None else 0
        if group and room < 0:
            break
        group.append(pairs.popleft())
    return group
