"""Whole tasks: rows read by key, strongly consistent, together with the data that lies beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.connection import backoff
from pynamodb_tracker.data import DataAttribute, LeftOut
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model import TaskRow, load
from pynamodb_tracker.pieces import DATA, Pointer, items, read

__all__ = ["fill", "leave_out", "rows", "size_beside"]

T = TypeVar("T", bound=TaskRow)

_TRIES = 8
"""How often a row is read again because its data was written twice while it was read."""


def rows(model: type[T], task_ids: Iterable[str]) -> dict[str, T]:
    """Read rows by task id; what lies beside them is read by `fill`, or when it is touched."""
    keys = [model.tracker.key(task_id) for task_id in dict.fromkeys(task_ids)]
    found = (load(model, item) for item in items(model.tracker.connection(), keys))
    return {row.task_id: row for row in found}


def fill(model: type[T], found: Mapping[str, T]) -> dict[str, T]:
    """Return these rows with their data: each as it was at one moment, never a row of one with the data of another.

    A row whose data was written again meanwhile is read again, and left out where it is gone.
    """
    whole, left = dict(found), dict(found)
    for pause in backoff(tries=_TRIES):
        beside = {task_id: pointer for task_id, row in left.items() if (pointer := _pointer(row)) is not None}
        places = {task_id: ((task_id, left[task_id].use_case_id), DATA) for task_id in beside}
        texts = read(model.tracker.connection(), {places[task_id]: pointer for task_id, pointer in beside.items()})
        for (task_id, _), _ in texts:
            attribute_of(model).fill(left[task_id], texts[places[task_id]])
        moved = beside.keys() - {task_id for (task_id, _), _ in texts}
        if not moved:
            return whole
        if pause is None:
            raise _torn(model, min(moved))
        clock.sleep(pause)
        left = rows(model, moved)
        whole = {
            task_id: left.get(task_id, row) for task_id, row in whole.items() if task_id in left or task_id not in moved
        }
    raise AssertionError("the last try returns or raises")


def _torn(model: type[TaskRow], task_id: str) -> TrackerError:
    return TrackerError(
        f"the data of {model.__name__} {task_id!r} is not whole: of its pieces beside the row, at least one is missing "
        f"or of another version, {_TRIES} times in a row; was it deleted by other means?"
    )


def leave_out(found: Iterable[TaskRow]) -> None:
    """Take the data out of rows that were asked for without it."""
    for row in found:
        row.attribute_values["data"] = LeftOut()


def size_beside(row: TaskRow) -> int:
    """Return how many bytes lie beside a row and are not read yet."""
    pointer = _pointer(row)
    return pointer.size if pointer else 0


def attribute_of(model: type[TaskRow]) -> DataAttribute:
    """Return the attribute `data` of a class."""
    attribute: DataAttribute = model.data
    return attribute


def _pointer(row: TaskRow) -> Pointer | None:
    value = row.attribute_values.get("data")
    return value if isinstance(value, Pointer) else None
