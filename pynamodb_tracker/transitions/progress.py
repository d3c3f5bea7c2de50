"""Writes of a run that holds its lock: extensions, saves and the user's transactions.

A transaction counts as a save, so the row shows whether it was applied. An empty save blocks late copies of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.transact_write import Unapplied, transact_write
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.features.overflow import expire, put_next_version
from pynamodb_tracker.model.changes import Changes, raise_if_invalid, storable_changes
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.ending import has_landed, read_row
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.lock import Claim, Journal, PendingSuccess
from pynamodb_tracker.writes.participants import Action
from pynamodb_tracker.writes.refusals import lock_lost_error, send_save, settle_save
from pynamodb_tracker.writes.statements import StepStatements, get
from pynamodb_tracker.writes.transition import Transition

if TYPE_CHECKING:
    from pynamodb.transactions import TransactWrite

T = TypeVar("T", bound=TaskRow)

_UNKNOWN = "an earlier try got no response. It may have been applied before, which cannot be found out"


def extend(claim: Claim[T], lock_for: timedelta) -> None:
    """Extend the lock to `lock_for` from now, unless it already expires later. Raises LockLostError."""
    statements, task_id, until = claim.statements, claim.task.task_id, claim.expire_time
    expire = clock.now() + lock_for
    try:
        statements.send(build_extension(statements, claim.token, expire), task_id, until=until)
    except Refused:
        row = get(statements.model, task_id, until=until)
        if row is None or not claim.holds(row):
            raise lock_lost_error(claim, "extend the lock of", row) from None
        expire = row.lock_expire_time  # it already expires later, or a repeated request met its own success
    claim.note_extension(expire)


def build_extension(statements: StepStatements[Any], token: str, expire_time: datetime) -> Transition:
    """Extend the lock without writing an indexed attribute."""
    extend = Transition("extend", None, *statements.held_by_run, when.lock_grows())
    extend.seen, extend.values = {"lock": token}, {"lock_expire_time": expire_time}
    return extend


def save(journal: Journal[T]) -> None:
    """Store the block's changes so far, if there are any. Raises LockLostError."""
    claim = journal.claim
    settle_unknown_writes(journal)
    changes, needs_chunks = storable_changes(claim.task)
    if not changes:
        return
    if needs_chunks:
        sent = put_next_version(journal, changes)
    else:
        sent, journal.saves = changes, journal.saves + 1
    try:
        journal.unsure = changes, sent
        send_save(journal, claim.statements.save(claim.token, journal.saves, sent), "save")
    except PynamoDBConnectionError as error:
        raise_if_invalid(claim.task, sent, error)
        raise
    journal.mark_saved(changes, sent)


def commit(journal: Journal[T], actions: Sequence[Action], *, theirs: Sequence[Action] = ()) -> None:
    """Apply writes in one transaction while the lock is held. `theirs` are the user's.

    If this raises, nothing was applied, unless a note on the error says that it may have been.
    """
    claim = journal.claim
    settle_unknown_writes(journal)
    journal.saves += 1
    number = journal.saves
    check = claim.statements.save(claim.token, number)
    check.name = "check"
    own = claim.statements.as_action(check, claim.task.task_id)
    unapplied = transact_write(claim.statements.table, [own, *actions], theirs=theirs)
    if unapplied is None:
        return
    try:
        if (unapplied.refused or unapplied.unheard) and _was_applied(journal, number, unheard=unapplied.unheard):
            return
    except LockLostError as error:
        if unapplied.unheard:
            error.add_note(f"pynamodb_tracker: {_UNKNOWN}")
        raise error from unapplied.error
    except PynamoDBConnectionError as unknown:
        raise unknown_outcome(unapplied, unknown) from unknown
    raise unapplied.error


def check_in(claim: Claim[T], transaction: TransactWrite) -> None:
    """Let a user's transaction check the lock first."""
    held, task = when.holds(claim.statements.codes, claim.token), claim.task
    transaction.condition_check(claim.statements.model, task.task_id, task.use_case_id, condition=held)
    checks = transaction._condition_check_items  # noqa: SLF001 - its place tells it from the user's own checks
    checks.insert(0, checks.pop())


def _was_applied(journal: Journal[T], number: int, *, unheard: bool) -> bool:
    """Return whether the row has counted that save. If not, block late copies of it."""
    saves = _saves_in_row(journal.claim)
    while unheard and saves < number and not _keep_out(journal, saves):
        saves = _saves_in_row(journal.claim)
    return saves == number


def _keep_out(journal: Journal[T], seen: int) -> bool:
    """Block late copies of earlier saves. Return False if one has just arrived."""
    claim = journal.claim
    journal.saves += 1
    keep_out = build_keep_out(claim.statements, claim.token, journal.saves, seen)
    try:
        claim.statements.send(keep_out, claim.task.task_id, until=claim.expire_time)
    except Refused:
        return False
    return True


def build_keep_out(statements: StepStatements[Any], token: str, number: int, seen: int) -> Transition:
    """Count an empty save, unless another one was counted since the row was read."""
    keep_out = Transition("keep out", None, *statements.held_by_run, when.saves_seen())
    keep_out.seen, keep_out.values = {"lock": token, "seen_saves": str(seen)}, {"saves": number}
    return keep_out


def _saves_in_row(claim: Claim[T]) -> int:
    row = read_row(claim)
    if row is None or not claim.holds(row):
        raise lock_lost_error(claim, "commit a transaction of", row)
    return row.saves


def settle_unknown_writes(journal: Journal[T]) -> None:
    """Find out whether earlier writes were applied. Raise LockLostError if the success was."""
    claim = journal.claim
    pending = journal.pending_success
    if pending is not None and pending.sent is not None:
        find_outcome(journal, pending)
    if journal.unsure is not None:
        settle_save(journal)
    if pending is not None and pending.recorded:
        raise LockLostError(
            f"{claim.step} of {claim.task.task_id!r} has ended: a transaction without a response has recorded the "
            "success and released the lock",
            task_id=claim.task.task_id,
        )


def unknown_outcome(unapplied: Unapplied, unknown: PynamoDBConnectionError) -> TransactWriteError:
    """Return the error for a transaction that may have been applied, if the row cannot be read."""
    unapplied.error.add_note(f"pynamodb_tracker: it may have been applied, but the row cannot be read: {unknown}")
    return unapplied.error


def find_outcome(journal: Journal[T], pending: PendingSuccess) -> T | None:
    """Finish the run if the row shows its success. Otherwise, block late copies and return it, or raise the loss."""
    claim = journal.claim
    success, row = pending.sent, read_row(claim)
    if row is not None and claim.holds(row):
        try:
            settle_save(journal)
        except LockLostError as proof:
            row = proof.task  # type: ignore[assignment]  # it has the row's class
        else:
            pending.sent = None
            return row
    if success is None or not has_landed(claim, row):
        pending.sent = None
        raise lock_lost_error(claim, "commit a transaction of" if pending.of_block else "finish", row)
    note_pending_success(journal, pending, *success)
    return None


def note_pending_success(journal: Journal[T], pending: PendingSuccess, changes: Changes, success: Transition) -> None:
    """Mark the run as ended with a recorded success."""
    journal.ended = pending.recorded = True
    pending.error = pending.sent = None
    journal.note_success(changes, success)
    if journal.claim.statements.has_expiry:
        expire(journal.claim.statements, journal.claim.task)
    if pending.of_block:
        journal.claim.task._row_state.closed = True  # assignments would not be saved
