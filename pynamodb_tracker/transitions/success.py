"""Writes of a run that holds its lock: extensions, saves, the user's transactions, and the success.

A transaction counts as a save, so the row shows whether it was applied. An empty save blocks late copies of it. If the
row has changed in a way that matters, a success is built again.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pynamodb.constants import LIST
from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.dynamodb.transact_write import Unconfirmed, transact_write
from pynamodb_tracker.exceptions import LockLostError, TrackerError, ValueNotStorableError
from pynamodb_tracker.features.overflow import expire, put_next_version
from pynamodb_tracker.model.changes import Changes, Outgoing, raise_if_invalid, storable_changes
from pynamodb_tracker.model.recent_ends import add_end, fit_ends
from pynamodb_tracker.model.row import TaskRow, may_expire
from pynamodb_tracker.model.status import CANCELLED, end_of
from pynamodb_tracker.transitions.ending import (
    RowChanged,
    build_end,
    has_landed,
    read_row,
    row_for_retry,
    send_until_landed,
)
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.lock import Claim, Journal, PendingSuccess
from pynamodb_tracker.writes.participants import Action, Participant, send_together, success_participants
from pynamodb_tracker.writes.refusals import lock_lost_error, send_save, settle_save
from pynamodb_tracker.writes.transition import StepStatements, Transition, get

if TYPE_CHECKING:
    from pynamodb.transactions import TransactWrite

T = TypeVar("T", bound=TaskRow)


def extend(claim: Claim[T], lock_for: timedelta) -> None:
    """Extend the lock to `lock_for` from now, unless it already expires later. Raises LockLostError."""
    statements, task_id, until = claim.statements, claim.task.task_id, claim.expire_time
    expires = clock.now() + lock_for
    try:
        statements.send(build_extension(statements, claim.token, expires), task_id, until=until)
    except Refused:
        row = get(statements.model, task_id, until=until)
        if row is None or not claim.holds(row):
            raise lock_lost_error(claim, "extend the lock of", row) from None
        expires = row.lock_expire_time  # it already expires later, or a repeated request met its own success
    claim.note_extension(expires)


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
        journal.save_in_doubt = Outgoing(changes, sent)
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
    check = claim.statements.save(claim.token, number, name="check")
    own = claim.statements.as_action(check, claim.task.task_id)
    unconfirmed = transact_write(claim.statements.table, [own, *actions], theirs=theirs)
    if unconfirmed is None:
        return
    try:
        may_be_applied = unconfirmed.refused or unconfirmed.in_doubt
        if may_be_applied and _was_applied(journal, number, in_doubt=unconfirmed.in_doubt):
            return
    except LockLostError as error:
        if unconfirmed.in_doubt:
            doubt = "It may have been applied before, which cannot be found out"
            error.add_note(f"pynamodb_tracker: an earlier try got no response. {doubt}")
        raise error from unconfirmed.error
    except PynamoDBConnectionError as unknown:
        raise unknown_outcome(unconfirmed, unknown) from unknown
    raise unconfirmed.error


def check_in(claim: Claim[T], transaction: "TransactWrite") -> None:
    """Let a user's transaction check the lock first."""
    held, task = when.holds(claim.statements.codes, claim.token), claim.task
    transaction.condition_check(claim.statements.model, task.task_id, task.use_case_id, condition=held)
    checks = transaction._condition_check_items  # noqa: SLF001 - its place tells it from the user's own checks
    checks.insert(0, checks.pop())


def _was_applied(journal: Journal[T], number: int, *, in_doubt: bool) -> bool:
    """Return whether the row has counted that save. If not, block late copies of it."""
    saves = _saves_in_row(journal.claim)
    while in_doubt and saves < number and not _keep_out(journal, saves):
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
    keep_out = Transition("keep out", None, *statements.held_by_run, when.seen("saves"))
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
    if journal.save_in_doubt is not None:
        settle_save(journal)
    if pending is not None and pending.recorded:
        raise LockLostError(
            f"{claim.step} of {claim.task.task_id!r} has ended: a transaction without a response has recorded the "
            "success and released the lock",
            task_id=claim.task.task_id,
        )


def unknown_outcome(unconfirmed: Unconfirmed, unknown: PynamoDBConnectionError) -> TransactWriteError:
    """Return the error for a transaction that may have been applied, if the row cannot be read."""
    unconfirmed.error.add_note(f"pynamodb_tracker: it may have been applied, but the row cannot be read: {unknown}")
    return unconfirmed.error


def find_outcome(journal: Journal[T], pending: PendingSuccess) -> T | None:
    """Finish the run if the row shows its success. Otherwise, block late copies and return the row, or raise."""
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
    note_pending_success(journal, pending, success)
    return None


def note_pending_success(journal: Journal[T], pending: PendingSuccess, success: Transition) -> None:
    """Mark the run as ended with a recorded success."""
    journal.ended = pending.recorded = True
    pending.error = pending.sent = None
    journal.note_success(pending.changes, success)
    if journal.claim.statements.has_expiry:
        expire(journal.claim.statements, journal.claim.task)
    if pending.of_block:
        journal.claim.task._row_state.closed = True  # assignments would not be saved


def succeed(journal: Journal[T]) -> None:
    """Record the success, the block's changes and the participants' writes, all or nothing."""
    claim, outgoing = journal.claim, _changes_to_send(journal)
    participants = _participants(journal, claim.task)
    if not any(each.writes for each in participants):
        journal.note_success(outgoing.changes, _succeed_alone(journal, outgoing.sent, participants))
        if claim.statements.has_expiry:
            expire(claim.statements, claim.task)
        return
    try:
        for each in participants:
            each.write_before_success(partial(commit, journal))
        pending = journal.pending_success = journal.pending_success or PendingSuccess(of_block=False)
        _succeed_together(journal, pending, outgoing, participants)
    except TransactWriteError as error:
        if not is_invalid(error):
            raise
        task, reasons = claim.task, [each.message for each in error.cancellation_reasons if each and each.message]
        raise ValueNotStorableError(
            f"DynamoDB refused the success of {claim.step} of {type(task).__name__} {task.task_id!r} because of a "
            f"value in it, or in a task created with it: {', '.join(reasons) or error.cause_response_message}",
            task_id=task.task_id,
        ) from error


def commit_success(journal: Journal[T], pending: PendingSuccess, actions: Sequence[Action]) -> None:
    """Apply the user's writes and the success in one transaction, as `commit` does."""
    claim = journal.claim
    if journal.expects_result:
        raise TrackerError(
            f"{claim.step} of {claim.task.task_id!r} stores its result with its success. Call ctx.store_result(...) "
            "before the transaction that records the success is committed"
        )
    settle_unknown_writes(journal)
    outgoing = _prepare_changes(journal)
    _succeed_together(journal, pending, outgoing, _participants(journal, claim.task), actions)


def _participants(journal: Journal[T], row: T) -> Sequence[Participant]:
    """Return the participants in the success, which see where it leads. A cancelled task ends as cancelled."""
    if "cancelled" in row._row_state.stored and end_of(journal.next_code):
        journal.next_code = CANCELLED
    return success_participants(journal, row)


def build_success(journal: Journal[T], sent: Changes, participants: Sequence[Participant]) -> Transition:
    claim, now = journal.claim, clock.now()
    success = build_end(claim, "succeed", journal.next_code, now, attempt=0)
    success.add(last_error=None, release_count=None)
    if not {"postpone_count", "first_failure"}.isdisjoint(claim.task._row_state.stored):
        success.add(postpone_count=None, first_failure=None)
    end = end_of(journal.next_code)
    if end == "succeeded":
        success.add(when.lacks("queued"))
    if end and claim.task.tracker.awaited and "waits" not in journal.additions:
        success.add(when.lacks("signals"))  # no later run would read one that has come
    success.expires = end != "cancelled" or may_expire(claim.task)
    for each in participants:
        each.change(success)
    if "round" not in success.values:
        _add_skipped_steps(journal, success)
    success.assigned = sent
    _add_to_recent_ends(journal, success, sent, now)
    return success


def _add_skipped_steps(journal: Journal[T], success: Transition) -> None:
    """Store the steps that the run skips, in addition to earlier ones. A step that runs again is not skipped."""
    task, codes = journal.claim.task, journal.claim.statements.codes
    before, between = task.skipped_steps or [], range(codes.done_from, journal.next_code)
    numbers = [number for number in before if number < codes.pending]
    numbers += [each.pending for each in task.tracker.steps if each.pending in between]
    if numbers != before:
        success.add(skipped_steps=numbers or None)


def _add_to_recent_ends(journal: Journal[T], success: Transition, sent: Changes, now: datetime) -> None:
    """Keep this end in the row, unless it would cost another write unit."""
    claim, task = journal.claim, journal.claim.task
    if claim.start_time is None or "checkpoints" in journal.additions:
        return
    stored = {**task._row_state.stored, **{name: value for name, (_, value) in sent.items() if value is not None}}
    stored.pop("last_error", None)
    if "errors" in success.values:
        stored["errors"] = {LIST: success.values["errors"].value}
    ends = fit_ends(add_end(task, claim.statements.codes.pending, claim.start_time, now), stored)
    if ends is not None or "recent_ends" in task._row_state.stored:
        success.add(recent_ends=ends)


def _prepare_changes(journal: Journal[T]) -> Outgoing:
    """Return the block's changes and the result. Large data is put into overflow chunks first."""
    changes, needs_chunks = storable_changes(journal.claim.task, (journal.claim.statements.result, journal.result))
    return Outgoing(changes, put_next_version(journal, changes) if needs_chunks else changes)


def _changes_to_send(journal: Journal[T]) -> Outgoing:
    if journal.success is None:
        if journal.save_in_doubt is not None:
            settle_save(journal)
        try:
            journal.success = _prepare_changes(journal)
        except ValueNotStorableError as unstorable:
            interrupt = unstorable.__cause__ or unstorable.__context__  # an error of data hides its cause
            if interrupt is None:
                raise
            # A signal handler's exception looks like a value's, but only the first time.
            try:
                journal.success = _prepare_changes(journal)
            except ValueNotStorableError:
                raise unstorable from unstorable.__cause__
            journal.interrupt = interrupt
    return journal.success


def _succeed_alone(journal: Journal[T], sent: Changes, participants: Sequence[Participant]) -> Transition:
    """Send the success in a separate update and return it. If the row has changed, build it again."""
    claim, retries = journal.claim, 0
    success = build_success(journal, sent, participants)
    while True:
        try:
            send_until_landed(journal, success)
        except RowChanged as changed:
            row = row_for_retry(claim, cast("T", changed.row), retries)
            before, retries = success, retries + 1
            success = build_success(journal, sent, _participants(journal, row or claim.task))
            if row is not None and success.requires_same(before):
                raise lock_lost_error(claim, "finish", row) from None  # only a damaged row refuses the same success
        except PynamoDBConnectionError as error:
            raise_if_invalid(claim.task, sent, error)
            raise
        else:
            return success


def _succeed_together(
    journal: Journal[T],
    pending: PendingSuccess,
    outgoing: Outgoing,
    participants: Sequence[Participant],
    more: Sequence[Action] = (),
) -> None:
    claim, retries, pending.changes = journal.claim, 0, outgoing.changes

    def build_own() -> Action:
        pending.sent = _as_save(build_success(journal, outgoing.sent, participants), journal.saves)
        return claim.statements.as_action(pending.sent, claim.task.task_id)

    while not pending.recorded:
        journal.saves += 1
        unconfirmed = send_together(claim.statements.table, build_own, participants, more=more)
        if unconfirmed is None:
            note_pending_success(journal, pending, cast("Transition", pending.sent))
        elif unconfirmed.refused or unconfirmed.in_doubt:
            found = _row_to_build_from(journal, pending, unconfirmed)
            if found is not None:
                row = row_for_retry(claim, found, retries)
                participants = _participants(journal, row or claim.task)
            elif not pending.recorded:
                raise unconfirmed.error
        else:
            pending.sent = None
            raise unconfirmed.error
        retries += 1
    journal.ended_with = participants


def _as_save(success: Transition, number: int) -> Transition:
    success.name = "commit"
    success.add(when.later_save(), saves=number)
    return success


def _row_to_build_from(journal: Journal[T], pending: PendingSuccess, unconfirmed: Unconfirmed) -> T | None:
    """Find out whether a success was applied. If it has to be built again, return the row."""
    before = pending.sent
    try:
        row = find_outcome(journal, pending)
    except LockLostError as error:
        raise error from unconfirmed.error
    except PynamoDBConnectionError as unknown:
        raise unknown_outcome(unconfirmed, unknown) from unknown
    if not unconfirmed.refused or row is None or before is None:
        return None
    now = _as_save(build_success(journal, before.assigned, _participants(journal, row)), journal.saves)
    return None if now.requires_same(before) else row
