"""Ending a run: succeed, fail, release. A finish is repeated until it landed, was lost, or the lock ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.connection import Refused, backoff, is_invalid, is_passing
from pynamodb_tracker.failure import ErrorsAttribute, Failure
from pynamodb_tracker.model import TaskRow, saved
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.prepared import PreparedWrite
from pynamodb_tracker.transitions.refusals import lost
from pynamodb_tracker.transitions.storable import storable_changes, storing
from pynamodb_tracker.transitions.writes import StepWrites, get, own_values

__all__ = ["fail", "release", "succeed"]

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")

_KEPT_FENCES = 8
"""How many claims that never finished a row remembers; an older one counts as lost."""


def succeed(writes: StepWrites[T], lock: Lock[T]) -> None:
    """Record the success and what the block changed, both or neither.

    ValueNotStorableError where a value is what keeps it from being recorded: the attempt is then to be failed.
    """
    changes = storable_changes(lock.task)
    with storing(lock.task, changes):
        moved = _finish(writes, lock, writes.succeed(changes), writes.codes.succeeded, attempt=0, **own_values(changes))
    saved(lock.task, changes)
    lock.task.attribute_values.update(moved, last_error=None)


def fail(writes: StepWrites[T], lock: Lock[T], error: BaseException, *, delay: timedelta, final: bool) -> None:
    """Record the failure: the next attempt may start after `delay`, or none will where it is `final`."""
    now, task = clock.now(), lock.task
    final = final or lock.attempt >= writes.max_attempts
    failure = Failure.of(error, step=writes.codes.step, attempt=lock.attempt, time=now, worker=task.worker)

    def record(errors: list[Failure], last_error: str) -> None:
        moved = _finish(
            writes,
            lock,
            writes.give_up if final else writes.fail,
            writes.codes.ignored if final else writes.codes.failed,
            attempt=lock.attempt,
            due=now if final else _later(now, delay),
            now=now,
            errors=ErrorsAttribute().serialize(errors),
            last_error=last_error,
        )
        task.attribute_values.update(moved, errors=errors, last_error=last_error)

    try:
        record([*task.errors, failure], failure.one_line)
    except PynamoDBConnectionError as refused:
        if not is_invalid(refused):
            raise
        record([], failure.type)  # the row has no room for the record; that the attempt failed is still said


def release(writes: StepWrites[T], lock: Lock[T]) -> None:
    """Give the attempt back: the task is pending at this step, at once, whatever state it was started from."""
    moved = _finish(writes, lock, writes.release, writes.codes.pending, attempt=lock.attempt - 1)
    lock.task.attribute_values.update(moved)


def _later(now: datetime, delay: timedelta) -> datetime:
    try:
        return now + delay
    except OverflowError:
        return datetime.max.replace(tzinfo=now.tzinfo)


def _finish(
    writes: StepWrites[T],
    lock: Lock[T],
    write: PreparedWrite,
    code: int,
    *,
    attempt: int,
    now: datetime | None = None,
    due: datetime | None = None,
    **values: Any,
) -> Mapping[str, Any]:
    """Send a finish until it has landed; return what it made of the row.

    Full jitter between two tries, until the lock ends, and at least one try: a finish after the end of the lock
    is good while nobody else has taken the task. LockLostError only where the row proves it.
    """
    now = now or clock.now()
    due = max(now, due or now)
    unfinished = lock.unfinished[-_KEPT_FENCES:]
    request = {
        "token": lock.token,
        "attempt": str(attempt),
        "unfinished": [{"N": str(fence)} for fence in unfinished],
        **writes.moved(code, lock.task.task_id, now, due),
        **values,
    }
    for pause in backoff():
        try:
            _send(writes, lock, write, request)
            break
        except PynamoDBConnectionError as error:
            left = (lock.expire_time - clock.now()).total_seconds()
            if is_invalid(error):
                raise
            if not is_passing(error) or left <= (pause or 0):
                _leave(lock, writes.codes.step, code, error)
                raise
            clock.sleep(pause or 0)
    return {"status": code, "attempt": attempt, "due_time": due, "update_time": now, "unfinished": unfinished}


def _send(writes: StepWrites[T], lock: Lock[T], write: PreparedWrite, request: Mapping[str, Any]) -> None:
    try:
        writes.send(write, lock.task.task_id, **request)
    except Refused:
        row = get(writes.model, lock.task.task_id)
        if not _landed(lock, row):
            raise lost(lock.task, writes.codes.step, "finish", row) from None


def _landed(lock: Lock[T], row: T | None) -> bool:
    """Tell whether a refused finish had been applied before, its answer lost.

    Token and status cannot tell: after it landed, another worker may hold the next step, or this one again.
    """
    if row is None or row.create_time != lock.create_time:
        return False
    fences = row.unfinished or []
    forgotten = len(fences) >= _KEPT_FENCES and lock.fence < min(fences)
    return lock.fence not in fences and not forgotten


def _leave(lock: Lock[T], step: str, code: int, error: PynamoDBConnectionError) -> None:
    """Say what a finish without an answer means: it may have been applied, and nobody knows."""
    task = lock.task
    told = (
        f"the end of {step} of {type(task).__name__} {task.task_id!r} (attempt {lock.attempt}) got no answer that says "
        f"it was recorded as code {code}; it may still be. If not, the task is taken over after {lock.expire_time}"
    )
    error.add_note(told)
    log.error("%s: %s", told, error, extra={"task_id": task.task_id, "step": step, "attempt": lock.attempt})
