"""Why an operation was refused, or what became of it: what the row says that was read afterwards."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TypeVar

from pynamodb.constants import STRING
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.exceptions import (
    LockLostError,
    PayloadMismatchError,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
    TaskNotStartableError,
)
from pynamodb_tracker.model.failure import ABANDONED, Failure, add_note
from pynamodb_tracker.model.failure_log import failures_in_row
from pynamodb_tracker.model.row import TaskRow, has_later_format, later_format_error
from pynamodb_tracker.status import END, Codes
from pynamodb_tracker.transitions.lock import Claim, Journal
from pynamodb_tracker.transitions.statements import StepStatements

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")

_NO_RESULT = "ended without a result"

KEPT_FENCES = 8
"""How many unfinished claims a row remembers; an older one counts as lost."""


def is_due(row: TaskRow, now: datetime, *, on_time: bool = False) -> bool:
    """Return whether the task may start; within the clock margin the answer is yes, unless it has to be `on_time`."""
    return row.due_time <= (now if on_time else now + row.tracker.margin)


def is_abandoned(row: TaskRow, codes: Codes, now: datetime) -> bool:
    """Return whether the lock of a task in progress has expired; within the clock margin the answer is no."""
    expire_time: datetime | None = row.lock_expire_time
    return row.status == codes.in_progress and expire_time is not None and expire_time < now - row.tracker.margin


def abandoned_attempts(row: TaskRow, codes: Codes, now: datetime) -> list[Failure]:
    """Return the entries for the attempt at an abandoned row, and for those before it that ended without a result.

    Earlier attempts have entries already if one after them ended with a result, or if the task was reopened since.
    """
    fences: list[int] = row.unfinished or []
    fence, attempt = row.fence or 0, row.attempt or 0
    expired: datetime | None = row.lock_expire_time
    at = "" if expired is None else f"; its lock expired at {clock.in_words(expired)}"
    found = [Failure(codes.step, attempt, now, row.worker or "", ABANDONED, f"{_NO_RESULT}{at}")]
    while (fence := fence - 1) in fences and (attempt := attempt - 1) > 0:
        found.insert(0, Failure(codes.step, attempt, now, "", ABANDONED, _NO_RESULT))
    return found


def is_held_by(row: TaskRow, codes: Codes, tokens: Collection[str]) -> bool:
    """Return whether the row is in progress, claimed with one of these tokens."""
    return row.lock in tokens and row.status == codes.in_progress


def is_free(row: TaskRow) -> bool:
    """Return whether no worker holds the task, at any step; a status that no step declares may be one in progress."""
    if row.status == END:
        return True
    return any(row.status in codes.own and row.status != codes.in_progress for codes in row.tracker.steps)


def is_startable(row: TaskRow, codes: Codes, now: datetime, *, on_time: bool = False) -> bool:
    """Return whether a claim would be applied, attempts and tokens aside."""
    waits = row.status in (codes.pending, codes.failed) and is_due(row, now, on_time=on_time)
    return waits or is_abandoned(row, codes, now)


def check_format(row: TaskRow, operation: str) -> None:
    """Raise a TaskFormatError if the row has a later format than this version knows."""
    if has_later_format(row):
        raise later_format_error(row, operation)


def is_same_life(row: TaskRow, meant: TaskRow) -> bool:
    """Return whether the row is that of the task that was meant, and not of one that was created with its id since."""
    return (row.creation, row.create_time) == (meant.creation, meant.create_time)


def check_life(row: TaskRow, meant: TaskRow | None, operation: str) -> None:
    """Raise a TaskNotFoundError if the task that a command has read was deleted, and created again since."""
    if meant is not None and not is_same_life(row, meant):
        name = f"{type(row).__name__} {row.task_id!r}"
        raise TaskNotFoundError(
            f"cannot {operation} {name}: it was deleted, and created again, while this was under way; the new task is "
            "not changed",
            task_id=row.task_id,
        )


def not_found(statements: StepStatements[T], task_id: str, operation: str) -> TaskNotFoundError:
    """Return the error for a task that does not exist; only what starts one could have created it before."""
    name = statements.model.__name__
    advice = f"; write {name}.create({task_id!r}) first" if operation.startswith("start ") else ""
    return TaskNotFoundError(f"cannot {operation} {name} {task_id!r}: there is no such task{advice}", task_id=task_id)


def is_other_payload(statements: StepStatements[T], row: T, payload: str) -> bool:
    """Return whether the step was started before, with a payload that has another fingerprint."""
    stored = row._row_state.stored.get(statements.payload.attr_name)
    return stored is not None and stored != {STRING: payload}


def payload_mismatch(row: TaskRow, operation: str) -> PayloadMismatchError:
    """Return the error for a payload that is not the one that the step was first started with."""
    return PayloadMismatchError(
        f"cannot {operation} {type(row).__name__} {row.task_id!r}: it was started with another payload before. Send "
        "that one again, or use another task id; reopen lets a failed or ignored task start with a new payload",
        task_id=row.task_id,
        task=row,
    )


def not_startable(statements: StepStatements[T], task_id: str, operation: str) -> TaskNotStartableError:
    """Return the error of a refusal without details."""
    return TaskNotStartableError(
        f"cannot {operation} {statements.model.__name__} {task_id!r}: refused; start it with detailed_error=True to "
        "find out why",
        task_id=task_id,
    )


def is_passed_over(row: TaskRow, codes: Codes) -> bool:
    """Return whether a task has gone on without this step, in the round that it is in."""
    return row.status >= codes.done_from and codes.pending in (row.skipped_steps or ())


def refusal(statements: StepStatements[T], row: T, operation: str, if_held: str = "") -> TaskNotStartableError:
    """Return the error that says why the row, as it was found, does not allow the operation at this step.

    `if_held` is what else can be done if a worker holds the task.
    """
    codes, status = statements.codes, row.status
    message = f"cannot {operation} {type(row).__name__} {row.task_id!r}: it is {row.tracker.name_of(row.status)}"
    kind: type[TaskNotStartableError]
    if status == codes.in_progress:
        kind = TaskLockedError
        message += f", attempt {row.attempt}, {holder(row)}{if_held}"
    elif is_passed_over(row, codes):
        error = TaskAlreadySucceededError(
            f"{message}, and a run of it has passed over {codes.step}", task_id=row.task_id, task=row
        )
        error.skipped = True
        return error
    elif status >= codes.done_from:
        kind = TaskAlreadySucceededError
        message += f", so {codes.step} is done; start takes also_from=(...) to run a finished step again"
    elif status == codes.ignored:
        kind = TaskIgnoredError
        why = f" ({row.last_error})" if row.last_error else ""
        message += f" since {row.update_time}{why}; reopen gives it a fresh set of attempts"
    elif status in (codes.pending, codes.failed):
        return not_due(statements, row, operation)
    else:
        kind = TaskNotReadyError
        message += f", and {codes.step} comes after that"
    return kind(message, task_id=row.task_id, task=row)


def cancelled(row: TaskRow, operation: str) -> TaskIgnoredError:
    """Return the error for a task that was cancelled, although the state would allow to start it."""
    when = "" if row.cancel_time is None else f" at {clock.in_words(row.cancel_time)}"
    return TaskIgnoredError(
        f"cannot {operation} {type(row).__name__} {row.task_id!r}: it is {row.tracker.name_of(row.status)}, and was "
        f"cancelled{when}; only reopen lets it start again",
        task_id=row.task_id,
        task=row,
    )


def not_due(statements: StepStatements[T], row: T, operation: str) -> TaskNotReadyError:
    """Return the error for a task that may start later."""
    what_then = f"due at {row.due_time}; try again then"
    if (waits_for := row.waits_for) is not None:
        what_then = f"waits for {waits_for}; it becomes due then"
    why = f"it is {row.tracker.name_of(row.status)}, and {what_then}"
    return TaskNotReadyError(
        f"cannot {operation} {statements.model.__name__} {row.task_id!r}: {why}",
        task_id=row.task_id,
        task=row,
    )


def in_group(row: TaskRow, operation: str, advice: str) -> TaskNotReadyError:
    """Return the error for what the task of a group cannot do, because others have their turn after it."""
    return TaskNotReadyError(
        f"cannot {operation} {type(row).__name__} {row.task_id!r}: it is in group {row.group!r}; {advice}",
        task_id=row.task_id,
        task=row,
    )


def kept_changing(statements: StepStatements[T], task_id: str, operation: str, tries: int) -> TaskNotReadyError:
    """Return the error for a task that had changed whenever it was to be written."""
    return TaskNotReadyError(
        f"cannot {operation} {statements.model.__name__} {task_id!r}: it changed {tries} times meanwhile; try again",
        task_id=task_id,
    )


def held_by_another(statements: StepStatements[T], row: T, operation: str, meant: str) -> TaskLockedError:
    """Return the error for a task that another worker, or another claim of it, holds than the one that was meant."""
    return TaskLockedError(
        f"cannot {operation} {statements.model.__name__} {row.task_id!r}: it is not held by {meant}; attempt "
        f"{row.attempt} is {holder(row)}",
        task_id=row.task_id,
        task=row,
    )


def holder(row: TaskRow) -> str:
    """Return who holds a task in progress, and when another worker can take it."""
    if row.lock_expire_time < clock.now() - row.tracker.margin:
        return f"abandoned by {row.worker}, whose lock expired at {row.lock_expire_time}; start takes it over"
    return f"held by {row.worker} until {row.lock_expire_time}; try again after that"


def too_slow(claim: Claim[T], lock_for: timedelta) -> TaskNotStartableError:
    """Return the error of a run whose lock has expired before its block, and after each extension again."""
    task = claim.task
    return TaskNotStartableError(
        f"cannot start {claim.step} of {type(task).__name__} {task.task_id!r}: its lock expired before the block "
        f"began, and again after each extension, so responses take longer than lock_for ({lock_for}); "
        "the attempt is released. Take a longer lock_for",
        task_id=task.task_id,
        task=task,
    )


def lost(claim: Claim[T], operation: str, found: TaskRow | None) -> LockLostError:
    """Return the error of a run whose lock is lost, as the row proves."""
    task, advice = claim.task, ". Take a longer lock_for, or extend_lock() in time"
    if found is None:
        now_is = "the task was deleted"
    else:
        now_is = f"it is {found.tracker.name_of(found.status)}, last claimed by {found.worker}"
        for entry in failures_in_row(found):
            if entry.type in ("unlocked", "ignored") and entry.time >= task.update_time:
                now_is = f"{entry.worker} {entry.type} the task ({entry.message})"
                advice = "" if entry.time < claim.expire_time else advice
    return LockLostError(
        f"cannot {operation} {claim.step} of {type(task).__name__} {task.task_id!r}: the lock of this run was lost, "
        f"{now_is}; nothing of this run was recorded since{advice}",
        task_id=task.task_id,
        task=found,
    )


def has_landed(claim: Claim[T], row: T | None) -> bool:
    """Return whether a finish of this run was applied, according to the row.

    Token and status cannot show that: after it landed, another worker may hold the next step, or this one again.
    """
    if row is None or row.create_time != claim.create_time:
        return False
    fences = row.unfinished or []
    forgotten = len(fences) >= KEPT_FENCES and claim.fence < min(fences)
    return claim.fence not in fences and not forgotten


def note_unrecorded(journal: Journal[T], error: PynamoDBException, *, is_success: bool) -> None:
    """Add a note to the error that ended the tries to record an end, and log it: what is known, and what follows."""
    claim, pending = journal.claim, journal.pending_success
    is_in_doubt = journal.is_in_doubt or (pending is not None and pending.sent is not None)
    what, then = f"the end of {claim}", ""
    if is_success:
        what = f"the work of {claim} was done, {'and' if is_in_doubt else 'but'} its success"
        then = ", and the work is done again"
    known = "may have been recorded: a response was lost. If it was not," if is_in_doubt else "was not recorded:"
    message = f"{what} {known} the task is taken over after {claim.expire_time}{then}"
    add_note(error, message)
    log.error("%s: %s", message, error, extra=claim.log_fields)
