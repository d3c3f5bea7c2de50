"""Finds tasks by an attribute's value, in any state."""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Generic, TypeVar

from pynamodb.constants import NUMBER

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import MOST_KEYS, Item, pages
from pynamodb_tracker.model import hydration
from pynamodb_tracker.model.overflow import key_of
from pynamodb_tracker.model.row import TaskRow, has_expired
from pynamodb_tracker.query.state_scan import PAGE, Window, with_data_of

T = TypeVar("T", bound=TaskRow)

_MOMENT = timedelta(microseconds=1)
_SECOND_MOMENT = datetime.min.replace(tzinfo=UTC) + _MOMENT
Place = tuple[str, str, str]  # an index entry's creation time, task id and use case


@dataclass
class AttributeScan(Generic[T]):
    """The tasks with one value, by `create_time`. It keeps one page in memory."""

    model: type[T]  # A use case's class finds only its own tasks
    name: str  # of the index
    key: str  # of its hash key
    value: str
    window: Window
    newest_first: bool
    code: int | None
    place: Place | None = None  # the last consumed entry, after which a scan starts
    _entries: Iterator[Item] | None = None
    _chunk: Collection[tuple[Item, T | None]] = ()

    def rows(self, limit: int | None = None) -> Iterator[T]:
        self._entries = entries = self._read(limit)
        size = MOST_KEYS if limit is None or self.code is not None else min(limit, MOST_KEYS)
        found = 0
        while (limit is None or found < limit) and (chunk := list(islice(entries, size))):
            keys = [*map(key_of, chunk)]
            by_key, rows = zip(chunk, keys, strict=True), hydration.rows_of_table(self.model, keys)
            self._chunk = left = deque(with_data_of(by_key, rows, self._is_as_indexed, with_data=True))
            while left:
                entry, row = left.popleft()
                self.place = (entry["create_time"]["S"], *key_of(entry))
                if row is not None:
                    yield row
                    found += 1
                    if found == limit:
                        break

    def has_more(self) -> bool:
        return bool(self._chunk) or (self._entries is not None and next(self._entries, None) is not None)

    def has_place(self, place: Place) -> bool:
        since, until = self.window.since, self.window.until
        return (since is None or clock.stamp(since) <= place[0]) and (until is None or place[0] < clock.stamp(until))

    def _is_as_indexed(self, row: T, entry: Item) -> bool:
        stored = row._row_state.stored
        moved = any(stored.get(name) != entry[name] for name in (self.key, "create_time"))
        is_in_state = self.code is None or stored.get("status") == {NUMBER: str(self.code)}
        return not moved and is_in_state and not has_expired(row)

    def _read(self, limit: int | None) -> Iterator[Item]:
        table, tracker = self.model.tracker.connection(), self.model.tracker
        until = self.window.until
        last = None if until is None else max(until, _SECOND_MOMENT) - _MOMENT
        of_use_case = TaskRow.use_case_id == tracker.use_case.name if tracker.has_use_case else None
        names = (self.key, "create_time", "task_id", "use_case_id")
        at = zip(names, (self.value, *self.place), strict=True) if self.place else ()
        found = pages(
            table,
            table.query,
            self.value,
            start={name: {"S": value} for name, value in at} or None,
            range_key_condition=self.window.key_condition(TaskRow.create_time, last),
            filter_condition=of_use_case,
            index_name=self.name,
            scan_index_forward=not self.newest_first,
            limit=PAGE if limit is None or self.code is not None else min(max(limit, MOST_KEYS), PAGE),
        )
        return chain.from_iterable(page["Items"] for page in found)
