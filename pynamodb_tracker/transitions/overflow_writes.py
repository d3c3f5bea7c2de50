"""Data too large for the row: put into the slot that it does not point to, before the write that moves the pointer.

A reader sees the old text or the new one, never a mixture. A crash in between leaves pieces in the free slot, which
the next writer overwrites: at most two slots, and nobody has to look for what a crash left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

from pynamodb.constants import BINARY, STRING
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from pynamodb_tracker.dynamodb.transport import Refused, send
from pynamodb_tracker.exceptions import TrackerError, ValueNotStorableError
from pynamodb_tracker.model.overflow import (
    DATA,
    ERRORS,
    MAX_BYTES,
    PIECE,
    VERSION,
    Kind,
    Pointer,
    Row,
    cut,
    items,
    keys_in,
    life_of,
    other_slot,
    pointer_in,
    version_of,
    version_of_order,
)
from pynamodb_tracker.model.row import Changes, TaskRow, stored_row
from pynamodb_tracker.model.serialization import Stored, same
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.refusals import is_held_by, lost
from pynamodb_tracker.transitions.statements import StepWrites, get

__all__ = [
    "is_too_large_for_row",
    "next_version",
    "of_new_row",
    "put_errors",
    "put_errors_of_order",
    "settle",
    "too_large",
]

T = TypeVar("T", bound=TaskRow)

MAX_AT_ONCE = 3_800_000
"""Bytes in the transaction that creates a task: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
allows 4 MB."""

_version_there = Path(VERSION)
_AT_THE_END = 999_999
_TRIES = 4


def next_version(writes: StepWrites[T], lock: Lock[T], changes: Changes) -> Changes:
    """Put `data` beside the row where it is too large for it; return the changes with the pointer in its place.

    Each call counts as a save: a late copy of one write must not pass as a part of another. LockLostError where a
    piece is refused, because a later holder has written.
    """
    lock.saves += 1
    attribute, value = changes.get("data", (None, None))
    if attribute is None or value is None or not is_too_large_for_row(writes.model, value):
        return changes
    version = version_of(lock.create_time, lock.fence, lock.saves)
    pointer, pieces = cut(value[STRING], lock.free_slot, version)
    for item in _items_of(_place(lock.task), lock.token, DATA, pointer, pieces):
        _put(writes, lock, item, version)
    return {**changes, "data": (attribute, pointer.stored())}


def put_errors(writes: StepWrites[T], lock: Lock[T], text: str) -> Pointer:
    """Put all failures on record beside the row, and return where they lie; LockLostError as of `next_version`."""
    version = version_of(lock.create_time, lock.fence, _AT_THE_END)
    pointer, pieces = cut(text, _free_for_errors(lock.task), version)
    for item in _items_of(_place(lock.task), lock.token, ERRORS, pointer, pieces):
        _put(writes, lock, item, version)
    return pointer


def put_errors_of_order(writes: StepWrites[T], row: T, token: str, text: str) -> Pointer | None:
    """Put all failures beside the row of a task that an order sets aside; None where a later order has done so."""
    version = version_of_order(row.create_time, row.fence, token)
    pointer, pieces = cut(text, _free_for_errors(row), version)
    for item in _items_of(_place(row), token, ERRORS, pointer, pieces):
        try:
            _send(writes, item, when.no_later_version(version))
        except Refused:
            found = _there(writes, item)
            if found is None or found[VERSION][STRING] != version:
                return None
    return pointer


def _there(writes: StepWrites[T], item: Stored) -> Stored | None:
    """Return the piece that is there in the place of another."""
    return next(items(writes.table, [{name: item[name] for name in ("task_id", "use_case_id")}]), None)


def _free_for_errors(row: TaskRow) -> str:
    before: Pointer | None = row.attribute_values.get("errors_beside")
    return other_slot(before.slot if before is not None else None)


def settle(writes: StepWrites[T], lock: Lock[T]) -> None:
    """Find out what the row holds after a save without an answer, and keep the late copy of that out.

    Otherwise the next save would compare with the wrong row, and could put its pieces where that row points to.
    """
    lock.saves += 1
    task_id, until = lock.task.task_id, lock.expire_time
    try:
        saves = str(lock.saves)
        answer = writes.send(writes.settle, task_id, until=until, token=lock.token, saves=saves)["Attributes"]
    except Refused:
        row = get(writes.model, task_id, until=until)
        if row is None or not is_held_by(row, writes.codes, [lock.token]) or row.saves < lock.saves:
            raise lost(lock.task, writes.codes.step, "save", row) from None
        answer = stored_row(row)
    if lock.unsure is not None:
        changes, sent = lock.unsure
        if all(same(answer.get(attribute.attr_name), value) for attribute, value in sent.values()):
            lock.stored(changes, sent)
    pointer = pointer_in(answer)
    lock.slot, lock.unsure = (pointer.slot if pointer else None), None


def of_new_row(
    model: type[TaskRow], task_id: str, create_time: datetime, item: Stored
) -> tuple[dict[str, Any], list[Stored]]:
    """Return the stored form of `data` in a new row, and the items to be put beside it in the same transaction."""
    value = item["data"]
    if not is_too_large_for_row(model, value):
        return value, []
    too_large(model, task_id, value)
    pointer, pieces = cut(value[STRING], "A", version_of(create_time, 0, 0))
    packed = sum(map(len, pieces))
    if packed > MAX_AT_ONCE:
        raise ValueNotStorableError(
            f"{model.__name__} {task_id!r} cannot be created with data of {packed:,} bytes, packed: at once it "
            f"takes {MAX_AT_ONCE:,}; create it without, and let a run save it, which takes {MAX_BYTES:,}",
            task_id=task_id,
            attribute="data",
            size=packed,
        )
    place = task_id, model.tracker.use_case.name
    end = {"expire_time": item["expire_time"]} if "expire_time" in item else {}
    token = item["creation"][STRING]
    return pointer.stored(), [{**put, **end} for put in _items_of(place, token, DATA, pointer, pieces)]


def is_too_large_for_row(model: type[TaskRow], value: Mapping[str, Any]) -> bool:
    """Tell whether a text is to lie beside the row."""
    return len(value[STRING].encode()) > model.tracker.use_case.data_in_row


def too_large(model: type[TaskRow], task_id: str, value: Mapping[str, Any]) -> None:
    """Raise where `data` is too large to be kept at all."""
    size = len(value[STRING].encode())
    if size > MAX_BYTES:
        raise ValueNotStorableError(
            f"data of {model.__name__} {task_id!r} has {size:,} bytes as JSON, and {MAX_BYTES:,} are kept: put it into "
            "an object store, and keep a pointer to it in data",
            task_id=task_id,
            attribute="data",
            size=size,
        )


def _place(row: TaskRow) -> Row:
    return row.task_id, row.use_case_id


def _items_of(place: Row, token: str, kind: Kind, pointer: Pointer, pieces: list[bytes]) -> Iterator[Stored]:
    """Yield the pieces as they are put beside the row of that place."""
    of_all = {VERSION: {STRING: pointer.version}, "lock": {STRING: token}}
    for key, piece in zip(keys_in(place, kind, pointer), pieces, strict=True):
        yield {**key, **of_all, PIECE: {BINARY: piece}}


def _put(writes: StepWrites[T], lock: Lock[T], item: Stored, version: str) -> None:
    """Put a piece unless a later holder has written there, which proves that the lock was lost.

    What is there of a former life of the task, whose clock was ahead, belongs to nobody: that is overwritten.
    """
    condition = when.no_later_version(version)
    for _ in range(_TRIES):
        try:
            _send(writes, item, condition, until=lock.expire_time)
        except Refused:
            found = _there(writes, item)  # before the row: what came after that was seen is not meant
            if found is not None and found[VERSION][STRING] == version:
                return  # a repeated request met its own success
            row = get(writes.model, lock.task.task_id, until=lock.expire_time)
            of_this_life = found is not None and found[VERSION][STRING].startswith(life_of(lock.create_time))
            if row is None or of_this_life or not is_held_by(row, writes.codes, [lock.token]):
                raise lost(lock.task, writes.codes.step, "save", row) from None
            condition = _version_there == found[VERSION][STRING] if found else _version_there.does_not_exist()
        else:
            return
    raise TrackerError(
        f"cannot save data of {writes.model.__name__} {lock.task.task_id!r}: what lies beside it changed {_TRIES} "
        "times meanwhile, though this run holds the lock; is something else writing there?"
    )


def _send(writes: StepWrites[T], item: Stored, condition: Condition, *, until: datetime | None = None) -> None:
    request = writes.table.get_operation_kwargs("", "", condition=condition)
    del request["Key"], request["TableName"]
    send(writes.table, "PutItem", {**request, "Item": item}, until=until)
