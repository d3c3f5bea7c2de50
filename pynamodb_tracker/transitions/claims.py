"""Taking a task: one conditional UPDATE first; only when that is refused, a GET finds out why and what to do."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TypeVar

from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.error_codes import is_unheard
from pynamodb_tracker.dynamodb.transport import Refused
from pynamodb_tracker.exceptions import TaskError, TaskNotReadyError, TrackerError
from pynamodb_tracker.model.damaged import checked, load_leniently
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.finishes import fail, release
from pynamodb_tracker.transitions.lock import Lock
from pynamodb_tracker.transitions.overflow_retention import expire_again, keep
from pynamodb_tracker.transitions.prepared import PreparedWrite
from pynamodb_tracker.transitions.progress import extend
from pynamodb_tracker.transitions.refusals import (
    is_due,
    is_held_by,
    is_startable,
    not_due,
    not_found,
    not_startable,
    refusal,
)
from pynamodb_tracker.transitions.set_asides import spend
from pynamodb_tracker.transitions.statements import StepWrites, get
from pynamodb_tracker.transitions.token import new_token
from pynamodb_tracker.worker_name import this_worker

__all__ = ["claim"]

T = TypeVar("T", bound=TaskRow)

_TRIES = 4
_GIVE_BACK_WITHIN = timedelta(seconds=5)
"""How long the row is asked for after a claim without an answer: its caller has waited for long already."""


class _Tries:
    """The claims of one call."""

    __slots__ = ("in_doubt", "kept", "tokens")  # no dataclass: a cold start would pay for the making of it

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.in_doubt = False
        """Whether one of them may have locked the task, and nothing has told since."""
        self.kept = False
        """Whether what lies beside a finished task was kept for a claim from its end."""

    def may_hold(self, error: BaseException) -> bool:
        """Tell whether the task may be locked for nobody once this error leaves."""
        if isinstance(error, PynamoDBConnectionError):
            return self.in_doubt or is_unheard(error)
        return not isinstance(error, Exception)


def claim(
    writes: StepWrites[T],
    task_id: str,
    *,
    lock_for: timedelta,
    detailed: bool = True,
    also_from: Collection[int] = (),
) -> Lock[T]:
    """Take the task for `lock_for`, or raise why not; `also_from` are codes of further states to take it from."""
    tries = _Tries([new_token()])
    try:
        lock = _claim(writes, task_id, tries, lock_for, detailed=detailed, also_from=also_from)
        if lock.expire_time <= clock.now():  # the answer came late
            extend(writes, lock, lock_for)
    except BaseException as error:
        if tries.may_hold(error):
            error.add_note(f"pynamodb_tracker: {_given_back(writes, task_id, tries.tokens, lock_for)}")
        if tries.kept:
            expire_again(writes.model, task_id)
        raise
    return lock


def _claim(
    writes: StepWrites[T],
    task_id: str,
    tries: _Tries,
    lock_for: timedelta,
    *,
    detailed: bool,
    also_from: Collection[int],
) -> Lock[T]:
    order, write = f"start {writes.codes.step} of", writes.claim
    for _ in range(_TRIES):
        try:
            lock = _send(writes, write, task_id, tries.tokens[-1], lock_for)
        except Refused as refused:
            if not (detailed or refused.repeated or also_from):
                raise not_startable(writes, task_id, order) from None
        else:
            tries.in_doubt = True
            return _readable(writes, lock)
        tries.in_doubt = True
        row = get(writes.model, task_id)
        if row is None:
            raise not_found(writes, task_id, order)
        if is_held_by(row, writes.codes, tries.tokens):  # a repeated request met its own success
            return _readable(writes, Lock(row, row.lock))
        tries.in_doubt = False
        tries.tokens.append(new_token(above=row.lock))
        write = _next(writes, row, order, also_from)
        if row.status in also_from and row.expire_time is not None:
            tries.kept = True
            keep(writes.model, row, tries.tokens[-1], order)
    raise TaskNotReadyError(
        f"cannot {order} {writes.model.__name__} {task_id!r}: it changed hands {_TRIES} times meanwhile; try again",
        task_id=task_id,
    )


def _send(writes: StepWrites[T], write: PreparedWrite, task_id: str, token: str, lock_for: timedelta) -> Lock[T]:
    now = clock.now()
    expire, margin = now + lock_for, writes.model.tracker.margin
    answer = writes.send(
        write,
        task_id,
        until=expire,
        token=token,
        worker=this_worker(),
        max_attempts=str(writes.max_attempts),
        now_plus_margin=clock.stamp(now + margin),
        now_minus_margin=clock.stamp(now - margin),
        **writes.moved(writes.codes.in_progress, task_id, now, expire),
    )
    return Lock(load_leniently(writes.model, answer["Attributes"]), token)


def _readable(writes: StepWrites[T], lock: Lock[T]) -> Lock[T]:
    """Return the lock; where the row cannot be read, the attempt has failed."""
    try:
        checked(lock.task)
    except TaskError as unreadable:
        fail(writes, lock, unreadable, delay=timedelta(0), final=False)
        raise
    return lock


def _given_back(writes: StepWrites[T], task_id: str, tokens: Collection[str], lock_for: timedelta) -> str:
    """Release what a claim may have locked though its answer was not heard, and say what became of it."""
    task, now = f"{writes.model.__name__} {task_id!r}", clock.now()
    try:
        row = get(writes.model, task_id, until=now + _GIVE_BACK_WITHIN)
        if row is None or not is_held_by(row, writes.codes, tokens):
            return f"{task} was not locked by this call"
        release(writes, Lock(row, row.lock))
    except (PynamoDBException, TrackerError) as error:
        until = f"until {now + lock_for} at the latest"
        return f"{task} could not be given back: it may be locked for nobody {until}, then start takes it over: {error}"
    return f"{task} was locked by this call, and was given back"


def _next(writes: StepWrites[T], row: T, order: str, also_from: Collection[int]) -> PreparedWrite:
    """Return the write to try next after a refusal, or raise the reason of the refusal."""
    now = clock.now()
    if is_startable(row, writes.codes, now):
        if row.attempt >= writes.max_attempts and (spent := spend(writes, row, now)):
            raise refusal(writes, spent, order)
        return writes.claim  # its token was behind the row's, or it moved between the two requests
    if row.status in also_from:
        if is_due(row, now):
            return writes.claim_from(row.status)
        raise not_due(writes, row, order)
    raise refusal(writes, row, order)
