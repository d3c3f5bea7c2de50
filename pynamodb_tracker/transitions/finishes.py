"""Ending a run without success: fail, release. A finish is sent until it has landed, or the lock is lost or expires."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.backoff import jittered_pause
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_temporary
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.changes import as_stored
from pynamodb_tracker.model.failure import Failure, add_note, type_of
from pynamodb_tracker.model.failure_log import failures_in_row, fits_row, for_row, has_log
from pynamodb_tracker.model.row import Membership, TaskRow, may_expire, membership_of
from pynamodb_tracker.model.row_state import readable_value
from pynamodb_tracker.transitions.company import Companion, OptionalCompanion, send_with_company
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.overflow_retention import expire
from pynamodb_tracker.transitions.overflow_writes import log_failures, version_of_failures
from pynamodb_tracker.transitions.refusals import is_held_by, lost
from pynamodb_tracker.transitions.statements import get
from pynamodb_tracker.transitions.transition import Stored, Transition

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")

_MOST_RELEASES = 20
"""How many releases of a task do not count as attempts, until it succeeds or is reopened."""

_KEPT_FENCES = 8
"""How many unfinished claims a row remembers; an older one counts as lost."""


class AskedMeanwhile(Exception):  # noqa: N818 - it is no error: the success is sent in another form
    """Raised while the lock is held: somebody has asked for another run, which the success has to take in."""

    def __init__(self, row: TaskRow) -> None:
        super().__init__(row)
        self.row = row
        """The row as it was found."""


def fail(lock: Lock[T], *, error: BaseException, delay: timedelta, final: bool) -> None:
    """Record the failure: the next attempt may start after `delay`, or there is none if it is `final`."""
    task, statements = lock.task, lock.statements
    final = final or lock.attempt >= statements.max_attempts
    failure = lock.failure or _failure_of(lock, error)
    known = failures_in_row(task)
    is_known = any(each is failure for each in known)  # if an interrupt followed the finish
    failures = known if is_known else [*known, failure]
    logged, last_error = has_log(task) or not fits_row(failures), failure.one_line
    failed = _after_failure(lock, failure, delay, final=final)
    company, optional = list[Companion](), None
    if failed.code == statements.codes.ignored:
        company = company_of_end(task, lambda: lock.expire_time)
        optional = _created_when_ignored(lock, failure, failures)
    failed.add(errors=Stored(for_row(failures, logged=logged)), last_error=last_error)
    try:
        send_until_landed(lock, failed, company=company, optional=optional)
    except (PynamoDBConnectionError, TransactWriteError) as refused:
        if not is_invalid(refused):
            raise
        failures, logged = [], False  # the row has no room for the failure, so only the status is recorded
        failed.add(errors=Stored([]), last_error=failure.type)
        send_until_landed(lock, failed, company=company)
    for problem in optional.problems if optional else ():
        add_note(error, f"pynamodb_tracker: {problem}")
    failed.apply_to(task)
    task.attribute_values["errors"] = failures
    lock.outcome = "ignored" if failed.code == statements.codes.ignored else "failed"
    lock.gave_up_occurrence = final and lock.outcome == "failed"
    if logged:
        log_failures(statements, task, lock.token, version_of_failures(lock.create_time, lock.fence))
    if final and statements.has_expiry:
        expire(statements, task)
    if optional is not None and optional.interrupt is not None:
        raise optional.interrupt


def _row_with_its_rule(lock: Lock[T]) -> T:
    """Return the row as it is now if the task repeats: it may have been asked for again meanwhile, for sooner."""
    if readable_value(lock.task, "repeat") is None:
        return lock.task
    try:
        row = get(lock.statements.model, lock.task.task_id, until=lock.expire_time)
    except (PynamoDBConnectionError, TaskError):  # a row that cannot be read fails its attempts, like any other
        return lock.task  # what was asked for waits for the next occurrence then
    return lock.task if row is None or not is_held_by(row, lock.statements.codes, [lock.token]) else row


def _after_failure(lock: Lock[T], failure: Failure, delay: timedelta, *, final: bool) -> Transition:
    """Return where a failure leads the task: to another attempt, to its next occurrence, or to its end."""
    codes, now, attempt = lock.statements.codes, failure.time, lock.attempt
    if not final:
        failed = lock.statements.finish("fail", lock.token, codes.failed, due=_later(now, delay))
    elif (following := after_last_failure(_row_with_its_rule(lock), now)) is not None:
        failed, attempt = lock.statements.finish("give up", lock.token, following.code or 0, due=following.due), 0
        failed.add(release_count=None, **following.values)
        failed.changes = following.changes
    else:
        failed = lock.statements.finish("give up", lock.token, codes.ignored)
        failed.expires = may_expire(lock.task)
    return finished(lock, failed, now, attempt)


def finished(lock: Lock[T], finish: Transition, now: datetime, attempt: int, **values: Any) -> Transition:
    """Complete a transition that ends a run, with the attempts that count after it."""
    unfinished = lock.unfinished[-_KEPT_FENCES:]
    task_id = lock.task.task_id
    return lock.statements.moved(finish, task_id, now, attempt=attempt, unfinished=unfinished, **values)


def _created_when_ignored(lock: Lock[T], failure: Failure, failures: list[Failure]) -> OptionalCompanion | None:
    """Return what is created together with the task's being ignored, by the declaration of its step."""
    statements, now = lock.statements, failure.time
    if statements.when_ignored is None:
        return None
    ignored = as_stored(lock.task)
    ignored.attribute_values.update(
        status=statements.codes.ignored, due_time=now, update_time=now, errors=failures, last_error=failure.one_line
    )
    return statements.when_ignored(ignored)


def company_of_end(row: TaskRow, until: Callable[[], datetime] | None = None) -> list[Companion]:
    """Return what is written together with the end of a task: the turn of its group is handed on.

    `until` returns when the lock of a run expires.
    """
    if membership_of(row) in {Membership.NONE, Membership.ENDED}:
        return []
    from pynamodb_tracker.transitions.groups import Groups  # noqa: PLC0415 - few tasks are in a group

    groups = Groups(until)
    groups.leave(row)
    return [groups]


def after_last_failure(row: TaskRow, now: datetime) -> Transition | None:
    """Return what leads a task to its next occurrence although no attempt is left; None if it does not repeat."""
    if readable_value(row, "repeat") is None:
        return None
    from pynamodb_tracker.transitions.repeats import after_failure  # noqa: PLC0415 - few tasks repeat

    return after_failure(row, now)


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
        log.warning(
            "%s was released, and counts: %d earlier releases did not", lock, _MOST_RELEASES, extra=lock.log_fields
        )
    release = finished(lock, lock.statements.finish("release", lock.token, codes.pending), clock.now(), attempt)
    release.add(release_count=releases)
    send_until_landed(lock, release)
    release.apply_to(lock.task)
    lock.outcome = "released"


def send_until_landed(
    lock: Lock[T], finish: Transition, *, company: Sequence[Companion] = (), optional: OptionalCompanion | None = None
) -> None:
    """Send a finish until it has landed.

    Raises LockLostError only if the row proves it, and AskedMeanwhile if it has to take in what was asked for. The
    finish is tried at least once: even after the lock has expired, it is valid as long as no other worker has taken the
    task.
    """
    statements, task_id, retries = lock.statements, lock.task.task_id, 0
    while True:
        try:
            try:
                if company or optional is not None:
                    own = statements.as_action(finish, task_id)
                    if send_with_company(statements.table, own, company, optional, lock=lock):
                        lock.ended_with = company
                        return
                    optional = None
                statements.send(finish, task_id, until=lock.expire_time)
            except Refused:
                found = get(statements.model, task_id, until=lock.expire_time)
                if not has_landed(lock, found):
                    raise why_refused(lock, found) from None
        except (PynamoDBConnectionError, TransactWriteError) as error:
            wait_before_retry(lock, finish.code, error, retries)
            retries += 1
        else:
            return


def why_refused(lock: Lock[T], found: T | None) -> Exception:
    """Return what keeps a finish from being applied, according to the row."""
    if found is not None and is_held_by(found, lock.statements.codes, [lock.token]) and found.again is not None:
        return AskedMeanwhile(found)
    return lost(lock, "finish", found)


def has_landed(lock: Lock[T], row: T | None) -> bool:
    """Return whether a finish of this run was applied, according to the row.

    Token and status cannot show that: after it landed, another worker may hold the next step, or this one again.
    """
    if row is None or row.create_time != lock.create_time:
        return False
    fences = row.unfinished or []
    forgotten = len(fences) >= _KEPT_FENCES and lock.fence < min(fences)
    return lock.fence not in fences and not forgotten


def wait_before_retry(lock: Lock[T], code: int | None, error: PynamoDBException, retries: int) -> None:
    """Wait before a write that ends the run in `code` is sent again; raise the error if another try makes no sense.

    It makes none if the failure is permanent, and none after the lock has expired.
    """
    if is_invalid(error):
        raise error
    pause, left = jittered_pause(retries), (lock.expire_time - clock.now()).total_seconds()
    if not is_temporary(error) or left <= pause:
        note_unknown_end(lock, code, error)
        raise error
    clock.sleep(pause)


def note_unknown_end(lock: Lock[T], code: int | None, error: PynamoDBException) -> None:
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
