"""All tasks of a use case, in any state: their number by state, their ids, and the tasks themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import pages
from pynamodb_tracker.model.group_records import range_key
from pynamodb_tracker.model.row import StatusIndex, TaskRow, load
from pynamodb_tracker.query.state_scan import INDEX, kept_since

T = TypeVar("T", bound=TaskRow)


class Count(NamedTuple):
    """How many tasks are in a state."""

    tasks: int = 0
    waiting: int = 0
    """How many of them only the end of other tasks makes due."""


def counts(model: type[TaskRow]) -> dict[int, Count]:
    """Return how many tasks the index has by code, codes that no step declares included; reads the whole index once."""
    prefix, table = model.tracker.use_case.prefix, model.tracker.connection()
    scanned = pages(
        table,
        table.scan,
        filter_condition=StatusIndex.status_key.startswith(prefix),
        attributes_to_get=["status_key", "update_time", "due_time"],
        index_name=INDEX,
    )
    found, waiting, never = Counter[int](), Counter[int](), clock.stamp(clock.NEVER)
    for entry in (entry for page in scanned for entry in page["Items"]):
        code = int(entry["status_key"]["S"].removeprefix(prefix).partition("#")[0])
        kept = kept_since(model, code)
        found[code] += kept is None or entry["update_time"]["S"] >= clock.stamp(kept)
        waiting[code] += entry["due_time"]["S"] == never
    return {code: Count(number, waiting[code]) for code, number in found.items()}


def task_ids(model: type[TaskRow], groups: list[str]) -> Iterator[str]:
    """Yield the id of every task of the use case once, strongly consistent; reads the whole table.

    Includes tasks whose delete was interrupted, so that only their overflow chunks are left. The names of the use
    case's groups are added to `groups`.
    """
    use_case, table = model.tracker.use_case, model.tracker.connection()
    own, of_group = TaskRow.use_case_id, range_key(use_case.name)
    found = pages(
        table,
        table.scan,
        filter_condition=(own == use_case.name) | own.startswith(use_case.prefix) | (own == of_group),
        attributes_to_get=["task_id", "use_case_id"],
        consistent_read=True,
    )
    items = (item for page in found for item in page["Items"])
    for task_id, of_key in groupby(items, key=lambda item: item["task_id"]["S"]):  # a scan reads these in a row
        keys = [item["use_case_id"]["S"] for item in of_key]
        if of_group in keys:
            groups.append(task_id)
        if keys != [of_group]:
            yield task_id


def tasks(model: type[T]) -> Iterator[T]:
    """Return every task of the use case once, strongly consistent; reads the whole table."""
    of_use_case = TaskRow.use_case_id == model.tracker.use_case.name
    table = model.tracker.connection()
    found = pages(table, table.scan, filter_condition=of_use_case, consistent_read=True)
    return (load(model, item) for page in found for item in page["Items"])
