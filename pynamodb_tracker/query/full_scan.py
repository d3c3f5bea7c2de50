"""All tasks of a use case, in any state: their number by state, their ids, and the tasks themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import NamedTuple, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, pages, read_page
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model.group_records import range_key
from pynamodb_tracker.model.row import StatusIndex, TaskRow, load
from pynamodb_tracker.model.schema import SEPARATOR
from pynamodb_tracker.query.state_scan import INDEX, kept_since

T = TypeVar("T", bound=TaskRow)


_SEGMENTS = 16
"""Twice as many as are read at the same time, because keys are spread over segments by chance; an empty one costs half
a read unit."""


class Count(NamedTuple):
    """How many tasks are in a state."""

    tasks: int = 0
    waiting: int = 0
    """How many of them only the end of other tasks makes due."""


def counts(model: type[TaskRow]) -> dict[int, Count]:
    """Return how many tasks the index has by code, codes that no step declares included; reads the whole index once.

    An index of up to 1 MB is one request. A larger one is read in segments, a few at the same time, from its beginning:
    a scan that has begun cannot be divided. All entries of an index key are in one segment, so that a large state needs
    shards to be read faster: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Scan.html
    """
    scan = _IndexScan(model)
    found, end = scan.page(1, (0, None))
    if end:
        found = scan.segments()
    return {code: Count(found[code, False] + found[code, True], found[code, True]) for code, _ in found}


class _IndexScan:
    """A scan of the whole index, which keeps the numbers of a page and not its entries."""

    def __init__(self, model: type[TaskRow]) -> None:
        self.table = model.tracker.connection()
        self.prefix = model.tracker.use_case.prefix
        kept = ((code, kept_since(model, code)) for code in model.tracker.ends)
        self.kept_since = {str(code): clock.stamp(since) for code, since in kept if since is not None}
        """By code, when a task ended at the earliest that has not expired."""

    def segments(self) -> Counter[tuple[int, bool]]:
        """Count by code, and by whether it waits, what the index has."""
        tally = Counter[tuple[int, bool]]()
        left: dict[int, Item | None] = dict.fromkeys(range(_SEGMENTS))
        while left:
            responses = side_by_side(partial(self.page, _SEGMENTS), left.items())
            for found, _ in responses:
                tally.update(found)
            left = {segment: end for segment, (_, end) in zip(left, responses, strict=True) if end}
        return tally

    def page(self, segments: int, at: tuple[int, Item | None]) -> tuple[Counter[tuple[int, bool]], Item | None]:
        """Count in the same way what a request reads; return where the next one of the segment begins, if any."""
        segment, start = at
        found = read_page(
            self.table,
            self.table.scan,
            start=start,
            filter_condition=StatusIndex.status_key.startswith(self.prefix),
            attributes_to_get=["status_key", "update_time", "due_time"],
            index_name=INDEX,
            **({"segment": segment, "total_segments": segments} if segments > 1 else {}),
        )
        return Counter(self._codes(found["Items"])), found.get("LastEvaluatedKey")

    def _codes(self, entries: list[Item]) -> Iterator[tuple[int, bool]]:
        begin, never = len(self.prefix), clock.stamp(clock.NEVER)
        for entry in entries:
            code = entry["status_key"]["S"][begin:].partition(SEPARATOR)[0]
            if code.isdecimal() and self._is_kept(code, entry):  # other programs may write other keys
                yield int(code), entry["due_time"]["S"] == never

    def _is_kept(self, code: str, entry: Item) -> bool:
        since = self.kept_since.get(code)
        return since is None or entry.get("update_time", {}).get("S", "") >= since


_FOR_A_DELETE = (
    *("task_id", "use_case_id", "status", "fence", "attempt", "lock", "creation"),
    *("group", "parent"),
)


def to_delete(model: type[TaskRow], groups: list[str]) -> Iterator[tuple[str, Item | None]]:
    """Yield the id of every task of the use case once, strongly consistent; reads the whole table.

    With it comes what a delete has to know of the row; None if there is more than the row. Includes tasks whose delete
    was interrupted, so that only their overflow chunks are left. The names of the use case's groups are added to
    `groups`.
    """
    use_case, table = model.tracker.use_case, model.tracker.connection()
    own, of_group = TaskRow.use_case_id, range_key(use_case.name)
    found = pages(
        table,
        table.scan,
        filter_condition=(own == use_case.name) | own.startswith(use_case.prefix) | (own == of_group),
        attributes_to_get=list(_FOR_A_DELETE),
        consistent_read=True,
    )
    items = (item for page in found for item in page["Items"])
    for task_id, of_key in groupby(items, key=lambda item: item["task_id"]["S"]):  # a scan reads these in a row
        of_task = {item["use_case_id"]["S"]: item for item in of_key}
        if of_task.pop(of_group, None):
            groups.append(task_id)
        if of_task:
            yield task_id, of_task.get(use_case.name) if len(of_task) == 1 else None


def tasks(model: type[T]) -> Iterator[T]:
    """Return every task of the use case once, strongly consistent; reads the whole table."""
    of_use_case = TaskRow.use_case_id == model.tracker.use_case.name
    table = model.tracker.connection()
    found = pages(table, table.scan, filter_condition=of_use_case, consistent_read=True)
    return (load(model, item) for page in found for item in page["Items"])
