"""What a block changed, checked before it is sent: what DynamoDB would refuse fails here, and says which attribute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.dynamodb.limits import MAX_ITEM_BYTES, check, item_size, size
from pynamodb_tracker.exceptions import ValueNotStorableError
from pynamodb_tracker.model.row import Changes, TaskRow, changes_of, stored_row
from pynamodb_tracker.model.serialization import Stored
from pynamodb_tracker.transitions.overflow_writes import is_too_large_for_row, too_large

__all__ = ["check_size", "storable_changes", "storing"]

_TRACKER_BYTES = 3000
"""Room for what a transition itself writes: keys, times, the failures on record."""


def storable_changes(task: TaskRow) -> Changes:
    """Return what the block changed, in stored form; raise ValueNotStorableError, also for a row that is too large."""
    try:
        changes = changes_of(task)
        for name, (attribute, value) in changes.items():
            check(type(task).__name__, name, attribute, value)
        if changes:
            check_size(task, {attribute.attr_name: _in_row(task, name, v) for name, (attribute, v) in changes.items()})
    except ValueNotStorableError as error:
        error.task_id = task.task_id
        raise
    return changes


def _in_row(task: TaskRow, name: str, value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what the row will hold of a value; a ValueNotStorableError for data that is too large to be kept."""
    if name != "data" or value is None or not is_too_large_for_row(type(task), value):
        return value
    too_large(type(task), task.task_id, value)
    return None


def check_size(task: TaskRow, new: dict[str, dict[str, object] | None]) -> None:
    """Raise where the row, with the new values in it, would be larger than a row can be."""
    row: Stored = {name: value for name, value in {**stored_row(task), **new}.items() if value is not None}
    total = item_size(row) + _TRACKER_BYTES
    if total > MAX_ITEM_BYTES:
        name, largest = max(((name, size(value)) for name, value in row.items()), key=lambda pair: pair[1])
        raise ValueNotStorableError(
            f"{type(task).__name__} {task.task_id!r} would take {total:,} bytes, and a row holds {MAX_ITEM_BYTES:,}: "
            f"{name} alone has {largest:,}; put it into an object store and keep a pointer to it",
            task_id=task.task_id,
            attribute=name,
            size=largest,
        )


@contextmanager
def storing(task: TaskRow, changes: Changes) -> Iterator[None]:
    """Turn DynamoDB's refusal of the values themselves into a ValueNotStorableError."""
    try:
        yield
    except PynamoDBConnectionError as error:
        if not (changes and is_invalid(error)):
            raise
        names = ", ".join(f"{name} ({size(value):,} bytes)" for name, (_, value) in changes.items() if value)
        raise ValueNotStorableError(
            f"DynamoDB refused what {type(task).__name__} {task.task_id!r} was given in {names}: "
            f"{error.cause_response_message}",
            task_id=task.task_id,
            attribute=next(iter(changes)),
        ) from error
