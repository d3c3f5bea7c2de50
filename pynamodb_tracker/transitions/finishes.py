"""Ending a run: succeed, fail, release. A finish is sent until it has landed, the lock is lost, or the lock expires."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pynamodb.constants import STRING
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.backoff import jittered_pause
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_temporary
from pynamodb_tracker.exceptions import ValueNotStorableError
from pynamodb_tracker.failure import Failure, add_note, type_of
from pynamodb_tracker.model.changes import Changes, is_too_large_for_row, raise_if_invalid, storable_changes
from pynamodb_tracker.model.failure_log import failures_in_row, fits_row, for_row, has_log
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.overflow_retention import expire
from pynamodb_tracker.transitions.overflow_writes import log_failures, put_next_version, settle, version_of_failures
from pynamodb_tracker.transitions.prepared import PreparedWrite
from pynamodb_tracker.transitions.refusals import lost
from pynamodb_tracker.transitions.statements import get, user_values

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")

_MOST_RELEASES = 20
"""How many releases of a task do not count as attempts, until it succeeds or is reopened."""

_KEPT_FENCES = 8
"""How many unfinished claims a row remembers; an older one counts as lost."""


def succeed(lock: Lock[T]) -> None:
    """Record the success and what the block changed, both or neither.

    Raises ValueNotStorableError if a value cannot be stored; the caller then records a failure.
    """
    statements, code = lock.statements, lock.statements.codes.succeeded
    retries = 0
    while lock.success is None:
        try:
            if lock.unsure is not None:
                settle(lock)
            try:
                changes = sent = changes_of_success(lock)
            except ValueNotStorableError as unstorable:
                changes = sent = _changes_after_interrupt(lock, unstorable)
            if "data" in changes and is_too_large_for_row(statements.model, changes["data"][1]):
                sent = put_next_version(lock, changes)
            lock.success = changes, sent
        except PynamoDBConnectionError as error:
            wait_before_retry(lock, code, error, retries)
            retries += 1
    changes, sent = lock.success
    try:
        row = send_until_landed(lock, statements.succeed(sent), code, attempt=0, **user_values(sent))
    except PynamoDBConnectionError as error:
        raise_if_invalid(lock.task, sent, error)
        raise
    lock.mark_saved(changes, sent)
    lock.task.attribute_values.update(row, last_error=None, release_count=None)
    if statements.has_expiry:
        expire(statements, lock.task)


def _changes_after_interrupt(lock: Lock[T], unstorable: ValueNotStorableError) -> Changes:
    """Serialize the user's values a second time; raise the error again if it was a value that raised it.

    An exception that a signal handler raises in the meantime looks like one of the value, but only the first time.
    """
    interrupt = unstorable.__cause__
    if interrupt is None:
        raise unstorable
    try:
        changes = changes_of_success(lock)
    except ValueNotStorableError:
        raise unstorable from interrupt
    lock.interrupt = interrupt
    return changes


def changes_of_success(lock: Lock[T]) -> Changes:
    """Return what is stored with the success: what the block changed, and its answer in place of an earlier one."""
    attribute, text = lock.statements.answer, lock.answer
    if text is None and attribute.attr_name not in lock.task._row_state.stored:
        return storable_changes(lock.task)
    return storable_changes(lock.task, {attribute.attr_name: (attribute, None if text is None else {STRING: text})})


def fail(lock: Lock[T], *, error: BaseException, delay: timedelta, final: bool) -> None:
    """Record the failure: the next attempt may start after `delay`, or there is none if it is `final`."""
    task, statements, codes = lock.task, lock.statements, lock.statements.codes
    final = final or lock.attempt >= statements.max_attempts
    failure = lock.failure or _failure_of(lock, error)
    known = failures_in_row(task)
    is_known = any(each is failure for each in known)  # if an interrupt followed the finish
    failures = known if is_known else [*known, failure]
    logged = has_log(task) or not fits_row(failures)
    write, code = (statements.give_up, codes.ignored) if final else (statements.fail, codes.failed)
    times = {"now": failure.time, "due": failure.time if final else _later(failure.time, delay)}
    last_error = failure.one_line
    entries = for_row(failures, logged=logged)
    try:
        row = send_until_landed(lock, write, code, **times, attempt=lock.attempt, errors=entries, last_error=last_error)
    except PynamoDBConnectionError as refused:
        if not is_invalid(refused):
            raise
        # The row has no room for the failure, so only the status is recorded.
        failures, last_error, logged = [], failure.type, False
        row = send_until_landed(lock, write, code, **times, attempt=lock.attempt, errors=[], last_error=last_error)
    task.attribute_values.update(row, errors=failures, last_error=last_error)
    if logged:
        log_failures(statements, task, lock.token, version_of_failures(lock.create_time, lock.fence))
    if final and statements.has_expiry:
        expire(statements, task)


def _failure_of(lock: Lock[T], error: BaseException) -> Failure:
    """Return the record of the user's exception; only its type if reading its texts was interrupted."""
    about: dict[str, Any] = {
        "step": lock.step,
        "attempt": lock.attempt,
        "time": clock.now(),
        "worker": lock.task.worker,
    }
    lock.failure = Failure(**about, type=type_of(error), message="<reading its message was interrupted>")
    lock.failure = Failure.of(error, **about, redact=lock.task.redact)
    return lock.failure


def release(lock: Lock[T]) -> None:
    """Release the task: it is pending at this step, due at once, and the attempt does not count.

    It does count after many releases: whatever ends the worker each time may be the task's doing.
    """
    codes, attempt, releases = lock.statements.codes, lock.attempt - 1, lock.release_count + 1
    if releases > _MOST_RELEASES:
        attempt = lock.attempt
        log.warning("%s was released, and counts: %d earlier releases did not", lock, _MOST_RELEASES)
    write = lock.statements.release
    row = send_until_landed(lock, write, codes.pending, attempt=attempt, release_count=str(releases))
    lock.task.attribute_values.update(row, release_count=releases)


def send_until_landed(lock: Lock[T], write: PreparedWrite, code: int, **values: Any) -> Mapping[str, Any]:
    """Send a finish until it has landed; return the attributes of the row after it.

    Raises LockLostError only if the row proves it. The finish is tried at least once: even after the lock has expired,
    it is valid as long as no other worker has taken the task.
    """
    statements, task_id = lock.statements, lock.task.task_id
    slots, row = finish_values(lock, code, **values)
    retries = 0
    while True:
        try:
            try:
                statements.send(write, task_id, until=lock.expire_time, **slots)
            except Refused:
                found = get(statements.model, task_id, until=lock.expire_time)
                if not has_landed(lock, found):
                    raise lost(lock, "finish", found) from None
        except PynamoDBConnectionError as error:
            wait_before_retry(lock, code, error, retries)
            retries += 1
        else:
            return row


def finish_values(
    lock: Lock[T], code: int, *, attempt: int, now: datetime | None = None, due: datetime | None = None, **values: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of the slots of a finish, and the row's attributes after it; from one reading of the clock."""
    now = now or clock.now()
    due = now if due is None else max(now, due)
    unfinished = lock.unfinished[-_KEPT_FENCES:]
    slots = {
        "token": lock.token,
        "attempt": str(attempt),
        "unfinished": [{"N": str(fence)} for fence in unfinished],
        **lock.statements.moved(code, lock.task.task_id, now, due),
        **values,
    }
    return slots, {"status": code, "attempt": attempt, "due_time": due, "update_time": now, "unfinished": unfinished}


def has_landed(lock: Lock[T], row: T | None) -> bool:
    """Return whether a finish of this run was applied, according to the row.

    Token and status cannot show that: after it landed, another worker may hold the next step, or this one again.
    """
    if row is None or row.create_time != lock.create_time:
        return False
    fences = row.unfinished or []
    forgotten = len(fences) >= _KEPT_FENCES and lock.fence < min(fences)
    return lock.fence not in fences and not forgotten


def wait_before_retry(lock: Lock[T], code: int, error: PynamoDBConnectionError, retries: int) -> None:
    """Wait before a write that ends the run in `code` is sent again; raise the error if another try makes no sense.

    It makes none if the failure is permanent, and none after the lock has expired.
    """
    if is_invalid(error):
        raise error
    pause, left = jittered_pause(retries), (lock.expire_time - clock.now()).total_seconds()
    if not is_temporary(error) or left <= pause:
        _note_unknown_end(lock, code, error)
        raise error
    clock.sleep(pause)


def _note_unknown_end(lock: Lock[T], code: int, error: PynamoDBConnectionError) -> None:
    """Add a note to the error, and log, that it is unknown whether the finish was applied."""
    task = lock.task
    is_success = code == lock.statements.codes.succeeded
    what = "the work was done, but not recorded" if is_success else "how the attempt ended was not recorded"
    message = (
        f"{what}: the end of {lock.step} of {type(task).__name__} {task.task_id!r} (attempt {lock.attempt}) got no "
        f"answer that says it was recorded as code {code}; it may still be. If not, the task is taken over after "
        f"{lock.expire_time}"
    )
    add_note(error, message)
    log.error("%s: %s", message, error, extra=lock.log_fields)


def _later(now: datetime, delay: timedelta) -> datetime:
    try:
        return now + delay
    except OverflowError:
        return datetime.max.replace(tzinfo=now.tzinfo)
