"""Ending a run: succeed, fail, release. A finish is repeated until it landed, was lost, or the lock ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pynamodb.constants import MAP
from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.dynamodb.transport import Refused
from pynamodb_tracker.failure import Failure
from pynamodb_tracker.model.failure_log import fits, for_row, in_row, text_of
from pynamodb_tracker.model.overflow import Pointer
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.finish_request import finish, landed
from pynamodb_tracker.transitions.finish_retry import patiently
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.overflow_retention import expire
from pynamodb_tracker.transitions.overflow_writes import next_version, put_errors, settle
from pynamodb_tracker.transitions.prepared import PreparedWrite
from pynamodb_tracker.transitions.refusals import lost
from pynamodb_tracker.transitions.statements import StepWrites, get
from pynamodb_tracker.transitions.user_attributes import own_values
from pynamodb_tracker.transitions.value_checks import storable_changes, storing

__all__ = ["fail", "release", "succeed"]

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")


def succeed(writes: StepWrites[T], lock: Lock[T]) -> None:
    """Record the success and what the block changed, both or neither.

    ValueNotStorableError where a value is what keeps it from being recorded: the attempt is then to be failed.
    """
    if lock.success is None:
        if lock.unsure is not None:
            patiently(lock, writes.codes, writes.codes.succeeded, lambda: settle(writes, lock))
        found = storable_changes(lock.task)
        if "data" in found:
            sent = patiently(lock, writes.codes, writes.codes.succeeded, lambda: next_version(writes, lock, found))
        else:
            sent = next_version(writes, lock, found)
        lock.success = found, sent
    changes, sent = lock.success
    with storing(lock.task, sent):
        moved = _finish(writes, lock, writes.succeed(sent), writes.codes.succeeded, attempt=0, **own_values(sent))
    lock.stored(changes, sent)
    lock.task.attribute_values.update(moved, last_error=None)
    expire(writes, lock.task)


def fail(writes: StepWrites[T], lock: Lock[T], error: BaseException, *, delay: timedelta, final: bool) -> None:
    """Record the failure: the next attempt may start after `delay`, or none will where it is `final`."""
    task, codes = lock.task, writes.codes
    final = final or lock.attempt >= writes.max_attempts
    failure, pointer = lock.failure = lock.failure or _recorded(writes, lock, error)
    now = failure.time

    def record(errors: list[Failure], last_error: str) -> None:
        moved = _finish(
            writes,
            lock,
            writes.failing(final=final, beside=pointer is not None),
            codes.ignored if final else codes.failed,
            attempt=lock.attempt,
            due=now if final else _later(now, delay),
            now=now,
            errors=for_row(
                errors, beside=pointer is not None or task.attribute_values.get("errors_beside") is not None
            ),
            errors_beside=pointer and pointer.stored()[MAP],
            last_error=last_error,
        )
        task.attribute_values.update(moved, errors=errors, last_error=last_error)
        if pointer is not None:
            task.attribute_values["errors_beside"] = pointer
        expire(writes, task)

    try:
        record([*in_row(task), failure], failure.one_line)
    except PynamoDBConnectionError as refused:
        if not is_invalid(refused):
            raise
        record([], failure.type)  # the row has no room for the record; that the attempt failed is still said


def _recorded(writes: StepWrites[T], lock: Lock[T], error: BaseException) -> tuple[Failure, Pointer | None]:
    """Return the record of a failure, and where all failures lie, where the row has no room for them.

    That is the best effort: where it fails, what fits the row is recorded.
    """
    task = lock.task
    failure = Failure.of(
        error,
        step=writes.codes.step,
        attempt=lock.attempt,
        time=clock.now(),
        worker=task.worker,
        redact=task.redact,
    )
    if fits(task, [*in_row(task), failure]):
        return failure, None
    try:
        failures = [*task.errors, failure]
        return failure, None if fits(task, failures) else put_errors(writes, lock, text_of(failures))
    except PynamoDBException as unheard:
        log.warning("the last errors of %s %r are cut to fit the row: %s", type(task).__name__, task.task_id, unheard)
        return failure, None


def release(writes: StepWrites[T], lock: Lock[T]) -> None:
    """Give the attempt back: the task is pending at this step, at once, whatever state it was started from."""
    moved = _finish(writes, lock, writes.release, writes.codes.pending, attempt=lock.attempt - 1)
    lock.task.attribute_values.update(moved)


def _later(now: datetime, delay: timedelta) -> datetime:
    try:
        return now + delay
    except OverflowError:
        return datetime.max.replace(tzinfo=now.tzinfo)


def _finish(writes: StepWrites[T], lock: Lock[T], write: PreparedWrite, code: int, **options: Any) -> Mapping[str, Any]:
    """Send a finish until it has landed; return what it made of the row. LockLostError only where the row proves it."""
    ending = finish(writes, lock, code, **options)
    patiently(lock, writes.codes, code, lambda: _send(writes, lock, write, ending.values))
    return ending.row


def _send(writes: StepWrites[T], lock: Lock[T], write: PreparedWrite, values: Mapping[str, Any]) -> None:
    try:
        writes.send(write, lock.task.task_id, until=lock.expire_time, **values)
    except Refused:
        row = get(writes.model, lock.task.task_id, until=lock.expire_time)
        if not landed(lock, row):
            raise lost(lock.task, writes.codes.step, "finish", row) from None
