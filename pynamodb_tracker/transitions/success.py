"""Recording a success, alone or together with participants' and the user's writes.

A success in a transaction also counts as a save. If the row has changed in a way that matters, it is built again.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar, cast

from pynamodb.constants import LIST
from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.dynamodb.transact_write import Unapplied
from pynamodb_tracker.exceptions import LockLostError, TrackerError, ValueNotStorableError
from pynamodb_tracker.features.overflow import expire, put_next_version
from pynamodb_tracker.model.changes import Changes, raise_if_invalid, storable_changes
from pynamodb_tracker.model.recent_ends import add_end, fit_ends
from pynamodb_tracker.model.row import TaskRow, may_expire
from pynamodb_tracker.status import CANCELLED, end_of
from pynamodb_tracker.transitions.ending import RowChanged, build_end, send_until_landed, wait_before_retry
from pynamodb_tracker.transitions.progress import (
    commit,
    find_outcome,
    note_pending_success,
    settle_unknown_writes,
    unknown_outcome,
)
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes import register
from pynamodb_tracker.writes.lock import Journal, PendingSuccess
from pynamodb_tracker.writes.participants import Action, Participant, send_together
from pynamodb_tracker.writes.refusals import lock_lost_error, settle_save
from pynamodb_tracker.writes.transition import Transition

T = TypeVar("T", bound=TaskRow)


def succeed(journal: Journal[T]) -> None:
    """Record the success, the block's changes and the participants' writes, all or nothing."""
    claim, success = journal.claim, _changes_to_send(journal)
    participants = _participants(journal, claim.task)
    if not participants or not any(each.writes for each in participants):
        changes, sent = success
        journal.note_success(changes, _succeed_alone(journal, sent, participants))
        if claim.statements.has_expiry:
            expire(claim.statements, claim.task)
        return
    try:
        for each in participants:
            each.write_before_success(partial(commit, journal))
        pending = journal.pending_success = journal.pending_success or PendingSuccess(of_block=False)
        _succeed_together(journal, pending, success, participants)
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
    changes, needs_chunks = storable_changes(claim.task, (claim.statements.result, journal.result))
    sent = put_next_version(journal, changes) if needs_chunks else changes
    _succeed_together(journal, pending, (changes, sent), _participants(journal, claim.task), actions)


def _participants(journal: Journal[T], row: T) -> Sequence[Participant]:
    """Return the participants in the success, which see where it leads. A cancelled task ends as cancelled."""
    if "cancelled" in row._row_state.stored and end_of(journal.next_code):
        journal.next_code = CANCELLED
    return register.success_participants(journal, row)


def build_success(journal: Journal[T], sent: Changes, participants: Sequence[Participant]) -> Transition:
    """Build the success with the block's changes."""
    claim, now = journal.claim, clock.now()
    success = build_end(claim, "succeed", journal.next_code, now, attempt=0)
    success.add(last_error=None, release_count=None)
    if not {"postpone_count", "first_failure"}.isdisjoint(claim.task._row_state.stored):
        success.add(postpone_count=None, first_failure=None)
    if end_of(journal.next_code) == "succeeded":
        success.add(when.no_request_pending())
    if end_of(journal.next_code) == "cancelled":
        success.expires = may_expire(claim.task)
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


def _changes_to_send(journal: Journal[T]) -> tuple[Changes, Changes]:
    """Return the block's changes and their sent form, which has a pointer to large data."""
    claim = journal.claim
    if journal.success is None:
        if journal.unsure is not None:
            settle_save(journal)
        result = claim.statements.result, journal.result
        try:
            changes, needs_chunks = storable_changes(claim.task, result)
        except ValueNotStorableError as unstorable:
            interrupt = unstorable.__cause__ or unstorable.__context__  # an error of data hides its cause
            if interrupt is None:
                raise
            # A signal handler's exception looks like a value's, but only the first time.
            try:
                changes, needs_chunks = storable_changes(claim.task, result)
            except ValueNotStorableError:
                raise unstorable from unstorable.__cause__
            journal.interrupt = interrupt
        journal.success = changes, put_next_version(journal, changes) if needs_chunks else changes
    return journal.success


def _succeed_alone(journal: Journal[T], sent: Changes, participants: Sequence[Participant]) -> Transition:
    """Send the success in a separate update and return it. If the row has changed, build it again."""
    claim, retries = journal.claim, 0
    success = build_success(journal, sent, participants)
    while True:
        try:
            send_until_landed(journal, success)
        except RowChanged as changed:
            row = wait_before_retry(claim, cast("T", changed.row), retries)
            before, retries = success, retries + 1
            success = build_success(journal, sent, _participants(journal, row or claim.task))
            if row is not None and success.requires_same(before):
                raise lock_lost_error(claim, "finish", row) from None
        except PynamoDBConnectionError as error:
            raise_if_invalid(claim.task, sent, error)
            raise
        else:
            return success


def _succeed_together(
    journal: Journal[T],
    pending: PendingSuccess,
    success: tuple[Changes, Changes],
    participants: Sequence[Participant],
    more: Sequence[Action] = (),
) -> None:
    claim, retries, (changes, sent) = journal.claim, 0, success

    def build_own() -> Action:
        transition = _as_save(build_success(journal, sent, participants), journal.saves)
        pending.sent = changes, transition
        return claim.statements.as_action(transition, claim.task.task_id)

    while not pending.recorded:
        journal.saves += 1
        unapplied = send_together(claim.statements.table, build_own, participants, more=more)
        if unapplied is None:
            note_pending_success(journal, pending, *cast("tuple[Changes, Transition]", pending.sent))
        elif unapplied.refused or unapplied.unheard:
            found = _row_to_build_from(journal, pending, unapplied)
            if found is not None:
                row = wait_before_retry(claim, found, retries)
                participants = _participants(journal, row or claim.task)
            elif not pending.recorded:
                raise unapplied.error
        else:
            pending.sent = None
            raise unapplied.error
        retries += 1
    journal.ended_with = participants


def _as_save(success: Transition, number: int) -> Transition:
    success.name = "commit"
    success.add(when.later_save(), saves=number)
    return success


def _row_to_build_from(journal: Journal[T], pending: PendingSuccess, unapplied: Unapplied) -> T | None:
    """Find out whether a success was applied. If it has to be built again, return the row."""
    before = pending.sent
    try:
        row = find_outcome(journal, pending)
    except LockLostError as error:
        raise error from unapplied.error
    except PynamoDBConnectionError as unknown:
        raise unknown_outcome(unapplied, unknown) from unknown
    if not unapplied.refused or row is None or before is None:
        return None
    _, success = before
    participants = _participants(journal, row)
    now = _as_save(build_success(journal, success.assigned, participants), journal.saves)
    return None if now.requires_same(success) else row
