"""Finding out from the row why an operation was refused, or whether it was applied."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TypeVar

from pynamodb.constants import ALL_NEW, STRING
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused
from pynamodb_tracker.exceptions import (
    LockLostError,
    PayloadMismatchError,
    TaskAlreadySucceededError,
    TaskCancelledError,
    TaskError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
    TaskNotStartableError,
)
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model.failure import ABANDONED, Failure, add_note
from pynamodb_tracker.model.failure_log import failures_in_row
from pynamodb_tracker.model.row import TaskRow, has_later_format, later_format_error
from pynamodb_tracker.model.serialization import same
from pynamodb_tracker.model.status import Codes, Status, end_of
from pynamodb_tracker.writes.lock import Claim, Journal
from pynamodb_tracker.writes.transition import StepStatements, Transition, get

E = TypeVar("E", bound=TaskError)
T = TypeVar("T", bound=TaskRow)

_NO_RESULT = "ended without a result"


def build_error(row: TaskRow, kind: type[E], operation: str, why: str) -> E:
    return kind(f"cannot {operation} {type(row).__name__} {row.task_id!r}: {why}", task_id=row.task_id, task=row)


def is_due(row: TaskRow, now: datetime, *, on_time: bool = False) -> bool:
    """Return whether the task may start, within the clock margin unless it must be `on_time`."""
    return row.due_time <= (now if on_time else now + row.tracker.margin)


def is_abandoned(row: TaskRow, codes: Codes, now: datetime) -> bool:
    """Return whether a task in progress has an expired lock, by more than the clock margin."""
    expire_time: datetime | None = row.lock_expire_time
    return row.status == codes.in_progress and expire_time is not None and expire_time < now - row.tracker.margin


def abandoned_attempts(row: TaskRow, codes: Codes, now: datetime) -> list[Failure]:
    """Return failures for an abandoned attempt, and for earlier ones without a result."""
    fences: list[int] = row.unfinished or []
    fence, attempt = row.fence or 0, row.attempt or 0
    expired: datetime | None = row.lock_expire_time
    at = "" if expired is None else f"; its lock expired at {clock.in_words(expired)}"
    found = [Failure(codes.step, attempt, now, row.worker or "", ABANDONED, f"{_NO_RESULT}{at}")]
    while (fence := fence - 1) in fences and (attempt := attempt - 1) > 0:
        found.insert(0, Failure(codes.step, attempt, now, "", ABANDONED, _NO_RESULT))
    return found


def is_held_by(row: TaskRow, codes: Codes, tokens: Collection[str]) -> bool:
    return row.lock in tokens and row.status == codes.in_progress


def is_free(row: TaskRow) -> bool:
    """Return whether no worker holds the task. At an undeclared step, a worker may."""
    return end_of(row.status) is not None or row.tracker.status_of(row.status) not in (None, Status.IN_PROGRESS)


def is_startable(row: TaskRow, codes: Codes, now: datetime, *, on_time: bool = False) -> bool:
    """Return whether status and time allow a claim."""
    waits = row.status in (codes.pending, codes.failed) and is_due(row, now, on_time=on_time)
    return waits or is_abandoned(row, codes, now)


def check_format(row: TaskRow, operation: str) -> None:
    if has_later_format(row):
        raise later_format_error(row, operation)


def check_found(model: type[T], row: T | None, task_id: str, operation: str) -> T:
    """Return a row, or raise if there is none or its format is unknown."""
    if row is None:
        raise not_found_error(model, task_id, operation)
    check_format(row, operation)
    return row


def is_same_life(row: TaskRow, meant: TaskRow) -> bool:
    """Return whether the row is the same task, not a recreated one."""
    return (row.creation, row.create_time) == (meant.creation, meant.create_time)


def check_life(row: TaskRow, meant: TaskRow | None, operation: str) -> None:
    """Raise a TaskNotFoundError if the task was recreated since it was read."""
    if meant is not None and not is_same_life(row, meant):
        raise TaskNotFoundError(
            f"cannot {operation} {type(row).__name__} {row.task_id!r}: the task was deleted and recreated in the "
            "meantime. The new task was not changed",
            task_id=row.task_id,
        )


def not_found_error(model: type[TaskRow], task_id: str, operation: str) -> TaskNotFoundError:
    name = model.__name__
    advice = f". Call {name}.create({task_id!r}) first" if operation.startswith("start ") else ""
    return TaskNotFoundError(f"cannot {operation} {name} {task_id!r}: it does not exist{advice}", task_id=task_id)


def payload_mismatch(
    statements: StepStatements[T], row: T, payload: str | None, operation: str
) -> PayloadMismatchError | None:
    """Return the error if the step was first started with another payload."""
    stored = row._row_state.stored.get(statements.payload.attr_name)
    if payload is None or stored in (None, {STRING: payload}):
        return None
    why = (
        "it was started with another payload before. Send that payload again, or use another task id. A failed or "
        "ignored task accepts a new payload after reopen"
    )
    return build_error(row, PayloadMismatchError, operation, why)


def refusal(statements: StepStatements[T], row: T, operation: str, if_held: str = "") -> TaskNotStartableError:
    """Say why the row refuses the operation. `if_held` is advice for a held task."""
    codes, status = statements.codes, row.status
    if end_of(status) == "cancelled" or (row.cancelled is not None and status not in codes.own):
        return cancelled_error(row, operation)
    message = f"cannot {operation} {type(row).__name__} {row.task_id!r}: it is {row.tracker.name_of(row.status)}"
    kind: type[TaskNotStartableError]
    if status == codes.in_progress:
        kind = TaskLockedError
        message += f", attempt {row.attempt}, {describe_holder(row)}{if_held}"
    elif status >= codes.done_from and codes.pending in (row.skipped_steps or ()):
        message += f", and an earlier step skipped {codes.step}"
        error = TaskAlreadySucceededError(message, task_id=row.task_id, task=row)
        error.skipped = True
        return error
    elif status >= codes.done_from:
        kind = TaskAlreadySucceededError
        message += f", so {codes.step} is done. To run a finished step again, start it with also_from=(...)"
    elif status == codes.ignored:
        kind = TaskIgnoredError
        why = f" ({row.last_error})" if row.last_error else ""
        message += f" since {row.update_time}{why}. To give it a fresh set of attempts, reopen it"
    elif status in (codes.pending, codes.failed):
        return not_due_error(row, operation)
    else:
        kind = TaskNotReadyError
        message += f", and {codes.step} comes after that"
    return kind(message, task_id=row.task_id, task=row)


def cancelled_error(row: TaskRow, operation: str) -> TaskCancelledError:
    why = describe_cancellation(row)
    if end_of(row.status) is None:
        why = f"it is {row.tracker.name_of(row.status)}, because {why}"
    else:
        why += f". Only {type(row).__name__}.reopen({row.task_id!r}) lets it start again"
    return build_error(row, TaskCancelledError, operation, why)


def describe_cancellation(row: TaskRow) -> str:
    """Say when, by whom and why a task was cancelled, and at which step."""
    if row.cancelled is None:  # another program has removed the record
        return "it was cancelled"
    number, time, by, reason, _ = row.cancelled
    why = f" ({reason})" if reason else ""
    return f"it was cancelled at {row.tracker.step_named_by(number)} by {by} at {clock.in_words(time)}{why}"


def not_due_error(row: TaskRow, operation: str) -> TaskNotReadyError:
    then = f"waits for {row.waits_for}, so it becomes due then"
    if row.waits_for is None:
        then = f"due at {row.due_time}. Try again then"
    return build_error(row, TaskNotReadyError, operation, f"it is {row.tracker.name_of(row.status)}, and {then}")


def kept_changing_error(model: type[TaskRow], task_id: str, operation: str, tries: int) -> TaskNotReadyError:
    return TaskNotReadyError(
        f"cannot {operation} {model.__name__} {task_id!r}: it changed {tries} times during the call. Try again",
        task_id=task_id,
    )


def other_holder_error(row: TaskRow, operation: str, meant: str) -> TaskLockedError:
    why = f"it is not held by {meant}. Attempt {row.attempt} is {describe_holder(row)}"
    return build_error(row, TaskLockedError, operation, why)


def describe_holder(row: TaskRow) -> str:
    """Say who holds a task in progress, and when another worker can take it."""
    if row.lock_expire_time < clock.now() - row.tracker.margin:
        return f"abandoned by {row.worker}: its lock expired at {row.lock_expire_time}. The next start takes it over"
    return f"held by {row.worker} until {row.lock_expire_time}. Try again after that"


def too_slow(claim: Claim[T], lock_for: timedelta) -> TaskNotStartableError:
    """Return the error for a lock that expired before the block began."""
    task = claim.task
    return TaskNotStartableError(
        f"cannot start {claim.step} of {type(task).__name__} {task.task_id!r}: its lock expired before the block "
        f"began, even after extensions, because responses take longer than lock_for ({lock_for}). The attempt was "
        "released. Use a longer lock_for",
        task_id=task.task_id,
        task=task,
    )


def lock_lost_error(claim: Claim[T], operation: str, found: TaskRow | None) -> LockLostError:
    task, advice = claim.task, ". Use a longer lock_for, or call extend_lock() in time"
    if found is None:
        now_is = "the task was deleted"
    else:
        now_is = f"it is {found.tracker.name_of(found.status)}, last claimed by {found.worker}"
        for entry in failures_in_row(found):
            if entry.type in ("unlocked", "ignored", "cancelled") and entry.time >= task.update_time:
                now_is = f"{entry.worker} {entry.type} the task ({entry.message})"
                advice = "" if entry.time < claim.expire_time else advice
    return LockLostError(
        f"cannot {operation} {claim.step} of {type(task).__name__} {task.task_id!r}: this run has lost its lock: "
        f"{now_is}. Nothing was recorded since{advice}",
        task_id=task.task_id,
        task=found,
    )


def send_save(journal: Journal[T], save: Transition, operation: str) -> Item:
    """Send a save. Return the response, or the row if that has already counted the save. Raises LockLostError."""
    claim = journal.claim
    statements, task_id, until = claim.statements, claim.task.task_id, claim.expire_time
    try:
        return statements.send(save, task_id, until=until)
    except Refused:
        row = get(statements.model, task_id, until=until)
        if row is None or not claim.holds(row) or row.saves < journal.saves:
            raise lock_lost_error(claim, operation, row) from None
        return {"Attributes": row._row_state.stored}


def settle_save(journal: Journal[T]) -> None:
    """Find out whether a save without a response was applied, and block late copies of it.

    Otherwise, the next save could overwrite the chunks that the row points to.
    """
    claim = journal.claim
    journal.saves += 1
    count = claim.statements.save(claim.token, journal.saves, name="settle")
    count.returns = ALL_NEW
    response = send_save(journal, count, "save")["Attributes"]
    if journal.save_in_doubt is not None:
        sent = journal.save_in_doubt.sent
        if all(same(response.get(attribute.attr_name), value) for attribute, value in sent.values()):
            journal.mark_saved(*journal.save_in_doubt)
    journal.stored_data, journal.save_in_doubt = response.get("data"), None


def note_unrecorded(journal: Journal[T], error: PynamoDBException, *, is_success: bool) -> None:
    """Log that an end was not recorded, and add the consequences to the error."""
    claim, pending = journal.claim, journal.pending_success
    is_in_doubt = journal.end_in_doubt or (pending is not None and pending.sent is not None)
    what, then = f"the end of {claim}", ""
    if is_success:
        what = f"the work of {claim} was done, {'and' if is_in_doubt else 'but'} its success"
        then = ", and the work is repeated"
    known = "may have been recorded: a response was lost. If it was not," if is_in_doubt else "was not recorded:"
    message = f"{what} {known} the task is taken over after {claim.expire_time}{then}"
    add_note(error, message)
    log.error("%s: %s", message, error, extra=claim.log_fields)
