"""Reads all tasks of a use case, their ids, or their number per state."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import NamedTuple, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, pages, read_page
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model.overflow import group_range_key
from pynamodb_tracker.model.row import StatusIndex, TaskRow, load
from pynamodb_tracker.model.schema import SEPARATOR
from pynamodb_tracker.query.state_scan import INDEX, kept_since

T = TypeVar("T", bound=TaskRow)

_SEGMENTS = 16  # twice as many as are read at once, because keys spread unevenly. An empty one costs half a read unit.


class Count(NamedTuple):
    tasks: int = 0
    waiting: int = 0  # how many wait for other tasks


def counts(model: type[TaskRow]) -> dict[int, Count]:
    """Count the tasks in the index by code, including codes that no step declares. This reads the whole index.

    Up to 1 MB takes one request. A larger index is read again in segments, a few at a time, because DynamoDB cannot
    divide a scan that has begun. A segment has all entries of a key, so only shards speed up reading a large state:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Scan.html
    """
    kept = ((code, kept_since(model, code)) for code in model.tracker.ends)
    oldest = {str(code): clock.stamp(since) for code, since in kept if since is not None}
    found, end = _count_page(model, oldest, 1, (0, None))
    if end:
        found.clear()
        left: dict[int, Item | None] = dict.fromkeys(range(_SEGMENTS))
        while left:
            responses = side_by_side(partial(_count_page, model, oldest, _SEGMENTS), left.items())
            for page, _ in responses:
                found.update(page)
            left = {segment: end for segment, (_, end) in zip(left, responses, strict=True) if end}
    return {code: Count(found[code, False] + found[code, True], found[code, True]) for code, _ in found}


def _count_page(
    model: type[TaskRow], oldest: Mapping[str, str], segments: int, at: tuple[int, Item | None]
) -> tuple[Counter[tuple[int, bool]], Item | None]:
    """Count a page's tasks by code and whether they wait. Return where the segment's next page starts, or None.

    `oldest` is when the oldest unexpired task may have ended, by code.
    """
    table, prefix, never = model.tracker.connection(), model.tracker.use_case.prefix, clock.stamp(clock.NEVER)
    segment, start = at
    found = read_page(
        table,
        table.scan,
        start=start,
        filter_condition=StatusIndex.status_key.startswith(prefix),
        attributes_to_get=["status_key", "update_time", "due_time"],
        index_name=INDEX,
        **({"segment": segment, "total_segments": segments} if segments > 1 else {}),
    )
    tally = Counter[tuple[int, bool]]()
    for entry in found["Items"]:
        code = entry["status_key"]["S"].removeprefix(prefix).partition(SEPARATOR)[0]
        is_kept = entry.get("update_time", {}).get("S", "") >= oldest.get(code, "")
        if code.isdecimal() and is_kept:  # other programs may write other keys
            tally[int(code), entry["due_time"]["S"] == never] += 1
    return tally, found.get("LastEvaluatedKey")


_FOR_A_DELETE = ("task_id", "use_case_id", "status", "fence", "attempt", "lock", "creation", "group", "parent")


def to_delete(model: type[TaskRow], groups: list[str]) -> Iterator[tuple[str, Item | None]]:
    """Yield each task id once, with the row's attributes for a delete. Strongly consistent.

    This reads the whole table, and adds the names of groups to `groups`. A task with several items, or only overflow
    chunks after an interrupted delete, has None as its attributes.
    """
    use_case, table = model.tracker.use_case, model.tracker.connection()
    own, of_group = TaskRow.use_case_id, group_range_key(use_case.name)
    found = pages(
        table,
        table.scan,
        filter_condition=(own == use_case.name) | own.startswith(use_case.prefix) | (own == of_group),
        attributes_to_get=list(_FOR_A_DELETE),
        consistent_read=True,
    )
    items = (item for page in found for item in page["Items"])
    for task_id, of_key in groupby(items, key=lambda item: item["task_id"]["S"]):  # they arrive together
        of_task = {item["use_case_id"]["S"]: item for item in of_key}
        if of_task.pop(of_group, None):
            groups.append(task_id)
        if of_task:
            yield task_id, of_task.get(use_case.name) if len(of_task) == 1 else None


def tasks(model: type[T]) -> Iterator[T]:
    """Yield each task once, strongly consistent. This reads the whole table."""
    of_use_case, table = TaskRow.use_case_id == model.tracker.use_case.name, model.tracker.connection()
    found = pages(table, table.scan, filter_condition=of_use_case, consistent_read=True)
    return (load(model, item) for page in found for item in page["Items"])
