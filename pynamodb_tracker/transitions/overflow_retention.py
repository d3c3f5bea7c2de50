"""The time to live of overflow chunks and failure logs: they stay as long as the row does.

Each chunk has the token of its last writer, and tokens only grow. That way, a late copy of an end, or the end of a
frozen worker, does not set a time to live for a task that was reopened since.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TypeVar

from pynamodb.constants import NUMBER
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.operand import Path

from pynamodb_tracker.dynamodb.connection import Item, Refused, get_items, pages, send
from pynamodb_tracker.dynamodb.partiql import IF_ABSENT
from pynamodb_tracker.dynamodb.retries import not_persisting
from pynamodb_tracker.dynamodb.transact_write import transact_write
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model.failure_log import failures_in_row
from pynamodb_tracker.model.overflow import CHUNK, chunk_keys, pointer_in
from pynamodb_tracker.model.row import TaskRow, may_expire
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.prepared import PreparedWrite, fill
from pynamodb_tracker.transitions.statements import StepStatements, get

T = TypeVar("T", bound=TaskRow)

_MOST_DELETES = 99
"""In one transaction, in addition to the check of the row."""

log = logging.getLogger("pynamodb_tracker")


def expire(statements: StepStatements[T], task: T) -> None:
    """Give an ended task's off-row items the row's time to live, after the end is recorded.

    It costs a query and a write per chunk, so it is only called if the use case has a time to live, and sends nothing
    for a plain task. If it fails, it logs a warning, and the chunks stay.
    """
    expiry = statements.model.tracker.expiry_of(task.status, task.update_time)
    if expiry is None or not may_expire(task) or _is_plain(statements, task):
        return
    try:
        with not_persisting():
            _set_expire_time(statements.model, task.task_id, task.lock, expiry)
    except PynamoDBException as error:
        _log_remains(statements.model, task.task_id, error)


def _is_plain(statements: StepStatements[T], task: T) -> bool:
    """Return whether the row proves that nothing was ever stored beside it.

    It was claimed once per step, so each claim has succeeded, and none can have left chunks behind. It has no `data`,
    which stays in a row even if it is emptied, no failures, and never had children.
    """
    row = task._row_state.stored
    return (
        not {"data", "release_count", "postpone_count", "child_count"} & row.keys()
        and not failures_in_row(task)
        and {*(task.unfinished or ())} <= {task.fence}
        and task.fence == statements.model.tracker.steps.index(statements.codes) + 1
    )


def keep(model: type[T], row: T, token: str, operation: str) -> None:
    """Remove the time to live of an ended task's chunks, before an operation with that token revives the task.

    Raises TaskNotFoundError if its data has already been deleted.
    """
    _set_expire_time(model, row.task_id, token, None)
    pointer = pointer_in(row._row_state.stored)
    if pointer is None:
        return
    keys = chunk_keys((row.task_id, row.use_case_id), pointer)
    if len(list(get_items(model.tracker.connection(), keys))) < len(keys):
        raise TaskNotFoundError(
            f"cannot {operation} {model.__name__} {row.task_id!r}: its time to live ended at {row.expire_time}, and "
            "its data is gone",
            task_id=row.task_id,
            task=row,
        )


def renew(model: type[T], row: T, expiry: str | None) -> None:
    """Change or remove the time to live of an ended task's chunks, before its row gets the same.

    It does not raise the token: a reopen may come from a machine whose clock is behind this one's.
    """
    _set_expire_time(model, row.task_id, row.lock or row.creation, expiry)


def expire_again(model: type[T], task_id: str) -> None:
    """Undo a `keep` whose operation was refused, unless the task is live again."""
    try:
        row = get(model, task_id)
        if row is None or row.expire_time is None:
            return
        table, expire_time = model.tracker.connection(), row._row_state.stored["expire_time"][NUMBER]
        as_seen = (TaskRow.lock == row.lock) & TaskRow.expire_time.exists()
        check = table.get_operation_kwargs("", "", condition=as_seen)
        unchanged = {"ConditionCheck": {**check, "Key": model.tracker.key(task_id)}}
        for key in _off_row_keys(model, task_id):
            actions = [Path("expire_time").set({NUMBER: expire_time})]
            update = table.get_operation_kwargs("", "", condition=Path(CHUNK).exists(), actions=actions)
            unapplied = transact_write(table, [unchanged, {"Update": {**update, "Key": key}}])
            if unapplied and not unapplied.refused:
                raise unapplied.error
    except PynamoDBException as error:
        _log_remains(model, task_id, error)


def clear_orphans(model: type[TaskRow], task_id: str) -> None:
    """Delete the chunks of a deleted row, but nothing if a row exists, such as one created since."""
    table = model.tracker.connection()
    in_table = {"TableName": table.table_name}
    gone = {"ConditionCheck": {**in_table, **IF_ABSENT, "Key": model.tracker.key(task_id)}}
    keys = list(_off_row_keys(model, task_id))
    for at in range(0, len(keys), _MOST_DELETES):
        deletes = [{"Delete": {**in_table, "Key": key}} for key in keys[at : at + _MOST_DELETES]]
        unapplied = transact_write(table, [gone, *deletes])
        if unapplied and unapplied.refused:
            return
        if unapplied:
            raise unapplied.error


def _set_expire_time(model: type[TaskRow], task_id: str, token: str, expire_time: str | None) -> None:
    """Set or remove the time to live of a row's chunks, except those that a later operation has written."""
    table = model.tracker.connection()
    end = TaskRow.expire_time.remove() if expire_time is None else fill(TaskRow.expire_time, "expire")
    write = PreparedWrite(table, condition=when.no_later_command().condition, actions=[end, fill(TaskRow.lock, "lock")])
    for key in _off_row_keys(model, task_id):
        try:
            send(table, "UpdateItem", write.request(key, {"lock": token, "expire": expire_time}))
        except Refused:
            continue


def _off_row_keys(model: type[TaskRow], task_id: str) -> Iterator[Item]:
    """Yield the keys of a task's chunks and failure log, but not of items that users keep there."""
    table = model.tracker.connection()
    found = pages(
        table,
        table.query,
        task_id,
        range_key_condition=TaskRow.use_case_id.startswith(model.tracker.use_case.prefix),
        filter_condition=Path(CHUNK).exists(),
        attributes_to_get=["task_id", "use_case_id"],
        consistent_read=True,
    )
    return ({name: item[name] for name in ("task_id", "use_case_id")} for page in found for item in page["Items"])


def _log_remains(model: type[TaskRow], task_id: str, error: PynamoDBException) -> None:
    fields = log_fields(model.tracker.use_case.name, task_id=task_id)
    log.warning("overflow chunks of %s %r stay after its end: %s", model.__name__, task_id, error, extra=fields)
