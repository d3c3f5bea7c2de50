"""Recording a success: alone, or together with the writes of its participants and of the user.

A transactional success also counts as a save. If its response is lost, the next save checks whether it was applied and
blocks late copies. If the row has changed in a way that matters to the success, it is built again from the row.
"""

from __future__ import annotations

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
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import end_of
from pynamodb_tracker.transitions.ending import RowChanged, build_end, send_until_landed, wait_before_retry
from pynamodb_tracker.transitions.progress import (
    commit,
    end_pending,
    find_outcome,
    settle_unknown_writes,
    unknown_outcome,
)
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes import register
from pynamodb_tracker.writes.lock import Journal, PendingSuccess
from pynamodb_tracker.writes.participants import Action, Participant, send_together
from pynamodb_tracker.writes.refusals import lost, settle
from pynamodb_tracker.writes.transition import Transition

T = TypeVar("T", bound=TaskRow)


def succeed(journal: Journal[T]) -> None:
    """Record the success, the block's changes, and the writes of the participants, all or nothing.

    Raises ValueNotStorableError if a value cannot be stored. The caller then records a failure.
    """
    claim, success = journal.claim, _changes_to_send(journal)
    participants = register.at_success(journal, claim.task)
    if not participants or not any(each.writes for each in participants):
        changes, sent = success
        journal.note_success(changes, _succeed_alone(journal, sent, participants))
        if claim.statements.has_expiry:
            expire(claim.statements, claim.task)
        return
    try:
        for each in participants:
            each.prepare(partial(commit, journal))
        pending = journal.pending_success = journal.pending_success or PendingSuccess(of_block=False)
        _succeed_together(journal, pending, success, participants)
    except TransactWriteError as error:
        if is_invalid(error):
            task, reasons = claim.task, [each.message for each in error.cancellation_reasons if each and each.message]
            raise ValueNotStorableError(
                f"DynamoDB refused the success of {claim.step} of {type(task).__name__} {task.task_id!r} because of a "
                f"value in it, or in a task created with it: {'; '.join(reasons) or error.cause_response_message}",
                task_id=task.task_id,
            ) from error
        raise


def commit_success(journal: Journal[T], pending: PendingSuccess, actions: Sequence[Action]) -> None:
    """Apply the user's writes, the success and the block's changes in one transaction. Raises as `commit` does."""
    claim = journal.claim
    if journal.expects_result:
        raise TrackerError(
            f"{claim.step} of {claim.task.task_id!r} stores its result, which has to be known before a transaction "
            "records the success: call ctx.store_result(...) before the transaction is committed"
        )
    settle_unknown_writes(journal)
    changes, needs_chunks = storable_changes(claim.task, (claim.statements.result, journal.result))
    sent = put_next_version(journal, changes) if needs_chunks else changes
    _succeed_together(journal, pending, (changes, sent), register.at_success(journal, claim.task), actions)


def transition_of_success(journal: Journal[T], sent: Changes, participants: Sequence[Participant]) -> Transition:
    """Return the transition of the success. `sent` are the block's changes."""
    claim = journal.claim
    now = clock.now()
    success = build_end(claim, "succeed", journal.next_code, now, attempt=0)
    success.add(last_error=None, release_count=None)
    if end_of(journal.next_code) == "succeeded":
        success.add(when.no_request_pending())
    for each in participants:
        each.change(success)
    success.assigned = sent
    _add_end(journal, success, sent, now)
    return success


def _add_end(journal: Journal[T], success: Transition, sent: Changes, now: datetime) -> None:
    """Keep this end in the row, unless that would cost a write unit. The row's size is that of its claim."""
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
    """Return the block's changes, and their sent form. Large data is stored before, and sent as a pointer."""
    claim = journal.claim
    if journal.success is None:
        if journal.unsure is not None:
            settle(journal)
        try:
            changes, needs_chunks = storable_changes(claim.task, (claim.statements.result, journal.result))
        except ValueNotStorableError as unstorable:
            changes, needs_chunks = _changes_after_interrupt(journal, unstorable)
        journal.success = changes, put_next_version(journal, changes) if needs_chunks else changes
    return journal.success


def _changes_after_interrupt(journal: Journal[T], unstorable: ValueNotStorableError) -> tuple[Changes, bool]:
    """Serialize the user's values a second time. If the error came from a value, raise it again.

    An exception of a signal handler looks like one of a value, but only the first time.
    """
    claim, interrupt = journal.claim, unstorable.__cause__ or unstorable.__context__  # an error of data hides its cause
    if interrupt is None:
        raise unstorable
    try:
        changes = storable_changes(claim.task, (claim.statements.result, journal.result))
    except ValueNotStorableError:
        raise unstorable from unstorable.__cause__
    journal.interrupt = interrupt
    return changes


def _succeed_alone(journal: Journal[T], sent: Changes, participants: Sequence[Participant]) -> Transition:
    """Send the success in an update of its own, and return it. If the row has changed, build it again."""
    claim, retries = journal.claim, 0
    success = transition_of_success(journal, sent, participants)
    while True:
        try:
            send_until_landed(journal, success)
        except RowChanged as changed:
            row = wait_before_retry(claim, cast("T", changed.row), retries)
            before, retries = success, retries + 1
            success = transition_of_success(journal, sent, register.at_success(journal, row or claim.task))
            if row is not None and success.requires_same(before):
                raise lost(claim, "finish", row) from None
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
    """Send the success in a transaction, with its participants and `more` writes of the user."""
    claim, retries = journal.claim, 0
    while not pending.recorded:
        journal.saves += 1
        build = partial(_own_action, journal, pending, success, participants)
        unapplied = send_together(claim.statements.table, build, participants, more=more)
        if unapplied is None:
            end_pending(journal, pending, *cast("tuple[Changes, Transition]", pending.sent))
        elif unapplied.refused or unapplied.unheard:
            found = _found_after(journal, pending, unapplied)
            if found is not None:
                row = wait_before_retry(claim, found, retries)
                participants = register.at_success(journal, row or claim.task)
            elif not pending.recorded:
                raise unapplied.error
        else:
            pending.sent = None
            raise unapplied.error
        retries += 1
    journal.ended_with = participants


def _own_action(
    journal: Journal[T], pending: PendingSuccess, success: tuple[Changes, Changes], participants: Sequence[Participant]
) -> Action:
    """Return the success as the first action of a transaction, and note it in `pending`."""
    claim, (changes, sent) = journal.claim, success
    transition = _as_save(transition_of_success(journal, sent, participants), journal.saves)
    pending.sent = changes, transition
    return claim.statements.as_action(transition, claim.task.task_id)


def _as_save(success: Transition, number: int) -> Transition:
    success.name = "commit"
    success.add(when.later_save(), saves=number)
    return success


def _found_after(journal: Journal[T], pending: PendingSuccess, unapplied: Unapplied) -> T | None:
    """Find out whether a success was applied. Return the row if the success has to be built again from it."""
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
    now = _as_save(transition_of_success(journal, success.assigned, register.at_success(journal, row)), journal.saves)
    return None if now.requires_same(success) else row
