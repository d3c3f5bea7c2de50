"""A row's beginning and its end: create, and delete."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.connection import Refused, send
from pynamodb_tracker.exceptions import (
    TaskAlreadyExistsError,
    TaskLockedError,
    TaskNotFoundError,
    ValueNotStorableError,
)
from pynamodb_tracker.limits import check
from pynamodb_tracker.model import TaskRow, load
from pynamodb_tracker.stored import Stored, serialized
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.prepared import PreparedWrite
from pynamodb_tracker.transitions.refusals import holder
from pynamodb_tracker.transitions.storable import check_size, storing
from pynamodb_tracker.transitions.writes import get

__all__ = ["create", "delete", "delete_condition"]

T = TypeVar("T", bound=TaskRow)


def create(model: type[T], task_id: str, code: int, due_time: datetime | None, attributes: Mapping[str, Any]) -> T:
    """Put the row of a new task, and return it; TaskAlreadyExistsError leaves the one that is there untouched."""
    now = clock.now()
    given = model(**attributes)
    item = _item(model, task_id, code, now, due_time)
    changes = {}
    for name, attribute in model.tracker.own_attributes():
        try:
            value = serialized(given, name, attribute)
            check(model.__name__, name, attribute, value)
        except ValueNotStorableError as error:
            error.task_id = task_id
            raise
        if value is not None:
            changes[name] = attribute, value
            item[attribute.attr_name] = value
    row = load(model, item)
    check_size(row, {})
    try:
        with storing(row, changes):
            _put(model, item)
    except Refused as refused:
        found = get(model, task_id) if refused.repeated else None
        if found is None or found.create_time != now:  # its own: the SDK repeated a request whose answer got lost
            raise TaskAlreadyExistsError(
                f"cannot create {model.__name__} {task_id!r}: it exists, and is left as it is",
                task_id=task_id,
                task=found,  # type: ignore[arg-type]  # rows of users are tasks
            ) from None
    return row


def _item(model: type[T], task_id: str, code: int, now: datetime, due_time: datetime | None) -> Stored:
    use_case, created = model.tracker.use_case, {"S": clock.stamp(now)}
    item: Stored = {
        **model.tracker.key(task_id),
        "status": {"N": str(code)},
        "status_key": {"S": use_case.status_key(code, task_id)},
        "due_time": {"S": clock.stamp(max(now, due_time or now))},
        "create_time": created,
        "update_time": created,
        "attempt": {"N": "0"},
        "fence": {"N": "0"},
        "unfinished": {"L": []},
    }
    if model.tracker.ends_at(code) and use_case.keep_for:
        item["expire_time"] = {"N": str(int((now + use_case.keep_for).timestamp()))}
    return item


def _put(model: type[T], item: Stored) -> None:
    table = model.tracker.connection()
    request = table.get_operation_kwargs("", "", condition=TaskRow.task_id.does_not_exist())
    del request["Key"], request["TableName"]
    send(table, "PutItem", {**request, "Item": item})


def delete_condition(model: type[T]) -> PreparedWrite:
    """Return the DeleteItem of this use case's rows: nobody holds the task."""
    table = model.tracker.connection()
    return PreparedWrite(table, condition=when.not_in_progress(model.tracker.steps))


def delete(model: type[T], task_id: str) -> None:
    """Delete the row of a task that nobody holds; TaskLockedError or TaskNotFoundError otherwise."""
    now = clock.now()
    values = {"now_minus_margin": clock.stamp(now - model.tracker.margin)}
    request = delete_condition(model).request(model.tracker.key(task_id), values)
    try:
        send(model.tracker.connection(), "DeleteItem", request)
    except Refused as refused:
        row = get(model, task_id)
        if row is not None:
            raise TaskLockedError(
                f"cannot delete {model.__name__} {task_id!r}: it is {row.tracker.name_of(row.status)}, {holder(row)}",
                task_id=task_id,
                task=row,  # type: ignore[arg-type]  # rows of users are tasks
            ) from None
        if not refused.repeated:  # repeated: the first one deleted it, and its answer got lost
            raise TaskNotFoundError(
                f"cannot delete {model.__name__} {task_id!r}: there is no such task", task_id=task_id
            ) from None
