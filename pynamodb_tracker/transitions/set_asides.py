"""What is done to a task from outside of a run: reopen, ignore, and setting aside what has no attempt left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from pynamodb.constants import MAP
from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.dynamodb.transport import Refused
from pynamodb_tracker.exceptions import TaskNotReadyError
from pynamodb_tracker.failure import Failure, scrubbed
from pynamodb_tracker.model.damaged import load_leniently
from pynamodb_tracker.model.failure_log import fits, for_row, in_row, text_of
from pynamodb_tracker.model.overflow import Pointer
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.overflow_retention import expire, expire_again, keep
from pynamodb_tracker.transitions.overflow_writes import put_errors_of_order
from pynamodb_tracker.transitions.prepared import PreparedWrite, seen_values
from pynamodb_tracker.transitions.refusals import is_abandoned, not_found, refusal
from pynamodb_tracker.transitions.statements import StepWrites, get
from pynamodb_tracker.transitions.token import new_token
from pynamodb_tracker.worker_name import this_worker

__all__ = ["ignore", "reopen", "spend"]

T = TypeVar("T", bound=TaskRow)

_TRIES = 4

log = logging.getLogger("pynamodb_tracker")


def reopen(writes: StepWrites[T], task_id: str) -> T:
    """Make a failed or ignored task pending with a fresh set of attempts, and return it; a pending one stays."""
    codes, order, token = writes.codes, f"reopen {writes.codes.step} of", new_token()
    write, kept = writes.reopen, False
    try:
        for _ in range(_TRIES):
            moved = writes.moved(codes.pending, task_id, clock.now())
            try:
                answer = writes.send(write, task_id, token=token, **moved)
            except Refused:
                row = get(writes.model, task_id)
            else:
                kept = False
                return load_leniently(writes.model, answer["Attributes"])
            if row is None:
                raise not_found(writes, task_id, order)
            if row.status == codes.pending:
                return row
            if row.status not in (codes.failed, codes.ignored):
                raise refusal(writes, row, order)
            token = new_token(above=row.lock)
            if row.expire_time is not None:
                kept, write = True, writes.reopen_ended
                keep(writes.model, row, token, order)
        raise _moving(writes, task_id, order)
    finally:
        if kept:
            expire_again(writes.model, task_id)


def ignore(writes: StepWrites[T], task_id: str, reason: str) -> T:
    """Set a waiting or abandoned task aside, the reason kept in `errors`, and return it; an ignored one stays."""
    codes, order = writes.codes, f"ignore {writes.codes.step} of"
    for _ in range(_TRIES):
        row, now = get(writes.model, task_id), clock.now()
        if row is None:
            raise not_found(writes, task_id, order)
        if row.status == codes.ignored:
            return row
        if row.status not in (codes.pending, codes.failed) and not is_abandoned(row, codes, now):
            raise refusal(writes, row, order)
        if ignored := _set_aside(writes, writes.ignore, row, now, reason):
            return ignored
    raise _moving(writes, task_id, order)


def spend(writes: StepWrites[T], row: T, now: datetime) -> T | None:
    """Set a task aside whose attempts are used up, and return it; None where it is no longer as it was seen."""
    abandoned = row.status == writes.codes.in_progress
    ended = ", the last one by a worker that died or lost its lock" if abandoned else ""
    reason = f"{row.attempt} of {writes.max_attempts} attempts are used{ended}"
    return _set_aside(writes, writes.spend_abandoned if abandoned else writes.spend, row, now, reason)


def _set_aside(
    writes: StepWrites[T], write: Callable[..., PreparedWrite], row: T, now: datetime, reason: str
) -> T | None:
    codes, token = writes.codes, new_token(above=row.lock)
    failure = Failure(
        codes.step, row.attempt, now, this_worker(), codes.own[codes.ignored], scrubbed(reason, row.redact)
    )
    pointer = _beside(writes, row, token, failure)
    lies_beside = pointer is not None or row.attribute_values.get("errors_beside") is not None
    request = {
        "token": token,
        **seen_values(row),
        "now_plus_margin": clock.stamp(now + row.tracker.margin),
        "now_minus_margin": clock.stamp(now - row.tracker.margin),
        "errors": for_row([*in_row(row), failure], beside=lies_beside),
        "errors_beside": pointer and pointer.stored()[MAP],
        "last_error": failure.one_line,
        **writes.moved(codes.ignored, row.task_id, now),
    }
    prepared = write(beside=pointer is not None)
    try:
        return _applied(writes, prepared, row, request)
    except PynamoDBConnectionError as refused:
        if not is_invalid(refused):
            raise
    return _applied(writes, prepared, row, request | {"errors": [], "last_error": failure.type})  # the row has no room


def _beside(writes: StepWrites[T], row: T, token: str, failure: Failure) -> Pointer | None:
    """Put all failures beside a row that has no room for one more; the best effort, as that of a failing run."""
    if fits(row, [*in_row(row), failure]):
        return None
    try:
        failures = [*row.errors, failure]
        return None if fits(row, failures) else put_errors_of_order(writes, row, token, text_of(failures))
    except PynamoDBException as unheard:
        log.warning("the last errors of %s %r are cut to fit the row: %s", type(row).__name__, row.task_id, unheard)
        return None


def _applied(writes: StepWrites[T], write: PreparedWrite, row: T, request: Mapping[str, Any]) -> T | None:
    try:
        ended = load_leniently(writes.model, writes.send(write, row.task_id, **request)["Attributes"])
    except Refused:
        return None
    expire(writes, ended)
    return ended


def _moving(writes: StepWrites[T], task_id: str, order: str) -> TaskNotReadyError:
    return TaskNotReadyError(
        f"cannot {order} {writes.model.__name__} {task_id!r}: it changed {_TRIES} times meanwhile; try again",
        task_id=task_id,
    )
