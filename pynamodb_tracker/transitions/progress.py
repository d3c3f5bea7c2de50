"""What a run writes while it holds the lock: its extension, saved progress, and the user's own transactions.

A transaction is applied only while the lock is held, with or without the run's success. It counts as a save of the run,
which leaves a trace in the row: if the answer got lost, one GetItem decides whether the transaction was applied. After
another save, without content, late copies of it are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.transact_write import transact_write
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model.changes import raise_if_invalid, storable_changes
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.company import Action
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.overflow_writes import needs_chunks, put_next_version
from pynamodb_tracker.transitions.refusals import is_held_by, lost
from pynamodb_tracker.transitions.statements import get
from pynamodb_tracker.transitions.success import read_row, settle_unknown_writes, unknown_outcome

if TYPE_CHECKING:
    from pynamodb.transactions import TransactWrite

T = TypeVar("T", bound=TaskRow)

_UNKNOWN = "an earlier try of it got no answer: it may have been applied before, and that cannot be found out"


def extend(lock: Lock[T], lock_for: timedelta) -> None:
    """Move the expiry of the lock to `lock_for` from now; never back. Raises LockLostError if it is lost."""
    statements, task_id, until = lock.statements, lock.task.task_id, lock.expire_time
    expire = clock.now() + lock_for
    try:
        statements.send(statements.extend(lock.token, expire), task_id, until=until)
    except Refused:
        row = get(statements.model, task_id, until=until)
        if row is None or not is_held_by(row, statements.codes, [lock.token]):
            raise lost(lock, "extend the lock of", row) from None
        expire = row.lock_expire_time  # it expires later already, or a repeated request met its own success
    lock.extended(expire)


def save(lock: Lock[T]) -> None:
    """Store what the block changed so far; no request if nothing changed. Raises LockLostError."""
    settle_unknown_writes(lock)
    changes = sent = storable_changes(lock.task)
    if not changes:
        return
    statements, task_id, until = lock.statements, lock.task.task_id, lock.expire_time
    if needs_chunks(lock, changes):
        sent = put_next_version(lock, changes)
    else:
        lock.saves += 1
    try:
        lock.unsure = changes, sent
        statements.send(statements.save(lock.token, lock.saves, sent), task_id, until=until)
    except PynamoDBConnectionError as error:
        raise_if_invalid(lock.task, sent, error)
        raise
    except Refused:
        row = get(statements.model, task_id, until=until)
        if row is None or not is_held_by(row, statements.codes, [lock.token]) or row.saves < lock.saves:
            raise lost(lock, "save", row) from None
    lock.mark_saved(changes, sent)


def commit(lock: Lock[T], actions: Sequence[Action]) -> None:
    """Apply the user's writes together while the lock is held.

    Raises LockLostError if the lock is lost, otherwise PynamoDB's TransactWriteError. Then nothing was applied, unless
    a note on the error says so.
    """
    settle_unknown_writes(lock)
    lock.saves += 1
    number = lock.saves
    check = lock.statements.save(lock.token, number)
    check.name = "check"
    own = lock.statements.as_action(check, lock.task.task_id)
    unapplied = transact_write(lock.statements.table, [own, *actions], lock=lock)  # its reason is the first one then
    if unapplied is None:
        return
    try:
        if (unapplied.refused or unapplied.unheard) and _was_applied(lock, number, unheard=unapplied.unheard):
            return
    except LockLostError as error:
        if unapplied.unheard:
            error.add_note(f"pynamodb_tracker: {_UNKNOWN}")
        raise error from unapplied.error
    except PynamoDBConnectionError as unknown:
        raise unknown_outcome(unapplied, unknown) from unknown
    raise unapplied.error


def check_in(lock: Lock[T], transaction: TransactWrite) -> None:
    """Put the check that the lock is held before all other actions of a user's own transaction."""
    held = (TaskRow.lock == lock.token) & when.at(lock.statements.codes.in_progress).condition
    transaction.condition_check(lock.statements.model, lock.task.task_id, lock.task.use_case_id, condition=held)
    checks = transaction._condition_check_items  # noqa: SLF001 - its place distinguishes it from the user's own checks
    checks.insert(0, checks.pop())


def _was_applied(lock: Lock[T], number: int, *, unheard: bool) -> bool:
    """Return whether the row has counted that save of this run; if not, make sure that copies still on their way fail.

    A copy that arrives after the read makes `_keep_out` fail, and the next read finds it. Raises LockLostError if
    another run has the row.
    """
    saves = _saves_in_row(lock)
    while unheard and saves < number and not _keep_out(lock, saves):
        saves = _saves_in_row(lock)
    return saves == number


def _keep_out(lock: Lock[T], seen: int) -> bool:
    """Count one more save if the row still has the number that was read, so that late copies of earlier saves fail.

    Return False if the row has counted another save since, which may have been this one, sent twice.
    """
    lock.saves += 1
    keep_out = lock.statements.keep_out(lock.token, lock.saves, seen)
    try:
        lock.statements.send(keep_out, lock.task.task_id, until=lock.expire_time)
    except Refused:
        return False
    return True


def _saves_in_row(lock: Lock[T]) -> int:
    row = read_row(lock)
    if row is None or not is_held_by(row, lock.statements.codes, [lock.token]):
        raise lost(lock, "commit a transaction of", row)
    return row.saves
