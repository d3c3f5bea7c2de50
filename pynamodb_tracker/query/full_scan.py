"""All tasks of a use case, in any state: their number by state, their ids, and the tasks themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import pages
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


def task_ids(model: type[TaskRow]) -> Iterator[str]:
    """Yield the id of every task of the use case once, strongly consistent; reads the whole table.

    Includes tasks whose delete was interrupted, so that only their overflow chunks are left.
    """
    use_case, table = model.tracker.use_case, model.tracker.connection()
    found = pages(
        table,
        table.scan,
        filter_condition=(TaskRow.use_case_id == use_case.name) | TaskRow.use_case_id.startswith(use_case.prefix),
        attributes_to_get=["task_id"],
        consistent_read=True,
    )
    ids = (item["task_id"]["S"] for page in found for item in page["Items"])
    return (task_id for task_id, _ in groupby(ids))  # a scan reads the items of one hash key one after the other


def tasks(model: type[T]) -> Iterator[T]:
    """Return every task of the use case once, strongly consistent; reads the whole table."""
    of_use_case = TaskRow.use_case_id == model.tracker.use_case.name
    table = model.tracker.connection()
    found = pages(table, table.scan, filter_condition=of_use_case, consistent_read=True)
    return (load(model, item) for page in found for item in page["Items"])
