"""What a run does while it holds the lock: extend it, and save progress."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.model.changes import is_too_large_for_row, raise_if_invalid, storable_changes
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.commits import settle_unknown_writes
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.overflow_writes import put_next_version
from pynamodb_tracker.transitions.refusals import is_held_by, lost
from pynamodb_tracker.transitions.statements import get, user_values

T = TypeVar("T", bound=TaskRow)


def extend(lock: Lock[T], lock_for: timedelta) -> None:
    """Move the expiry of the lock to `lock_for` from now; never back. Raises LockLostError if it is lost."""
    statements, task_id, until = lock.statements, lock.task.task_id, lock.expire_time
    expire = clock.now() + lock_for
    try:
        statements.send(statements.extend, task_id, until=until, token=lock.token, expire=clock.stamp(expire))
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
    if "data" in changes and is_too_large_for_row(statements.model, changes["data"][1]):
        sent = put_next_version(lock, changes)
    else:
        lock.saves += 1
    saves, values = str(lock.saves), user_values(sent)
    try:
        lock.unsure = changes, sent
        statements.send(statements.save(sent), task_id, until=until, token=lock.token, saves=saves, **values)
    except PynamoDBConnectionError as error:
        raise_if_invalid(lock.task, sent, error)
        raise
    except Refused:
        row = get(statements.model, task_id, until=until)
        if row is None or not is_held_by(row, statements.codes, [lock.token]) or row.saves < lock.saves:
            raise lost(lock, "save", row) from None
    lock.mark_saved(changes, sent)
