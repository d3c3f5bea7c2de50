"""Transitions outside a run: reopen and ignore, by command; and spend, which ignores a task without attempts left."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.exceptions import TaskNotReadyError
from pynamodb_tracker.failure import Failure, scrubbed
from pynamodb_tracker.model.failure_log import failures_in_row, fits_row, for_row, has_log
from pynamodb_tracker.model.overflow import version_outside_run
from pynamodb_tracker.model.row import TaskRow, load
from pynamodb_tracker.transitions.conditions import seen_values
from pynamodb_tracker.transitions.lock import new_token
from pynamodb_tracker.transitions.overflow_retention import expire, expire_again, keep
from pynamodb_tracker.transitions.overflow_writes import log_failures
from pynamodb_tracker.transitions.prepared import PreparedWrite
from pynamodb_tracker.transitions.refusals import is_abandoned, not_found, refusal
from pynamodb_tracker.transitions.statements import StepStatements, get
from pynamodb_tracker.worker_name import this_worker

T = TypeVar("T", bound=TaskRow)

_TRIES = 4


def reopen(statements: StepStatements[T], task_id: str) -> T:
    """Make a failed or ignored task pending, with fresh attempts, and return it; a pending one is not changed."""
    codes, operation, token = statements.codes, f"reopen {statements.codes.step} of", new_token()
    write, kept = statements.reopen, False
    try:
        for _ in range(_TRIES):
            moved = statements.moved(codes.pending, task_id, clock.now())
            try:
                answer = statements.send(write, task_id, token=token, **moved)
            except Refused:
                row = get(statements.model, task_id)
            else:
                kept = False
                return load(statements.model, answer["Attributes"])
            if row is None:
                raise not_found(statements, task_id, operation)
            if row.status == codes.pending:
                return row
            if row.status not in (codes.failed, codes.ignored):
                raise refusal(statements, row, operation)
            token = new_token(above=row.lock)
            if row.expire_time is not None:
                kept, write = True, statements.reopen_ended
                keep(statements.model, row, token, operation)
        raise _kept_changing(statements, task_id, operation)
    finally:
        if kept:
            expire_again(statements.model, task_id)


def ignore(statements: StepStatements[T], task_id: str, reason: str) -> T:
    """Ignore a waiting or abandoned task, with the reason in `errors`, and return it; an ignored one is not changed."""
    codes, operation = statements.codes, f"ignore {statements.codes.step} of"
    for _ in range(_TRIES):
        row, now = get(statements.model, task_id), clock.now()
        if row is None:
            raise not_found(statements, task_id, operation)
        if row.status == codes.ignored:
            return row
        if row.status not in (codes.pending, codes.failed) and not is_abandoned(row, codes, now):
            raise refusal(statements, row, operation)
        if ignored := _set_aside(statements, statements.ignore, row, now, reason):
            return ignored
    raise _kept_changing(statements, task_id, operation)


def spend(statements: StepStatements[T], row: T, now: datetime) -> T | None:
    """Ignore a task that has no attempt left, and return it; None if it has changed since it was read."""
    abandoned = row.status == statements.codes.in_progress
    died = ", the last one by a worker that died or lost its lock" if abandoned else ""
    reason = f"{row.attempt} of {statements.max_attempts} attempts are used{died}"
    return _set_aside(statements, statements.spend_abandoned if abandoned else statements.spend, row, now, reason)


def _set_aside(statements: StepStatements[T], write: PreparedWrite, row: T, now: datetime, reason: str) -> T | None:
    codes, token = statements.codes, new_token(above=row.lock)
    failure = Failure(
        codes.step, row.attempt, now, this_worker(), codes.own[codes.ignored], scrubbed(reason, row.redact)
    )
    failures, had_log = [*failures_in_row(row), failure], has_log(row)
    logged = had_log or not fits_row(failures)
    values = {
        "token": token,
        **seen_values(row),
        "now_plus_margin": clock.stamp(now + row.tracker.margin),
        "now_minus_margin": clock.stamp(now - row.tracker.margin),
        "errors": for_row(failures, logged=logged),
        "last_error": failure.one_line,
        **statements.moved(codes.ignored, row.task_id, now),
    }
    try:
        try:
            answer = statements.send(write, row.task_id, **values)
        except PynamoDBConnectionError as refused:
            if not is_invalid(refused):
                raise
            logged = False  # the row has no room for the reason
            answer = statements.send(write, row.task_id, **values | {"errors": [], "last_error": failure.type})
    except Refused:
        return None
    ended = load(statements.model, answer["Attributes"])
    if logged:
        ended.attribute_values["errors"] = failures
        ended._row_state.failures_whole = not had_log
        log_failures(statements, ended, token, version_outside_run(row.create_time, row.fence, token))
    if statements.keeps_for_a_time:
        expire(statements, ended)
    return ended


def _kept_changing(statements: StepStatements[T], task_id: str, operation: str) -> TaskNotReadyError:
    return TaskNotReadyError(
        f"cannot {operation} {statements.model.__name__} {task_id!r}: it changed {_TRIES} times meanwhile; try again",
        task_id=task_id,
    )
