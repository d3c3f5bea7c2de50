"""How long what lies beside a row stays there: as long as the row does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError
from pynamodb.expressions.operand import Path

from pynamodb_tracker.model import TaskRow, stored_row
from pynamodb_tracker.pieces import DATA, ERRORS, PIECE, VERSION, Kind, Pointer, keys_in, life_of, pointer_in
from pynamodb_tracker.sending import Refused, send
from pynamodb_tracker.stored import Stored
from pynamodb_tracker.transitions.atomic import write_together
from pynamodb_tracker.transitions.prepared import PreparedWrite, fill, slot
from pynamodb_tracker.transitions.writes import StepWrites

__all__ = ["clear_orphans", "cleared", "keep", "kept_until"]

T = TypeVar("T", bound=TaskRow)

_version_there = Path(VERSION)
_EXPIRE_TIME = TaskRow.expire_time

_MOST_DELETES = 99
"""In a transaction, beside the check of the row."""

log = logging.getLogger("pynamodb_tracker")


def keep(writes: StepWrites[T], task: T) -> None:
    """Let what lies beside the row of a task that has ended go with it."""
    if keep_until := writes.keep_until(task.status, task.update_time):
        kept_until(writes.model, task, keep_until)


def kept_until(model: type[TaskRow], row: TaskRow, expire_time: str | None) -> None:
    """Let what lies beside a row end with it, once that is on record; with None, let it stay, before the row does.

    It costs a write of each piece, so only where a use case says `keep_for`. That the task has ended stands by then:
    where the pieces cannot be told, that is logged, and they stay.
    """
    pointers: list[tuple[Kind, Pointer | None]] = [
        (DATA, pointer_in(stored_row(row))),
        (ERRORS, row.attribute_values.get("errors_beside")),
    ]
    table = model.tracker.connection()
    actions = [_EXPIRE_TIME.remove() if expire_time is None else fill(_EXPIRE_TIME, "expire")]
    write = PreparedWrite(table, condition=_version_there == slot(TaskRow.lock, "version"), actions=actions)
    for kind, pointer in pointers:
        if pointer is None:
            continue
        for key in keys_in((row.task_id, row.use_case_id), kind, pointer):
            request = write.request(key, {"version": pointer.version, "expire": expire_time})
            try:
                send(table, "UpdateItem", request)
            except Refused:
                continue  # written again since: it belongs to another version
            except PynamoDBConnectionError as error:
                if expire_time is None:
                    raise
                log.warning("the %s beside %s %r stay after its end: %s", kind, model.__name__, row.task_id, error)


def cleared(model: type[TaskRow], task_id: str, create_time: datetime) -> None:
    """Delete what lies beside a row that was deleted; pieces of a task that was created again since are left alone."""
    table = model.tracker.connection()
    after_this_life = life_of(create_time) + "~"  # versions of a later one begin with a later time
    request = table.get_operation_kwargs("", "", condition=_version_there < after_this_life)
    del request["Key"], request["TableName"]
    for key in _keys_beside(model, task_id):
        try:
            send(table, "DeleteItem", {**request, "Key": key})
        except Refused:
            continue


def clear_orphans(model: type[TaskRow], task_id: str) -> None:
    """Delete what a delete that was cut short has left beside a row; nothing while there is a row."""
    table = model.tracker.connection()
    request = table.get_operation_kwargs("", "", condition=TaskRow.task_id.does_not_exist())
    gone = {"ConditionCheck": {**request, "Key": model.tracker.key(task_id)}}
    keys = list(_keys_beside(model, task_id))
    for at in range(0, len(keys), _MOST_DELETES):
        deletes = [{"Delete": {"TableName": table.table_name, "Key": key}} for key in keys[at : at + _MOST_DELETES]]
        unapplied = write_together(table, [gone, *deletes])
        if unapplied and unapplied.refused:
            return  # it was created again meanwhile
        if unapplied:
            raise unapplied.error


def _keys_beside(model: type[TaskRow], task_id: str) -> Iterator[Stored]:
    start: Any = None
    while True:
        page = model.tracker.connection().query(
            task_id,
            range_key_condition=TaskRow.use_case_id.startswith(model.tracker.use_case.prefix),
            filter_condition=Path(PIECE).exists(),  # users may have further records of a task there
            attributes_to_get=["task_id", "use_case_id"],
            exclusive_start_key=start,
            consistent_read=True,
        )
        yield from page["Items"]
        start = page.get("LastEvaluatedKey")
        if not start:
            return
