"""What is done to a task from outside of a run: reopen, ignore, and setting aside what has no attempt left."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.errors import for_row, in_row
from pynamodb_tracker.exceptions import TaskNotReadyError
from pynamodb_tracker.failure import Failure, scrubbed
from pynamodb_tracker.faults import is_invalid
from pynamodb_tracker.model import TaskRow
from pynamodb_tracker.readable import load_leniently
from pynamodb_tracker.sending import Refused
from pynamodb_tracker.token import new_token, this_worker
from pynamodb_tracker.transitions.prepared import PreparedWrite, seen_values
from pynamodb_tracker.transitions.refusals import is_abandoned, not_found, refusal
from pynamodb_tracker.transitions.retention import keep, kept_until
from pynamodb_tracker.transitions.writes import StepWrites, get

__all__ = ["ignore", "reopen", "spend"]

T = TypeVar("T", bound=TaskRow)

_TRIES = 4


def reopen(writes: StepWrites[T], task_id: str) -> T:
    """Make a failed or ignored task pending with a fresh set of attempts, and return it; a pending one stays."""
    codes, order, token = writes.codes, f"reopen {writes.codes.step} of", new_token()
    if writes.model.tracker.use_case.keep_for and (ended := get(writes.model, task_id)):
        kept_until(writes.model, ended, None)
    for _ in range(_TRIES):
        now = clock.now()
        try:
            moved = writes.moved(codes.pending, task_id, now)
            return load_leniently(writes.model, writes.send(writes.reopen, task_id, token=token, **moved)["Attributes"])
        except Refused:
            row = get(writes.model, task_id)
        if row is None:
            raise not_found(writes, task_id, order)
        if row.status == codes.pending:
            return row
        if row.status not in (codes.failed, codes.ignored):
            raise refusal(writes, row, order)
        token = new_token(above=row.lock)
    raise _moving(writes, task_id, order)


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


def _set_aside(writes: StepWrites[T], write: PreparedWrite, row: T, now: datetime, reason: str) -> T | None:
    codes = writes.codes
    failure = Failure(
        codes.step, row.attempt, now, this_worker(), codes.own[codes.ignored], scrubbed(reason, row.redact)
    )
    request = {
        "token": new_token(above=row.lock),
        **seen_values(row),
        "now_plus_margin": clock.stamp(now + row.tracker.margin),
        "now_minus_margin": clock.stamp(now - row.tracker.margin),
        "errors": for_row([*in_row(row), failure], beside=row.attribute_values.get("errors_beside") is not None),
        "last_error": failure.one_line,
        **writes.moved(codes.ignored, row.task_id, now),
    }
    try:
        return _applied(writes, write, row, request)
    except PynamoDBConnectionError as refused:
        if not is_invalid(refused):
            raise
    return _applied(writes, write, row, request | {"errors": [], "last_error": failure.type})  # the row has no room


def _applied(writes: StepWrites[T], write: PreparedWrite, row: T, request: Mapping[str, Any]) -> T | None:
    try:
        ended = load_leniently(writes.model, writes.send(write, row.task_id, **request)["Attributes"])
    except Refused:
        return None
    keep(writes, ended)
    return ended


def _moving(writes: StepWrites[T], task_id: str, order: str) -> TaskNotReadyError:
    return TaskNotReadyError(
        f"cannot {order} {writes.model.__name__} {task_id!r}: it changed {_TRIES} times meanwhile; try again",
        task_id=task_id,
    )
