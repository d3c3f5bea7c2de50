"""Every task of a use case, whatever its state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TypeVar

from pynamodb_tracker.dynamodb.pagination import pages
from pynamodb_tracker.model.damaged import load_leniently
from pynamodb_tracker.model.row import TaskRow

__all__ = ["task_ids", "tasks"]

T = TypeVar("T", bound=TaskRow)


def task_ids(model: type[TaskRow]) -> Iterator[str]:
    """Yield the id of every task of the use case once, strongly consistent; reads the whole table.

    Also of those of which a delete that was cut short has left only what lay beside the row.
    """
    use_case = model.tracker.use_case
    found = pages(
        model.tracker.connection().scan,
        filter_condition=(TaskRow.use_case_id == use_case.name) | TaskRow.use_case_id.startswith(use_case.prefix),
        attributes_to_get=["task_id"],
        consistent_read=True,
    )
    ids = (item["task_id"]["S"] for page in found for item in page["Items"])
    return (task_id for task_id, _ in groupby(ids))  # a scan reads the items of one hash key one after the other


def tasks(model: type[T]) -> Iterator[T]:
    """Return every task of the use case once, strongly consistent, with what can be read; reads the whole table."""
    of_use_case = TaskRow.use_case_id == model.tracker.use_case.name
    found = pages(model.tracker.connection().scan, filter_condition=of_use_case, consistent_read=True)
    return (load_leniently(model, item) for page in found for item in page["Items"])
