"""What a run does while it holds the lock: make it longer, and save progress."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.transport import Refused
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.commits import decide
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.overflow_writes import next_version
from pynamodb_tracker.transitions.refusals import is_held_by, lost
from pynamodb_tracker.transitions.statements import StepWrites, get
from pynamodb_tracker.transitions.user_attributes import own_values
from pynamodb_tracker.transitions.value_checks import storable_changes, storing

__all__ = ["extend", "save"]

T = TypeVar("T", bound=TaskRow)


def extend(writes: StepWrites[T], lock: Lock[T], lock_for: timedelta) -> None:
    """Move the end of the lock to `lock_for` from now; never backwards. LockLostError if the row has moved on."""
    task_id = lock.task.task_id
    expire = clock.now() + lock_for
    try:
        writes.send(writes.extend, task_id, until=lock.expire_time, token=lock.token, expire=clock.stamp(expire))
    except Refused:
        row = get(writes.model, task_id, until=lock.expire_time)
        if row is None or not is_held_by(row, writes.codes, [lock.token]):
            raise lost(lock.task, writes.codes.step, "extend the lock of", row) from None
        expire = row.lock_expire_time  # it ends later already, or a repeated request met its own success
    lock.extended(expire)


def save(writes: StepWrites[T], lock: Lock[T]) -> None:
    """Store what the block changed so far; no request where nothing changed. LockLostError if the row moved on."""
    task_id = lock.task.task_id
    decide(writes, lock)
    changes = storable_changes(lock.task)
    if not changes:
        return
    sent = next_version(writes, lock, changes)
    until, saves, values = lock.expire_time, str(lock.saves), own_values(sent)
    try:
        with storing(lock.task, sent):
            lock.unsure = changes, sent
            writes.send(writes.save(sent), task_id, until=until, token=lock.token, saves=saves, **values)
    except Refused:
        row = get(writes.model, task_id, until=until)
        if row is None or not is_held_by(row, writes.codes, [lock.token]) or row.saves < lock.saves:
            raise lost(lock.task, writes.codes.step, "save", row) from None
    lock.stored(changes, sent)
