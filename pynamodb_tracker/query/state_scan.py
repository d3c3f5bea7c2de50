"""Scans one state: reads the rows of its index entries, and drops changed ones."""

import heapq
import os
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from math import ceil, sqrt
from typing import Any, Generic, TypeVar

from pynamodb.expressions.condition import Condition

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import MOST_KEYS, Item, read_page
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model import hydration
from pynamodb_tracker.model.data import unread_data
from pynamodb_tracker.model.overflow import key_of_row
from pynamodb_tracker.model.row import StatusIndex, TaskRow, has_expired
from pynamodb_tracker.model.serialization import TimeAttribute

K = TypeVar("K")
T = TypeVar("T", bound=TaskRow)

Position = tuple[str, str]  # an index entry's due time and task id
INDEX = StatusIndex.Meta.index_name
ALL = slice(None)  # all shards of a state
_MOST_DATA = 4 * 1024 * 1024  # bytes of off-row data in memory, unless a single task has more
_ENTRIES_PER_UNIT = 10  # entries for half a read unit, the minimum price. An entry takes 285 to 500 bytes.
_MOST_ENTRIES = 10_000  # more than the 1 MB of a request. DynamoDB refuses a limit beyond 32 bits.
PAGE = 500  # entries per request without a limit, about 150 KB
_RECENT = 4096  # how many ids to collect in a set before sorting them into an array


class Window:
    """The time when a task entered its state: `since <= update_time < until`."""

    # Building a dataclass would slow every cold start.

    def __init__(self, since: datetime | None = None, until: datetime | None = None) -> None:
        self.since = since
        self.until = until

    def on_update_time(self) -> Condition | None:
        """Return the exact filter on `update_time`."""
        condition = None
        if self.since is not None:
            condition &= TaskRow.update_time >= self.since
        if self.until is not None:
            condition &= TaskRow.update_time < self.until
        return condition

    def key_condition(self, time: TimeAttribute, latest: datetime | None) -> Condition | None:
        """Return a key condition from the window to `latest`. `time` may be `due_time`, which is never earlier."""
        if self.since is not None and latest is not None:
            return time.between(self.since, max(self.since, latest))
        if self.since is not None:
            return time >= self.since
        return None if latest is None else time <= latest


class StateScan(Generic[T]):
    """The tasks in one state, by `due_time`. It keeps one page in memory."""

    def __init__(
        self,
        model: type[T],
        code: int,
        window: Window,
        *,
        latest_due_first: bool = False,
        latest: datetime | None = None,
        after: datetime | None = None,
        with_data: bool = True,
        shards: slice = ALL,
    ) -> None:
        if code in model.tracker.unindexed:
            raise TrackerError(
                f"the index does not contain succeeded tasks of {model.__name__}, because of "
                f"UseCase({model.tracker.use_case.name!r}, index_succeeded=False): read them by id, or use scan"
            )
        self.model = model
        self.code = code
        self.window = window
        self.latest_due_first = latest_due_first
        # A finished task's due time is its end, so the window limits it.
        self.latest = window.until if latest is None and model.tracker.ends_at(code) else latest
        self.after = after  # only entries that are due later than this, instead of the window
        self.with_data = with_data
        self.shards = shards
        self.positions: dict[str, Position] = {}  # the last consumed entry per index key, after which a scan starts
        self._entries: Iterator[Item] = iter(())

    def rows(self, limit: int | None = None) -> Iterator[T]:
        self._entries = self.entries(limit)
        seen, wanted = SeenIds(), limit
        while chunk := list(islice(self._entries, min(MOST_KEYS, wanted or MOST_KEYS))):
            ids = [entry["task_id"]["S"] for entry in chunk]
            for entry, row in with_data_of(
                zip(chunk, ids, strict=True), hydration.rows(self.model, ids), _is_as_indexed, with_data=self.with_data
            ):
                self.positions[entry["status_key"]["S"]] = entry["due_time"]["S"], entry["task_id"]["S"]
                if row is None or not seen.is_new(row.task_id):
                    continue
                yield row
                if wanted is not None:
                    wanted -= 1
            if wanted == 0:
                return

    def has_more(self) -> bool:
        return next(self._entries, None) is not None

    def has_position(self, at: Position) -> bool:
        since, last = self.window.since, self.latest
        return (since is None or clock.stamp(since) <= at[0]) and (last is None or at[0] <= clock.stamp(last))

    def entries(self, limit: int | None = None) -> Iterator[Item]:
        """Yield the index entries from all shards, merged.

        The first pages are read at the same time. With a limit, they are little more than each shard's share.
        """
        keys = self.model.tracker.status_keys(self.code)[self.shards]
        first, later = _first_limit(limit, len(keys)), min(max(limit or PAGE, _ENTRIES_PER_UNIT), PAGE)
        shards = [self._pages(key, first, later) for key in keys]
        found = side_by_side(next, shards)
        merged = [chain(first, chain.from_iterable(rest)) for first, rest in zip(found, shards, strict=True)]
        yield from heapq.merge(*merged, key=position, reverse=self.latest_due_first)

    def peek(self, most: int) -> tuple[list[Item], bool]:
        """Return the main values of the first entries, and whether there are more. One request per shard."""
        keys = [(key, None) for key in self.model.tracker.status_keys(self.code)]
        options: dict[str, Any] = {
            "window": self.window,
            "limit": most + 1,
            "scan_index_forward": not self.latest_due_first,
            "attributes_to_get": ["task_id", "due_time", "update_time", "last_error"],
        }
        pages = side_by_side(partial(self._page, **options), keys)
        merged = heapq.merge(*(page["Items"] for page in pages), key=position, reverse=self.latest_due_first)
        found = {entry["task_id"]["S"]: entry for entry in islice(merged, most + 1)}
        entries = list(found.values())[:most]
        return entries, len(found) > most or any(page.get("LastEvaluatedKey") for page in pages)

    def _pages(self, status_key: str, first: int, later: int) -> Iterator[list[Item]]:
        """Yield a shard's pages lazily, at least one. They grow if the window drops entries."""
        start, limit = None, first
        if (at := self.positions.get(status_key)) is not None:
            start = {"status_key": {"S": status_key}, "due_time": {"S": at[0]}, **self.model.tracker.key(at[1])}
        while True:
            found = self._page((status_key, start), self.window, limit, scan_index_forward=not self.latest_due_first)
            yield found["Items"]
            start = found.get("LastEvaluatedKey")
            if not start:
                return
            if len(found["Items"]) < limit:
                later = min(2 * later, PAGE)
            limit = later

    def count(self, most: int | None = None) -> int:
        """Return the number of tasks in the index. With `most`, first ask each shard for its share of that."""
        times = self.window.since, kept_since(self.model, self.code)
        window = Window(max((time for time in times if time is not None), default=None), self.window.until)
        found = dropped = 0
        left = dict[str, Any].fromkeys(self.model.tracker.status_keys(self.code))
        while left and (most is None or found < most):
            limit = None
            if most is not None:
                share = -(-max(most - found, dropped) // len(left))
                limit = min(max(share, _ENTRIES_PER_UNIT), _MOST_ENTRIES)
            count = partial(self._page, window=window, limit=limit, select="COUNT")
            responses = side_by_side(count, left.items())
            found += sum(response["Count"] for response in responses)
            dropped += sum(response["ScannedCount"] - response["Count"] for response in responses)
            ends = ((key, response.get("LastEvaluatedKey")) for key, response in zip(left, responses, strict=True))
            left = {key: end for key, end in ends if end}
        return found if most is None else min(found, most)

    def _page(
        self, shard: tuple[str, Item | None], window: Window, limit: int | None, **options: Any
    ) -> dict[str, Any]:
        """Read up to `limit` entries. `shard` is the index key, and where to start."""
        table, (status_key, start) = self.model.tracker.connection(), shard
        return read_page(
            table,
            table.query,
            status_key,
            start=start,
            range_key_condition=StatusIndex.due_time > self.after
            if self.after
            else window.key_condition(StatusIndex.due_time, self.latest),
            filter_condition=window.on_update_time(),
            index_name=INDEX,
            limit=limit,
            **options,
        )


def _first_limit(limit: int | None, shards: int) -> int:
    """Return how many entries to request from each shard first, so that few need a second request."""
    if limit is None or shards <= 1:
        return min(limit or PAGE, PAGE)
    mean = limit / shards
    return min(limit, max(ceil(mean + 2 * sqrt(mean)), _ENTRIES_PER_UNIT), PAGE)


class SeenIds:
    """The ids that a scan has seen, in 8 bytes each. A set of text would take ten times as much.

    With a million ids, one scan in 30 million has two ids with the same digest. Each scan has its own hash key, so
    nobody can hide a task by choosing its id.
    """

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._recent: set[int] = set()
        self._sorted: list[array[int]] = []  # each at least twice as long as the next one

    def is_new(self, task_id: str) -> bool:
        """Return whether the scan sees this id for the first time."""
        digest = int.from_bytes(blake2b(task_id.encode(), digest_size=8, key=self._key).digest())
        if digest in self._recent:
            return False
        for digests in self._sorted:
            at = bisect_left(digests, digest)
            if at < len(digests) and digests[at] == digest:
                return False
        self._recent.add(digest)
        if len(self._recent) == _RECENT:
            latest = array("Q", sorted(self._recent))
            self._recent.clear()
            while self._sorted and len(self._sorted[-1]) < 2 * len(latest):
                latest = array("Q", heapq.merge(self._sorted.pop(), latest))
            self._sorted.append(latest)
        return True


def position(entry: Mapping[str, Any]) -> Position:
    return entry["due_time"]["S"], entry["task_id"]["S"]


def kept_since(model: type[TaskRow], code: int) -> datetime | None:
    """Return the earliest second when an unexpired task may have entered this final state."""
    kept_for = model.tracker.kept_for(code)
    return None if kept_for is None else clock.now().replace(microsecond=0) + timedelta(seconds=1) - kept_for


def _is_as_indexed(row: TaskRow, entry: Item) -> bool:
    stored = row._row_state.stored
    # If entries lack one of these, the index is not as declared, and no row matches.
    moved = any(stored.get(name) != (entry[name] if name in stored else None) for name in ("status", "due_time"))
    return not moved and not has_expired(row)


def with_data_of(
    entries: Iterable[tuple[Item, K]], rows: dict[K, T], is_as_indexed: Callable[[T, Item], bool], *, with_data: bool
) -> Iterator[tuple[Item, T | None]]:
    """Yield each entry with its row, unless that has changed. Keep little data in memory."""
    found = ((entry, rows.get(key)) for entry, key in entries)
    pairs = deque((entry, row if row is not None and is_as_indexed(row, entry) else None) for entry, row in found)
    rows.clear()  # to free yielded rows
    while pairs:
        group = _take_group(pairs)
        unread = [row for _, row in group if row is not None]
        if with_data:
            filled = hydration.fill_each(unread)
        else:
            hydration.leave_out_data(unread)
            filled = {key_of_row(row): row for row in unread}
        group.reverse()
        del unread
        while group:
            entry, row = group.pop()
            whole = None if row is None else filled.pop(key_of_row(row), None)
            if whole is not None and whole is not row and not is_as_indexed(whole, entry):  # it was written meanwhile
                whole = None
            yield entry, whole


def _take_group(pairs: deque[tuple[Item, T | None]]) -> list[tuple[Item, T | None]]:
    group: list[tuple[Item, T | None]] = []
    room = _MOST_DATA
    while pairs:
        _, row = pairs[0]
        pointer = None if row is None else unread_data(row)
        room -= 0 if pointer is None else pointer.size
        if group and room < 0:
            break
        group.append(pairs.popleft())
    return group
