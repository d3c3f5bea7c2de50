"""Data that is too large for a row: its chunks are put into the slot that the row does not point to, before the row.

A reader sees the old text or the new one, never a mixture. A crash leaves chunks in the free slot, which the next
writer overwrites. There are at most two slots, and nothing has to be cleaned up.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any, TypeVar

from pynamodb.constants import BINARY, STRING
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from pynamodb_tracker.dynamodb.connection import Item, Refused, get_items, send
from pynamodb_tracker.dynamodb.retries import not_persisting
from pynamodb_tracker.exceptions import TrackerError, ValueNotStorableError
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model import overflow
from pynamodb_tracker.model.changes import Changes, belongs_in_chunks
from pynamodb_tracker.model.failure_log import packed
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.serialization import same
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.lock import Claim, Journal
from pynamodb_tracker.transitions.refusals import lost
from pynamodb_tracker.transitions.statements import StepStatements, get
from pynamodb_tracker.transitions.transition import Transition

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")

MAX_AT_ONCE = 3_800_000
"""Bytes in the transaction that creates a task: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
allows 4 MB."""

_version_there = Path(overflow.VERSION)
_TRIES = 4


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
    for item in _chunk_items(_key(claim.task), claim.token, pointer, chunks):
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
            overflow.CHUNK: {BINARY: packed(row.errors)},
        }
        with not_persisting():
            _put(statements, item, when.no_later_version(version).condition)
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


def send_counted(journal: Journal[T], save: Transition, operation: str) -> Item:
    """Send a save of a run and return the response. If it was refused, return the row, which must have counted it.

    Raises LockLostError if the run no longer holds the row.
    """
    claim = journal.claim
    statements, task_id, until = claim.statements, claim.task.task_id, claim.expire_time
    try:
        return statements.send(save, task_id, until=until)
    except Refused:
        row = get(statements.model, task_id, until=until)
        if row is None or not claim.holds(row) or row.saves < journal.saves:
            raise lost(claim, operation, row) from None
        return {"Attributes": row._row_state.stored}


def settle(journal: Journal[T]) -> None:
    """Find out whether a save without a response was applied, and make sure that a late copy of it fails.

    Otherwise the next save would compare with the wrong row, and could put its chunks where that row points to.
    """
    claim = journal.claim
    journal.saves += 1
    count = claim.statements.save(claim.token, journal.saves)
    count.name, count.returns_row = "settle", True
    response = send_counted(journal, count, "save")["Attributes"]
    if journal.unsure is not None:
        changes, sent = journal.unsure
        if all(same(response.get(attribute.attr_name), value) for attribute, value in sent.values()):
            journal.mark_saved(changes, sent)
    journal.max_inline_data, journal.unsure = response.get("data"), None


def chunks_of_new_row(model: type[TaskRow], task_id: str, create_time: datetime, item: Item) -> list[Item]:
    """Replace large `data` of a new row by a pointer. Return the chunks to put in the same transaction."""
    value = item.get("data")
    if value is None or not belongs_in_chunks(model, task_id, value):
        return []
    pointer, chunks = overflow.split(value[STRING], overflow.free_slot(None), overflow.version_of(create_time, 0, 0))
    size = sum(map(len, chunks))
    if size > MAX_AT_ONCE:
        raise ValueNotStorableError(
            f"{model.__name__} {task_id!r} cannot be created with data of {size:,} bytes, compressed: a create takes "
            f"at most {MAX_AT_ONCE:,}; create it without, and let a run save it, which takes {overflow.MAX_BYTES:,}",
            task_id=task_id,
            attribute="data",
            size=size,
        )
    item["data"] = pointer.stored()
    end = {"expire_time": item["expire_time"]} if "expire_time" in item else {}
    key, token = (task_id, model.tracker.use_case.name), item["creation"][STRING]
    return [{**chunk, **end} for chunk in _chunk_items(key, token, pointer, chunks)]


def _key(row: TaskRow) -> overflow.RowKey:
    return row.task_id, row.use_case_id


def _chunk_items(row: overflow.RowKey, token: str, pointer: overflow.Pointer, chunks: list[bytes]) -> Iterator[Item]:
    of_all = {overflow.VERSION: {STRING: pointer.version}, "lock": {STRING: token}}
    for key, chunk in zip(overflow.chunk_keys(row, pointer), chunks, strict=True):
        yield {**key, **of_all, overflow.CHUNK: {BINARY: chunk}}


def _put_chunk(claim: Claim[T], item: Item, version: str) -> None:
    """Put a chunk unless a later holder has written it, which proves that the lock was lost.

    A chunk of an earlier task with this id, created on a machine whose clock was ahead, is overwritten.
    """
    statements, task_id = claim.statements, claim.task.task_id
    key = {name: item[name] for name in ("task_id", "use_case_id")}
    condition = when.no_later_version(version).condition
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
