"""Why an order was refused: reads the row that the extra GET found, and says it in an error."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.exceptions import (
    LockLostError,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
    TaskNotStartableError,
)
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes
from pynamodb_tracker.transitions.statements import StepWrites

__all__ = [
    "holder",
    "is_abandoned",
    "is_due",
    "is_held_by",
    "is_startable",
    "lost",
    "not_due",
    "not_found",
    "not_startable",
    "refusal",
]

T = TypeVar("T", bound=TaskRow)


def is_due(row: TaskRow, now: datetime) -> bool:
    """Tell whether the task may start, leaning to yes by the margin."""
    return row.due_time <= now + row.tracker.margin


def is_abandoned(row: TaskRow, codes: Codes, now: datetime) -> bool:
    """Tell whether a worker left the task behind, leaning to no by the margin."""
    expire_time: datetime | None = row.lock_expire_time
    return row.status == codes.in_progress and expire_time is not None and expire_time < now - row.tracker.margin


def is_held_by(row: TaskRow, codes: Codes, tokens: Collection[str]) -> bool:
    """Tell whether the row is in progress, claimed with one of these tokens."""
    return row.lock in tokens and row.status == codes.in_progress


def is_startable(row: TaskRow, codes: Codes, now: datetime) -> bool:
    """Tell whether a claim would be taken, but for the attempts and the tokens."""
    waits = row.status in (codes.pending, codes.failed) and is_due(row, now)
    return waits or is_abandoned(row, codes, now)


def not_found(writes: StepWrites[T], task_id: str, order: str) -> TaskNotFoundError:
    """Return the error for a row that is not there."""
    name = writes.model.__name__
    return TaskNotFoundError(
        f"cannot {order} {name} {task_id!r}: there is no such task; write {name}.create({task_id!r}) first",
        task_id=task_id,
    )


def not_startable(writes: StepWrites[T], task_id: str, order: str) -> TaskNotStartableError:
    """Return the error of a refusal whose reason nobody asked for."""
    return TaskNotStartableError(
        f"cannot {order} {writes.model.__name__} {task_id!r}: refused; leave detailed_error=True to be told why",
        task_id=task_id,
    )


def refusal(writes: StepWrites[T], row: T, order: str) -> TaskNotStartableError:
    """Return the error that says why the row, as it was found, does not allow the order at this step."""
    codes, status = writes.codes, row.status
    told = f"cannot {order} {type(row).__name__} {row.task_id!r}: it is {row.tracker.name_of(row.status)}"
    kind: type[TaskNotStartableError]
    if status == codes.in_progress:
        kind = TaskLockedError
        told += f", attempt {row.attempt}, {holder(row)}"
    elif status >= codes.succeeded:
        kind = TaskAlreadySucceededError
        told += f", so {codes.step} is done; start takes also_from=(...) to run a finished step again"
    elif status == codes.ignored:
        kind = TaskIgnoredError
        why = f" ({row.last_error})" if row.last_error else ""
        told += f" since {row.update_time}{why}; reopen gives it a fresh set of attempts"
    elif status in (codes.pending, codes.failed):
        return not_due(writes, row, order)
    else:
        kind = TaskNotReadyError
        told += f", and {codes.step} comes after that"
    return kind(told, task_id=row.task_id, task=row)


def not_due(writes: StepWrites[T], row: T, order: str) -> TaskNotReadyError:
    """Return the error for a task that may start later."""
    told = f"it is {row.tracker.name_of(row.status)}, and due at {row.due_time}; try again then"
    return TaskNotReadyError(
        f"cannot {order} {writes.model.__name__} {row.task_id!r}: {told}",
        task_id=row.task_id,
        task=row,
    )


def holder(row: TaskRow) -> str:
    """Return who has the task in progress, and what that means for whoever wants it."""
    if row.lock_expire_time < clock.now() - row.tracker.margin:
        return f"left behind by {row.worker}, whose lock ended {row.lock_expire_time}; start takes it over"
    return f"held by {row.worker} until {row.lock_expire_time}; try again after that"


def lost(task: TaskRow, step: str, order: str, found: TaskRow | None) -> LockLostError:
    """Return the error of a run that the row proves to be over."""
    now_is = (
        f"it is {found.tracker.name_of(found.status)}, last claimed by {found.worker}"
        if found
        else "the task was deleted"
    )
    return LockLostError(
        f"cannot {order} {step} of {type(task).__name__} {task.task_id!r}: the lock of this run was lost, {now_is}; "
        "nothing of this run was recorded since. Take a longer lock_for, or extend_lock() in time",
        task_id=task.task_id,
        task=found,
    )
