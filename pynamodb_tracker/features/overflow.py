"""Data and failures that are too large for a row: the items beside it that hold them, and their time to live.

Chunks are put into the slot that the row does not point to, before the row. A reader sees the old text or the new one,
never a mixture. A crash leaves chunks in the free slot, which the next writer overwrites. There are at most two slots,
and nothing has to be cleaned up.

The chunks stay as long as the row does. Each has the token of its last writer, and tokens only grow. That way, a late
copy of an end, or the end of a frozen worker, does not set a time to live for a task that was reopened since.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any, TypeVar

from pynamodb.constants import BINARY, NUMBER, STRING
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from pynamodb_tracker.dynamodb.connection import Item, Refused, get_items, pages, send
from pynamodb_tracker.dynamodb.partiql import IF_ABSENT
from pynamodb_tracker.dynamodb.retries import not_persisting
from pynamodb_tracker.dynamodb.transact_write import transact_write
from pynamodb_tracker.exceptions import TaskNotFoundError, TrackerError
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model import overflow
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.failure_log import compress_failures, failures_in_row
from pynamodb_tracker.model.row import TaskRow, may_expire
from pynamodb_tracker.writes.conditions import guard
from pynamodb_tracker.writes.lock import Claim, Journal
from pynamodb_tracker.writes.prepared import PreparedWrite, fill, slot
from pynamodb_tracker.writes.refusals import lost
from pynamodb_tracker.writes.statements import StepStatements, get

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")

_version_there = Path(overflow.VERSION)
_TRIES = 4

_MOST_DELETES = 99
"""In one transaction, in addition to the check of the row."""


@guard
def no_later_version(version: str) -> Condition:
    """Require that this chunk was not written by a later holder of the task, a later save, or this save itself."""
    there = Path(overflow.VERSION)
    return there.does_not_exist() | (there < version)


@guard
def no_later_command() -> Condition:
    """Require that the chunk exists, and that no later claim or command has written it."""
    lock = TaskRow.lock
    return Path(overflow.CHUNK).exists() & (lock.does_not_exist() | (lock <= slot(lock, "lock")))


def put_next_version(journal: Journal[T], changes: Changes) -> Changes:
    """Put `data` into overflow chunks, and return the changes with a pointer instead.

    It counts as a save, so that a late copy of one write cannot be taken for a part of another. Raises LockLostError if
    a later holder has written a chunk.
    """
    claim = journal.claim
    journal.saves += 1
    attribute, value = changes["data"]
    if value is None:
        return changes
    version = overflow.version_of(claim.create_time, claim.fence, journal.saves)
    pointer, chunks = overflow.split(value[STRING], journal.free_slot, version)
    for item in overflow.chunk_items(_key(claim.task), claim.token, pointer, chunks):
        _put_chunk(claim, item, version)
    return {**changes, "data": (attribute, pointer.stored())}


def log_failures(statements: StepStatements[T], row: T, token: str, version: str) -> None:
    """Put the complete failures of a task into its log item, because they do not fit into its row.

    The status is already recorded. A log item of a later version stays. If the write fails, it logs a warning, and the
    row keeps its short entry.
    """
    try:
        item = {
            **overflow.log_key(_key(row)),
            overflow.VERSION: {STRING: version},
            "lock": {STRING: token},
            overflow.CHUNK: {BINARY: compress_failures(row.errors)},
        }
        with not_persisting():
            _put(statements, item, no_later_version(version).condition)
    except Refused:
        return
    except PynamoDBException as error:
        log.warning(
            "the last errors of %s %r are truncated to fit the row: %s",
            type(row).__name__,
            row.task_id,
            error,
            extra=log_fields(statements.codes.use_case_id, statements.codes.step, row.task_id),
        )


def _key(row: TaskRow) -> overflow.RowKey:
    return row.task_id, row.use_case_id


def _put_chunk(claim: Claim[T], item: Item, version: str) -> None:
    """Put a chunk unless a later holder has written it, which proves that the lock was lost.

    A chunk of an earlier task with this id, created on a machine whose clock was ahead, is overwritten.
    """
    statements, task_id = claim.statements, claim.task.task_id
    key = {name: item[name] for name in ("task_id", "use_case_id")}
    condition = no_later_version(version).condition
    for _ in range(_TRIES):
        try:
            _put(statements, item, condition, until=claim.expire_time)
        except Refused:
            # Read before the row: a chunk that is written after this read must not be taken for the one that refused.
            found = next(get_items(statements.table, [key]), None)
            if found is not None and found[overflow.VERSION][STRING] == version:
                return  # a repeated request met its own success
            row = get(statements.model, task_id, until=claim.expire_time)
            of_this_life = found is not None and found[overflow.VERSION][STRING].startswith(
                overflow.life_of(claim.create_time)
            )
            if row is None or of_this_life or not claim.holds(row):
                raise lost(claim, "save", row) from None
            condition = _version_there == found[overflow.VERSION][STRING] if found else _version_there.does_not_exist()
        else:
            return
    raise TrackerError(
        f"cannot save data of {statements.model.__name__} {task_id!r}: its overflow chunks changed {_TRIES} times "
        "meanwhile, although this run holds the lock; does another program write them?"
    )


def _put(statements: StepStatements[T], item: Item, condition: Condition, *, until: datetime | None = None) -> None:
    request: dict[str, Any] = statements.table.get_operation_kwargs("", "", condition=condition)
    del request["Key"], request["TableName"]
    send(statements.table, "PutItem", {**request, "Item": item}, until=until)


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
        not {"data", "release_count", "postpone_count", "join_token"} & row.keys()
        and not failures_in_row(task)
        and {*(task.unfinished or ())} <= {task.fence}
        and task.fence == statements.model.tracker.steps.index(statements.codes) + 1
    )


def keep(model: type[T], row: T, token: str, operation: str) -> None:
    """Remove the time to live of an ended task's chunks, before an operation with that token revives the task.

    Raises TaskNotFoundError if its data has already been deleted.
    """
    _set_expire_time(model, row.task_id, token, None)
    pointer = overflow.pointer_in(row._row_state.stored)
    if pointer is None:
        return
    keys = overflow.chunk_keys((row.task_id, row.use_case_id), pointer)
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
            update = table.get_operation_kwargs("", "", condition=Path(overflow.CHUNK).exists(), actions=actions)
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
    write = PreparedWrite(table, condition=no_later_command().condition, actions=[end, fill(TaskRow.lock, "lock")])
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
        filter_condition=Path(overflow.CHUNK).exists(),
        attributes_to_get=["task_id", "use_case_id"],
        consistent_read=True,
    )
    return ({name: item[name] for name in ("task_id", "use_case_id")} for page in found for item in page["Items"])


def _log_remains(model: type[TaskRow], task_id: str, error: PynamoDBException) -> None:
    fields = log_fields(model.tracker.use_case.name, task_id=task_id)
    log.warning("overflow chunks of %s %r stay after its end: %s", model.__name__, task_id, error, extra=fields)
