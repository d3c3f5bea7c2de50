"""What a block changed, checked before it is sent: what DynamoDB would refuse fails here, and says which attribute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker.connection import is_invalid
from pynamodb_tracker.exceptions import ValueNotStorableError
from pynamodb_tracker.limits import MAX_ITEM_BYTES, check, item_size, size
from pynamodb_tracker.model import Changes, TaskRow, changes_of, stored_row
from pynamodb_tracker.stored import Stored

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
            check_size(task, {attribute.attr_name: value for attribute, value in changes.values()})
    except ValueNotStorableError as error:
        error.task_id = task.task_id
        raise
    return changes


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
