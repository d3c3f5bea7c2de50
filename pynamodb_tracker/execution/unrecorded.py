"""Errors, notes and log records for a block whose end is not recorded, or not as it expects."""

from __future__ import annotations

import logging
from typing import Any, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.exceptions import LockLostError, TrackerError, ValueNotStorableError
from pynamodb_tracker.model.changes import changes_of
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import Claim, Journal, PendingSuccess

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")


def stays_locked(claim: Claim[T], interrupt: BaseException) -> str:
    """Return the consequence of an interrupt that stopped the recording of an end."""
    return (
        f"{type(interrupt).__name__} stopped it; unless it was recorded before, the task stays locked until "
        f"{claim.expire_time}, and the next start after that takes it over"
    )


def warn_if_expired(journal: Journal[Any]) -> None:
    """Log that the block has outlived its lock, unless that is known, or its success is recorded."""
    claim, pending = journal.claim, journal.pending_success
    if clock.now() < claim.expire_time or journal.lost is not None or (pending is not None and pending.recorded):
        return
    log.warning(
        "the block of %s ended after its lock had expired at %s, so another worker may have taken the task: take a "
        "longer lock_for, or heartbeat=True",
        claim,
        claim.expire_time,
        extra=claim.log_fields,
    )


def log_unended(claim: Claim[Any]) -> None:
    """Log that nothing was recorded. A forked process leaves that to its parent."""
    if not claim.is_foreign:
        log.error(
            "%s was left without its end, by an exception that arrived there, or because its context manager was not "
            "used in a with statement: nothing is recorded, and it stays locked until %s",
            claim,
            claim.expire_time,
            extra=claim.log_fields,
        )


def has_pending_success(journal: Journal[T]) -> bool:
    """Return whether the block records its success in a transaction."""
    return journal.pending_success is not None and journal.pending_success.of_block


def given_back(claim: Claim[T]) -> LockLostError:
    """Return the error for a block whose task was released while it ran."""
    task_id = claim.task.task_id
    return LockLostError(
        f"cannot finish {claim.step} of {type(claim.task).__name__} {task_id!r}: it was released while the block still "
        "ran, so that another worker can take it",
        task_id=task_id,
    )


def end_after_give_back(journal: Journal[T], error: BaseException | None) -> bool:
    """Record nothing, because the task was released while the block ran."""
    lost = journal.lost or given_back(journal.claim)
    if error is None:
        raise lost
    add_note(error, f"pynamodb_tracker could not record this: {lost}")
    return False


def not_committed(claim: Claim[T], pending: PendingSuccess) -> Exception:
    """Return the error for a block that caught the error of its transaction, or did not commit it."""
    message = (
        f"ctx.transaction(succeed=True) of {claim.step} of {type(claim.task).__name__} {claim.task.task_id!r} was not "
        "committed, so this attempt has failed"
    )
    reason = pending.error
    if isinstance(reason, Exception):
        add_note(reason, f"pynamodb_tracker: {message}")
        return reason
    error = TrackerError(f"{message}: use it in a with statement, and let that end")
    error.__cause__ = reason
    return error


def check_after_success(claim: Claim[T], error: BaseException | None, *, was_stopped: bool) -> None:
    """Report errors and changes that came after a transaction had recorded the success."""
    task = claim.task
    named = f"{claim.step} of {type(task).__name__} {task.task_id!r}"
    if error is not None:
        note = f"pynamodb_tracker: a transaction had recorded the success of {named} before; it stays recorded"
        add_note(error, note)
        level, what = (logging.INFO, "was stopped") if was_stopped else (logging.ERROR, "raised")
        text = "the block of %s %s after its success was recorded: %r"
        log.log(level, text, named, what, error, extra=claim.log_fields)
        return
    try:
        late = list(changes_of(task))
    except ValueNotStorableError as unstorable:
        late = [unstorable.attribute]
    if late:
        text = "%s of %s changed after its success was recorded, and that is not saved"
        log.error(text, ", ".join(late), named, extra=claim.log_fields)
        raise AttributeError(
            f"{', '.join(late)} of {named} changed after a transaction had recorded the success; that is not saved: "
            "change it before the transaction is committed",
            name=late[0],
            obj=task,
        )
