"""Whole tasks: rows read by key, strongly consistent, together with what lies beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.data import DataAttribute, LeftOut
from pynamodb_tracker.errors import ErrorsAttribute
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model import TaskRow
from pynamodb_tracker.pieces import DATA, ERRORS, Kind, Pointer, Row, items, read
from pynamodb_tracker.readable import load_leniently
from pynamodb_tracker.sending import backoff

__all__ = ["fill", "leave_out", "rows", "size_beside"]

T = TypeVar("T", bound=TaskRow)

_TRIES = 8
"""How often a row is read again because its data was written twice while it was read."""


def rows(model: type[T], task_ids: Iterable[str]) -> dict[str, T]:
    """Read rows by task id; what lies beside them is read by `fill`, or when it is touched."""
    keys = [model.tracker.key(task_id) for task_id in dict.fromkeys(task_ids)]
    found = (load_leniently(model, item) for item in items(model.tracker.connection(), keys))
    return {row.task_id: row for row in found}


def fill(model: type[T], found: Mapping[str, T]) -> dict[str, T]:
    """Return these rows with their data and errors: each as it was at one moment, never a mixture of two.

    A row that was written again meanwhile is read again, and left out where it is gone.
    """
    whole, left = dict(found), dict(found)
    for pause in backoff(tries=_TRIES):
        wanted = {place: pointer for row in left.values() for place, pointer in _beside(row)}
        texts = read(model.tracker.connection(), wanted)
        for ((task_id, _), kind), text in texts.items():
            _attributes(model)[kind].fill(left[task_id], text)
        moved = {task_id for (task_id, _), _ in wanted.keys() - texts.keys()}
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
        f"what lies beside {model.__name__} {task_id!r} is not whole: of its pieces, at least one is missing "
        f"or of another version, {_TRIES} times in a row; was it deleted by other means?"
    )


def leave_out(found: Iterable[TaskRow]) -> None:
    """Take the data out of rows that were asked for without it."""
    for row in found:
        row.attribute_values["data"] = LeftOut()


def size_beside(row: TaskRow) -> int:
    """Return how many bytes lie beside a row and are not read yet."""
    return sum(pointer.size for _, pointer in _beside(row))


def _beside(row: TaskRow) -> Iterator[tuple[tuple[Row, Kind], Pointer]]:
    """Yield what lies beside a row and is not read yet, and where."""
    name = row.task_id, row.use_case_id
    if (data := _attributes(type(row))[DATA].unread(row)) is not None:
        yield (name, DATA), data
    if (errors := _attributes(type(row))[ERRORS].unread(row)) is not None:
        yield (name, ERRORS), errors


def _attributes(model: type[TaskRow]) -> dict[Kind, DataAttribute | ErrorsAttribute]:
    return {DATA: model.data, ERRORS: model.errors}
