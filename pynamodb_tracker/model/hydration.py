"""Whole tasks: rows read by key, strongly consistent, together with what lies beside them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.backoff import backoff
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.damaged import load_leniently
from pynamodb_tracker.model.data import DataAttribute, LeftOut
from pynamodb_tracker.model.failure_log import ErrorsAttribute
from pynamodb_tracker.model.overflow import DATA, ERRORS, Kind, Pointer, Row, items, read
from pynamodb_tracker.model.row import TaskRow

log = logging.getLogger("pynamodb_tracker")

__all__ = ["fill", "leave_out", "rows", "size_beside"]

T = TypeVar("T", bound=TaskRow)

Place = tuple[Row, Kind]

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
    whole, left, before = dict(found), dict(found), dict[Place, Pointer]()
    for pause in backoff(tries=_TRIES):
        wanted = {place: pointer for row in left.values() for place, pointer in _beside(row)}
        texts = read(model.tracker.connection(), wanted)
        for ((task_id, _), kind), text in texts.items():
            _attributes(model)[kind].fill(left[task_id], text)
        missing = wanted.keys() - texts.keys()
        torn = {place for place in missing if before.get(place) == wanted[place]}  # nobody writes where a row points to
        _refuse_torn(left, missing if pause is None else torn)
        moved = {task_id for (task_id, _), _ in missing - torn}
        if not moved or pause is None:
            return whole
        clock.sleep(pause)
        left, before = rows(model, moved), wanted
        whole = {
            task_id: left.get(task_id, row) for task_id, row in whole.items() if task_id in left or task_id not in moved
        }
    raise AssertionError("the last try returns or raises")


def _refuse_torn(rows: Mapping[str, TaskRow], missing: Iterable[tuple[Row, Kind]]) -> None:
    """Raise for data that is not whole; errors that are not are told as far as the row has them."""
    for (task_id, _), kind in sorted(missing):
        row = rows[task_id]
        if kind == ERRORS:
            log.warning("of the errors of %s %r only the newest are there", type(row).__name__, task_id)
            continue
        expire_time: datetime | None = row.expire_time
        over = expire_time is not None and expire_time <= clock.now()
        why = f"its time to live was over at {expire_time}" if over else "was it deleted by other means?"
        raise TrackerError(
            f"what lies beside {type(row).__name__} {task_id!r} is not whole: of its pieces, at least one is missing "
            f"or of another version; {why}"
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
