"""A transaction of the user's within a run: applied while the lock is held or not at all, with the success or without.

It counts as a save of the run. That leaves a trace in the row, by which one GET decides where the answer got lost; and
a save without content that is counted after it keeps a late copy of it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.transact_write import Unapplied, write_together
from pynamodb_tracker.dynamodb.transport import Refused
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model.row import TaskRow, close
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.finish_request import finish, landed
from pynamodb_tracker.transitions.finish_retry import patiently
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.overflow_retention import expire
from pynamodb_tracker.transitions.overflow_writes import next_version, settle
from pynamodb_tracker.transitions.pending_success import Promise, Success
from pynamodb_tracker.transitions.prepared import PreparedWrite
from pynamodb_tracker.transitions.refusals import is_held_by, lost
from pynamodb_tracker.transitions.statements import StepWrites, get
from pynamodb_tracker.transitions.user_attributes import own_values
from pynamodb_tracker.transitions.value_checks import storable_changes

if TYPE_CHECKING:
    from pynamodb.transactions import TransactWrite

__all__ = ["check_in", "commit", "commit_success", "decide", "settled"]

T = TypeVar("T", bound=TaskRow)

Action = Mapping[str, Any]

_DECIDE_WITHIN = timedelta(seconds=5)
"""How long the row is asked for after the lock has ended without an answer."""

_UNKNOWN = "an earlier try of it got no answer: it may have been applied before, and nothing tells"


def commit(writes: StepWrites[T], lock: Lock[T], actions: Sequence[Action]) -> None:
    """Apply the user's writes together while the lock is held.

    LockLostError where it is not, else PynamoDB's TransactWriteError; nothing was applied then, unless a note says so.
    """
    decide(writes, lock)
    lock.saves += 1
    number = lock.saves
    unapplied = _send(writes, lock, writes.check, {"token": lock.token, "saves": str(number)}, actions)
    if unapplied is None:
        return
    try:
        if (unapplied.refused or unapplied.unheard) and _was_applied(writes, lock, number, unheard=unapplied.unheard):
            return
    except LockLostError as error:
        if unapplied.unheard:
            error.add_note(f"pynamodb_tracker: {_UNKNOWN}")
        raise error from unapplied.error
    except PynamoDBConnectionError as unknown:
        raise _unknown(unapplied, unknown) from unknown
    raise unapplied.error


def commit_success(writes: StepWrites[T], lock: Lock[T], promise: Promise, actions: Sequence[Action]) -> None:
    """Apply the user's writes, the success, and what the block changed together; errors are as of `commit`."""
    decide(writes, lock)
    found = storable_changes(lock.task)
    sent = next_version(writes, lock, found)
    code = writes.codes.succeeded
    ending = finish(writes, lock, code, attempt=0, saves=str(lock.saves), **own_values(sent))
    success = promise.sent = Success(found, sent, ending.row)
    unapplied = _send(writes, lock, writes.commit(sent), ending.values, actions)
    if unapplied is None:
        _keep(writes, lock, promise, success)
    elif unapplied.refused or unapplied.unheard:
        _decide_now(writes, lock, promise, unapplied)
    else:
        promise.sent = None
        raise unapplied.error


def check_in(writes: StepWrites[T], lock: Lock[T], transaction: TransactWrite) -> None:
    """Put the check that the lock is held before all other actions of a transaction of the user's."""
    held = (TaskRow.lock == lock.token) & when.at(writes.codes.in_progress)
    transaction.condition_check(writes.model, lock.task.task_id, lock.task.use_case_id, condition=held)
    checks = transaction._condition_check_items  # noqa: SLF001 - its place tells it from the user's own checks
    checks.insert(0, checks.pop())


def decide(writes: StepWrites[T], lock: Lock[T]) -> None:
    """Find out, before more is written, what became of an earlier write that got no answer.

    LockLostError where the success is on record by now.
    """
    settled(writes, lock)
    if lock.unsure is not None:
        settle(writes, lock)
    if lock.promise is not None and lock.promise.kept:
        raise LockLostError(
            f"{writes.codes.step} of {lock.task.task_id!r} is over: a transaction of this run, whose answer got lost, "
            "has recorded the success, and the lock ended with it",
            task_id=lock.task.task_id,
        )


def settled(writes: StepWrites[T], lock: Lock[T]) -> None:
    """Find out what became of a success in a transaction that got no answer; patiently."""
    promise = lock.promise
    if promise is not None and promise.sent is not None:
        success = promise.sent
        patiently(lock, writes.codes, writes.codes.succeeded, lambda: _decide(writes, lock, promise, success))


def _decide_now(writes: StepWrites[T], lock: Lock[T], promise: Promise, unapplied: Unapplied) -> None:
    success = promise.sent
    if success is None:
        raise AssertionError("it was sent")
    try:
        _decide(writes, lock, promise, success)
    except LockLostError as error:
        raise error from unapplied.error
    except PynamoDBConnectionError as unknown:
        raise _unknown(unapplied, unknown) from unknown
    if not promise.kept:
        raise unapplied.error


def _unknown(unapplied: Unapplied, unknown: PynamoDBConnectionError) -> TransactWriteError:
    unapplied.error.add_note(f"pynamodb_tracker: it may have been applied, and the row cannot be asked: {unknown}")
    return unapplied.error


def _decide(writes: StepWrites[T], lock: Lock[T], promise: Promise, success: Success) -> None:
    """Keep the promise where the row says that it is; else make sure that no late copy is applied any more."""
    row = _row(writes, lock)
    if row is not None and is_held_by(row, writes.codes, [lock.token]):
        try:
            settle(writes, lock)
        except LockLostError as proof:
            row = proof.task  # type: ignore[assignment]  # it is of the class of the row
        else:
            promise.sent = None
            return
    if not landed(lock, row):
        promise.sent = None
        raise lost(lock.task, writes.codes.step, "commit a transaction of", row)
    _keep(writes, lock, promise, success)


def _keep(writes: StepWrites[T], lock: Lock[T], promise: Promise, success: Success) -> None:
    """Let the run end as a success."""
    lock.ended = promise.kept = True
    promise.broken_by = promise.sent = None
    lock.stored(success.changes, success.sent)
    lock.task.attribute_values.update(success.row, last_error=None)
    close(lock.task)
    expire(writes, lock.task)


def _send(
    writes: StepWrites[T], lock: Lock[T], write: PreparedWrite, values: Mapping[str, Any], actions: Sequence[Action]
) -> Unapplied | None:
    """Send the transaction, the row of the task first: so the place of it among the reasons of a refusal is known."""
    request = write.request(writes.model.tracker.key(lock.task.task_id), values)
    own = {"Update": {"TableName": writes.table.table_name, **request}}
    return write_together(writes.table, [own, *actions], until=lambda: lock.expire_time)


def _row(writes: StepWrites[T], lock: Lock[T]) -> T | None:
    until: datetime = max(lock.expire_time, clock.now() + _DECIDE_WITHIN)
    return get(writes.model, lock.task.task_id, until=until)


def _was_applied(writes: StepWrites[T], lock: Lock[T], number: int, *, unheard: bool) -> bool:
    """Tell whether the row has that save of this run; if not, keep out a copy of it that was not heard of.

    The row is fenced as it was seen: a copy that arrives between the look and the fence is found by another look.
    LockLostError where another run has the row.
    """
    saves = _saves(writes, lock)
    while unheard and saves < number and not _keep_out(writes, lock, saves):
        saves = _saves(writes, lock)
    return saves == number


def _keep_out(writes: StepWrites[T], lock: Lock[T], seen: int) -> bool:
    """Count a save in a row that has counted as many as were seen, so that no late copy of one is applied any more.

    False where the row has counted another meanwhile, which may have been this one, sent twice.
    """
    lock.saves += 1
    values = {"token": lock.token, "seen_saves": str(seen), "saves": str(lock.saves)}
    try:
        writes.send(writes.keep_out, lock.task.task_id, until=lock.expire_time, **values)
    except Refused:
        return False
    return True


def _saves(writes: StepWrites[T], lock: Lock[T]) -> int:
    row = _row(writes, lock)
    if row is None or not is_held_by(row, writes.codes, [lock.token]):
        raise lost(lock.task, writes.codes.step, "commit a transaction of", row)
    return row.saves
