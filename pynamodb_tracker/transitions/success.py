"""Recording a success: alone, or together with other writes, and with what was asked for while the task ran.

A success in a transaction counts as a save of the run. So if its answer got lost, another save finds out what became of
it, and refuses late copies of it, before anything else is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from pynamodb.constants import STRING
from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.backoff import jittered_pause
from pynamodb_tracker.dynamodb.connection import slept_before
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.dynamodb.transact_write import Unapplied
from pynamodb_tracker.exceptions import LockLostError, TrackerError, ValueNotStorableError
from pynamodb_tracker.model.changes import (
    Changes,
    close,
    mark_saved,
    raise_if_invalid,
    read_again,
    storable_changes,
)
from pynamodb_tracker.model.row import Membership, TaskRow, membership_of
from pynamodb_tracker.status import END
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.company import Action, Companion, send_together
from pynamodb_tracker.transitions.finishes import (
    AskedMeanwhile,
    finished,
    has_landed,
    note_unknown_end,
    send_until_landed,
    wait_before_retry,
)
from pynamodb_tracker.transitions.lock import Lock, PendingSuccess, SentSuccess
from pynamodb_tracker.transitions.overflow_retention import expire
from pynamodb_tracker.transitions.overflow_writes import needs_chunks, put_next_version, settle
from pynamodb_tracker.transitions.refusals import is_held_by, lost
from pynamodb_tracker.transitions.statements import get
from pynamodb_tracker.transitions.transition import Transition

T = TypeVar("T", bound=TaskRow)

_AT_ONCE = 3
"""How many times a success is sent again at once, with the row that was found, because it was asked for meanwhile."""

_DECIDE_WITHIN = timedelta(seconds=5)
"""How long the row is read after the lock has expired without an answer."""


def succeed(lock: Lock[T]) -> None:
    """Record the success and what the block changed, both or neither, and its company with them.

    Raises ValueNotStorableError if a value cannot be stored; the caller then records a failure.
    """
    changes, sent = _changes_to_send(lock)
    if company := company_of_success(lock):
        try:
            for companion in company:
                companion.prepare(lock)
            pending = lock.pending_success = lock.pending_success or PendingSuccess(of_block=False)
            _succeed_together(lock, pending, (changes, sent), company)
        except PynamoDBException as error:
            if isinstance(error, TransactWriteError) and is_invalid(error):
                raise _invalid_together(lock, error) from error
            note_unknown_end(lock, lock.statements.codes.succeeded, error)
            raise
        return
    _note_success(lock, SentSuccess(changes, _succeed_alone(lock, sent)))


def _invalid_together(lock: Lock[T], error: TransactWriteError) -> ValueNotStorableError:
    """Return the error of a success that DynamoDB refuses because of a value in it, or in what is created with it."""
    reasons = "; ".join(reason.message for reason in error.cancellation_reasons if reason and reason.message)
    return ValueNotStorableError(
        f"DynamoDB refused the success of {lock.step} of {type(lock.task).__name__} {lock.task.task_id!r} because of a "
        f"value in it, or in what is created with it: {reasons or error.cause_response_message}",
        task_id=lock.task.task_id,
    )


def commit_success(lock: Lock[T], pending: PendingSuccess, actions: Sequence[Action]) -> None:
    """Apply the user's writes, the success, and what the block changed together; raises as `commit` does."""
    if lock.expects_answer:
        raise TrackerError(
            f"{lock.step} of {lock.task.task_id!r} stores its answer, which has to be known before a transaction "
            "records the success: call ctx.store_answer(...) before the transaction is committed"
        )
    settle_unknown_writes(lock)
    changes = sent = _changes_of_success(lock)
    if needs_chunks(lock, changes):
        sent = put_next_version(lock, changes)
    _succeed_together(lock, pending, (changes, sent), company_of_success(lock), actions)


def company_of_success(lock: Lock[T]) -> list[Companion]:
    """Return what is written together with the success of this run.

    Raises ValueNotStorableError if the block has changed the data of its group to something that cannot be stored.
    """
    stored, company = lock.task._row_state.stored, lock.company
    if ("group" in stored or company) and (groups := _groups_of_success(lock)) is not None:
        company = [groups, *company]
    if "parent" in stored and lock.statements.codes.succeeded == END:
        from pynamodb_tracker.transitions.joins import Parent  # noqa: PLC0415 - few tasks have a parent

        company = [*company, Parent(lock.task, lock)]
    return company


def _groups_of_success(lock: Lock[T]) -> Companion | None:
    """Return what a success changes in the task's group: its data, and whose turn it is after the last step."""
    from pynamodb_tracker.transitions.groups import Groups  # noqa: PLC0415 - few tasks are in a group

    task, groups = lock.task, Groups(lambda: lock.expire_time)
    ends = lock.statements.codes.succeeded == END and membership_of(task) is not Membership.NONE
    groups.follow_ups = lambda: (entrant for each in lock.company for entrant in each.entrants())
    data = None if lock.group is None else lock.group.changed()
    if data is not None:
        change = groups.of(type(task), task.group)
        change.data, change.holder = data, task.task_id
    if ends:
        groups.leave(task)
    return groups if ends or data is not None or any(groups.follow_ups()) else None


def transition_of_success(lock: Lock[T], sent: Changes, found: TaskRow | None = None) -> Transition:
    """Return what the success does to the row; `sent` is what the block has changed.

    `found` is the row, if a success was refused because somebody has asked for another run meanwhile, or because the
    last task that it waited for has ended.
    """
    statements = lock.statements
    success = statements.finish("succeed", lock.token, statements.codes.succeeded)
    if success.code == END:
        _add_end(lock, success, found)
    elif lock.company:
        from pynamodb_tracker.transitions.joins import waiting  # noqa: PLC0415 - few tasks wait for others

        waiting(lock, found, success)
    success.assigned = sent
    return finished(lock, success, clock.now(), 0, last_error=None, release_count=None)


def _add_end(lock: Lock[T], success: Transition, found: TaskRow | None) -> None:
    """Let the success of the last step lead to the end, to the next turn, or to what was asked for meanwhile."""
    task, again, following = lock.task, None if found is None else found.again, None
    if task.repeat is not None or (again is not None and again.repeat is not None):
        from pynamodb_tracker.transitions.repeats import after_success  # noqa: PLC0415 - few tasks repeat

        following = after_success(task, clock.now(), again)
    elif again is not None:
        from pynamodb_tracker.transitions.repeats import Turn, begun_again  # noqa: PLC0415 - few tasks are asked again

        following = begun_again(task, Turn(again.due_time, {}))
    if following is not None:
        success.code, success.due, success.expires = following.code, following.due, following.expires
        success.values, success.changes = following.values, following.changes
    if again is None:
        success.add(when.nothing_asked())
    else:
        success.add(when.asked_as_seen(), seen={"seen_asked": str(cast("TaskRow", found).asked)}, again=None)
        success.changes = {**success.changes, **again.changes(lock.statements.model.tracker.own_attributes)}
        if again.asks_for_run and (again.trace or "trace" in task._row_state.stored):
            trace: Any = TaskRow.trace, None if again.trace is None else {STRING: again.trace}
            success.changes = {**success.changes, "trace": trace}
    if "parent" in task._row_state.stored:
        success.add(parent=None)


def _changes_to_send(lock: Lock[T]) -> tuple[Changes, Changes]:
    """Return what the block changed, and the same as it is sent: with large data stored before, and a pointer to it."""
    retries = 0
    while lock.success is None:
        try:
            if lock.unsure is not None:
                settle(lock)
            try:
                changes = sent = _changes_of_success(lock)
            except ValueNotStorableError as unstorable:
                changes = sent = _changes_after_interrupt(lock, unstorable)
            if needs_chunks(lock, changes):
                sent = put_next_version(lock, changes)
            lock.success = changes, sent
        except PynamoDBConnectionError as error:
            wait_before_retry(lock, lock.statements.codes.succeeded, error, retries)
            retries += 1
    return lock.success


def _changes_after_interrupt(lock: Lock[T], unstorable: ValueNotStorableError) -> Changes:
    """Serialize the user's values a second time; raise the error again if it was a value that raised it.

    An exception that a signal handler raises in the meantime looks like one of the value, but only the first time.
    """
    interrupt = unstorable.__cause__
    if interrupt is None:
        raise unstorable
    try:
        changes = _changes_of_success(lock)
    except ValueNotStorableError:
        raise unstorable from interrupt
    lock.interrupt = interrupt
    return changes


def _changes_of_success(lock: Lock[T]) -> Changes:
    """Return what is stored with the success: what the block changed, and its answer in place of an earlier one."""
    attribute, text = lock.statements.answer, lock.answer
    if text is None and attribute.attr_name not in lock.task._row_state.stored:
        return storable_changes(lock.task)
    return storable_changes(lock.task, {attribute.attr_name: (attribute, None if text is None else {STRING: text})})


def _succeed_alone(lock: Lock[T], sent: Changes) -> Transition:
    """Send the success in an update of its own, with what was asked for meanwhile if there is any, and return it."""
    success, retries = transition_of_success(lock, sent), 0
    while True:
        try:
            send_until_landed(lock, success)
        except AskedMeanwhile as asked:
            success, retries = transition_of_success(lock, sent, _row_to_take_in(lock, asked.row, retries)), retries + 1
        except PynamoDBConnectionError as error:
            raise_if_invalid(lock.task, sent, error)
            raise
        else:
            return success


def _succeed_together(
    lock: Lock[T],
    pending: PendingSuccess,
    success: tuple[Changes, Changes],
    company: Sequence[Companion],
    more: Sequence[Action] = (),
) -> None:
    """Send the success in a transaction, with its company and `more` writes of the user's."""
    found, retries = None, 0
    while not pending.recorded:
        lock.saves += 1
        build = partial(_own_action, lock, pending, success, found)
        unapplied = send_together(lock.statements.table, build, company, more=more, lock=lock)
        if unapplied is None:
            _end_as_success(lock, pending, cast("SentSuccess", pending.sent))
        elif unapplied.refused or unapplied.unheard:
            found = _found_after(lock, pending, unapplied)
            if found is not None:
                found = _row_to_take_in(lock, found, retries)
            elif not pending.recorded:
                raise unapplied.error
        else:
            pending.sent = None
            raise unapplied.error
        retries += 1
    lock.ended_with = company


def _own_action(lock: Lock[T], pending: PendingSuccess, success: tuple[Changes, Changes], found: T | None) -> Action:
    """Return the success as the first action of a transaction; `pending` remembers what it does."""
    changes, sent = success
    transition = transition_of_success(lock, sent, found)
    transition.name = "commit"
    transition.add(when.later_save(), saves=lock.saves)
    pending.sent = SentSuccess(changes, transition)
    return lock.statements.as_action(transition, lock.task.task_id)


def _found_after(lock: Lock[T], pending: PendingSuccess, unapplied: Unapplied) -> T | None:
    """Find out what became of a success; return the row if it is to be sent once more, in another form."""
    sent = pending.sent
    try:
        row = _decide(lock, pending)
    except LockLostError as error:
        raise error from unapplied.error
    except PynamoDBConnectionError as unknown:
        raise unknown_outcome(unapplied, unknown) from unknown
    if not unapplied.refused or row is None:
        return None
    waited = sent is not None and when.waits_for_others() in sent.transition.guards
    changed = {"again"} & row._row_state.stored.keys() or (waited and "waits" not in row._row_state.stored)
    return row if changed else None


def _row_to_take_in(lock: Lock[T], row: TaskRow, retries: int) -> T | None:
    """Return the row that a success takes into account: the one that was found, or a newer one after a pause.

    While others keep asking, a row that was read before the pause is an old one. None if another worker or command has
    taken it, which the next write finds out.
    """
    if retries < _AT_ONCE:
        return cast("T", row)
    if not slept_before(lock.expire_time, jittered_pause(retries - _AT_ONCE)):
        raise LockLostError(
            f"cannot finish {lock.step} of {lock.task.task_id!r}: it was asked for again {retries + 1} times while its "
            f"success was being recorded, and its lock expires at {lock.expire_time}; nothing was recorded, so it runs "
            "again",
            task_id=lock.task.task_id,
        )
    found = read_row(lock)
    return found if found is not None and is_held_by(found, lock.statements.codes, [lock.token]) else None


def settle_unknown_writes(lock: Lock[T]) -> None:
    """Find out, before more is written, what became of an earlier write that got no answer.

    Raises LockLostError if this shows that the success is on record.
    """
    if lock.pending_success is not None:
        settle_success(lock, lock.pending_success)
    if lock.unsure is not None:
        settle(lock)
    if lock.pending_success is not None and lock.pending_success.recorded:
        raise LockLostError(
            f"{lock.step} of {lock.task.task_id!r} has ended: a transaction of this run, whose answer got lost, has "
            "recorded the success, and the lock was released with it",
            task_id=lock.task.task_id,
        )


def settle_success(lock: Lock[T], pending: PendingSuccess) -> None:
    """Find out what became of a success in a transaction that got no answer; retried until the lock expires."""
    retries = 0
    while pending.sent is not None:
        try:
            _decide(lock, pending)
        except PynamoDBConnectionError as error:
            wait_before_retry(lock, lock.statements.codes.succeeded, error, retries)
            retries += 1


def read_row(lock: Lock[T]) -> T | None:
    """Read the row, and go on for a while after the lock has expired: what became of a write must be known."""
    until: datetime = max(lock.expire_time, clock.now() + _DECIDE_WITHIN)
    return get(lock.statements.model, lock.task.task_id, until=until)


def unknown_outcome(unapplied: Unapplied, unknown: PynamoDBConnectionError) -> TransactWriteError:
    """Return the error of a transaction that may have been applied, which cannot be found out."""
    unapplied.error.add_note(f"pynamodb_tracker: it may have been applied, and the row cannot be read: {unknown}")
    return unapplied.error


def _decide(lock: Lock[T], pending: PendingSuccess) -> T | None:
    """End the run as a success if the row shows it; otherwise refuse late copies of it, and return the row."""
    success, row = pending.sent, read_row(lock)
    if row is not None and is_held_by(row, lock.statements.codes, [lock.token]):
        try:
            settle(lock)
        except LockLostError as proof:
            row = proof.task  # type: ignore[assignment]  # it is of the class of the row
        else:
            pending.sent = None
            return row
    if success is None or not has_landed(lock, row):
        pending.sent = None
        raise lost(lock, "commit a transaction of" if pending.of_block else "finish", row)
    _end_as_success(lock, pending, success)
    return None


def _end_as_success(lock: Lock[T], pending: PendingSuccess, success: SentSuccess) -> None:
    """Mark the run as ended with a recorded success: it writes nothing more."""
    lock.ended = pending.recorded = True
    pending.error = pending.sent = None
    _note_success(lock, success)
    if pending.of_block:
        close(lock.task)


def _note_success(lock: Lock[T], success: SentSuccess) -> None:
    """Let the task in memory be what its row is after the success."""
    task, transition = lock.task, success.transition
    lock.outcome = "succeeded"
    lock.mark_saved(success.changes, transition.assigned)
    transition.apply_to(task)
    if transition.changes:
        mark_saved(task, transition.changes, transition.changes)
        read_again(task, transition.changes)
    if lock.statements.has_expiry:
        expire(lock.statements, task)
