"""Data and failures that are too large for a row, and the time to live of their items.

Chunks are put before the row, into the slot that the row does not point to, so readers never see a mixture. Each has
its last writer's token, so a late end cannot set a time to live for a reopened task.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TypeVar

from pynamodb.constants import BINARY, NUMBER, STRING
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from pynamodb_tracker.dynamodb.connection import Item, Refused, get_items, pages, send
from pynamodb_tracker.dynamodb.partiql import IF_ABSENT
from pynamodb_tracker.dynamodb.retries import not_persisting
from pynamodb_tracker.dynamodb.transact_write import transact_write
from pynamodb_tracker.exceptions import TaskNotFoundError, TrackerError
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model import overflow
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.failure_log import compress_failures, failures_in_row
from pynamodb_tracker.model.row import TaskRow, may_expire
from pynamodb_tracker.writes.conditions import PreparedWrite, fill, guard, parameter, single_request
from pynamodb_tracker.writes.lock import Claim, Journal
from pynamodb_tracker.writes.refusals import build_error, lock_lost_error
from pynamodb_tracker.writes.transition import StepStatements, get

T = TypeVar("T", bound=TaskRow)

_version_there = Path(overflow.VERSION)
_TRIES = 4
_MOST_DELETES = 99
"""Per transaction, beside the row's check."""


@guard
def no_later_version(version: str) -> Condition:
    """Require a chunk of an earlier version, so that a late copy cannot replace a newer one."""
    there = Path(overflow.VERSION)
    return there.does_not_exist() | (there < version)


@guard
def no_later_command() -> Condition:
    """Require a chunk that no later claim or command has written."""
    lock = TaskRow.lock
    return Path(overflow.CHUNK).exists() & (lock.does_not_exist() | (lock <= parameter(lock, "lock")))


def put_next_version(journal: Journal[T], changes: Changes) -> Changes:
    """Put `data` into overflow chunks, and return the changes with a pointer to them. Raises LockLostError.

    It counts as a save, so that a late chunk cannot be mistaken for part of another save.
    """
    claim = journal.claim
    journal.saves += 1
    attribute, value = changes["data"]
    if value is None:
        return changes
    version = overflow.version_of(claim.create_time, claim.fence, journal.saves)
    pointer, chunks = overflow.split(value[STRING], overflow.free_slot(journal.stored_data), version)
    for item in overflow.chunk_items(overflow.key_of_row(claim.task), claim.token, pointer, chunks):
        _put_chunk(claim, item, version)
    return {**changes, "data": (attribute, pointer.stored())}


def log_failures(statements: StepStatements[T], row: T, token: str, version: str) -> None:
    """Put failures that do not fit into the row into a log item."""
    try:
        item = {
            **overflow.log_key(overflow.key_of_row(row)),
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
            "the last errors of %s %r were truncated to fit into the row: %s",
            type(row).__name__,
            row.task_id,
            error,
            extra=log_fields(statements.codes.use_case_id, statements.codes.step, row.task_id),
        )


def _put_chunk(claim: Claim[T], item: Item, version: str) -> None:
    """Put a chunk. If a later holder has written it, the lock was lost."""
    statements, task_id = claim.statements, claim.task.task_id
    key = {name: item[name] for name in ("task_id", "use_case_id")}
    condition = no_later_version(version).condition
    for _ in range(_TRIES):
        try:
            _put(statements, item, condition, until=claim.expire_time)
        except Refused:
            # Read it before the row, because a chunk that is written after the row was read proves nothing.
            found = next(get_items(statements.table, [key]), None)
            if found is not None and found[overflow.VERSION][STRING] == version:
                return  # a repeated request met its own success
            row = get(statements.model, task_id, until=claim.expire_time)
            of_this_life = found is not None and found[overflow.VERSION][STRING].startswith(
                overflow.life_of(claim.create_time)
            )
            if row is None or of_this_life or not claim.holds(row):
                raise lock_lost_error(claim, "save", row) from None
            condition = _version_there == found[overflow.VERSION][STRING] if found else _version_there.does_not_exist()
        else:
            return
    raise TrackerError(
        f"cannot save data of {statements.model.__name__} {task_id!r}: its overflow chunks changed {_TRIES} times, "
        "although this run holds the lock. Does another program write them?"
    )


def _put(statements: StepStatements[T], item: Item, condition: Condition, *, until: datetime | None = None) -> None:
    request = statements.table.get_operation_kwargs("", "", condition=condition)
    del request["Key"]
    send(statements.table, "PutItem", {**request, "Item": item}, until=until)


def expire(statements: StepStatements[T], task: T) -> None:
    """Give a finished task's off-row items the row's time to live."""
    expiry = statements.model.tracker.expiry_of(task.status, task.update_time)
    if expiry is None or not may_expire(task) or _is_plain(statements, task):
        return
    try:
        with not_persisting():
            set_expire_time(statements.model, task.task_id, task.lock, expiry)
    except PynamoDBException as error:
        _log_remains(statements.model, task.task_id, error)


def _is_plain(statements: StepStatements[T], task: T) -> bool:
    """Return whether the row proves that nothing was ever stored beside it."""
    row = task._row_state.stored
    return (
        not {"data", "release_count", "postpone_count", "join_token"} & row.keys()
        and not failures_in_row(task)
        and {*(task.unfinished or ())} <= {task.fence}
        and task.fence == statements.model.tracker.steps.index(statements.codes) + 1
    )


def remove_chunk_expiry(model: type[T], row: T, token: str, operation: str) -> None:
    """Remove the chunks' time to live before a reopen. Raise TaskNotFoundError if the data is deleted."""
    set_expire_time(model, row.task_id, token, None)
    pointer = overflow.pointer_in(row._row_state.stored)
    if pointer is None:
        return
    keys = overflow.chunk_keys(overflow.key_of_row(row), pointer)
    if len(list(get_items(model.tracker.connection(), keys))) < len(keys):
        why = f"it expired at {row.expire_time}, and its data is gone"
        raise build_error(row, TaskNotFoundError, operation, why)


def expire_again(model: type[T], task_id: str) -> None:
    """Undo `remove_chunk_expiry` after its operation was refused, unless the task is live again."""
    try:
        row = get(model, task_id)
        if row is None or row.expire_time is None:
            return
        table, expire_time = model.tracker.connection(), row._row_state.stored["expire_time"][NUMBER]
        as_seen = (TaskRow.lock == row.lock) & TaskRow.expire_time.exists()
        unchanged = {"ConditionCheck": single_request(table, model.tracker.key(task_id), as_seen)}
        is_chunk, actions = Path(overflow.CHUNK).exists(), [Path("expire_time").set({NUMBER: expire_time})]
        for key in _off_row_keys(model, task_id):
            update = single_request(table, key, is_chunk, actions)
            unconfirmed = transact_write(table, [unchanged, {"Update": update}])
            if unconfirmed and not unconfirmed.refused:
                raise unconfirmed.error
    except PynamoDBException as error:
        _log_remains(model, task_id, error)


def clear_orphans(model: type[TaskRow], task_id: str) -> None:
    """Delete a deleted row's chunks, unless the row exists again."""
    table = model.tracker.connection()
    in_table = {"TableName": table.table_name}
    gone = {"ConditionCheck": {**in_table, **IF_ABSENT, "Key": model.tracker.key(task_id)}}
    keys = list(_off_row_keys(model, task_id))
    for at in range(0, len(keys), _MOST_DELETES):
        deletes = [{"Delete": {**in_table, "Key": key}} for key in keys[at : at + _MOST_DELETES]]
        unconfirmed = transact_write(table, [gone, *deletes])
        if unconfirmed and unconfirmed.refused:
            return
        if unconfirmed:
            raise unconfirmed.error


def set_expire_time(model: type[TaskRow], task_id: str, token: str, expire_time: str | None) -> None:
    """Set or remove the chunks' time to live, unless a later operation has written them."""
    table = model.tracker.connection()
    end = TaskRow.expire_time.remove() if expire_time is None else fill(TaskRow.expire_time, "expire")
    write = PreparedWrite(table, condition=no_later_command().condition, actions=[end, fill(TaskRow.lock, "lock")])
    for key in _off_row_keys(model, task_id):
        try:
            send(table, "UpdateItem", write.request(key, {"lock": token, "expire": expire_time}))
        except Refused:
            continue


def _off_row_keys(model: type[TaskRow], task_id: str) -> Iterator[Item]:
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
    log.warning("overflow chunks of %s %r will not expire: %s", model.__name__, task_id, error, extra=fields)
