"""Reopening a task: it gets fresh attempts, continues with its rule, and may have to enter its group again."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.features.groups.reentry import enter_again
from pynamodb_tracker.features.overflow import expire_again, keep
from pynamodb_tracker.features.repeats import next_round_when_reopened
from pynamodb_tracker.model.failure import Failure
from pynamodb_tracker.model.failure_log import for_row
from pynamodb_tracker.model.row import Membership, TaskRow, load, membership_of
from pynamodb_tracker.transitions.commands import read
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.refusals import kept_changing, refusal
from pynamodb_tracker.writes.statements import StepStatements, is_urgent, raise_if_damaged

T = TypeVar("T", bound=TaskRow)

_TRIES = 4


def reopen(
    statements: StepStatements[T],
    task_id: str,
    by: str | None = None,
    due: datetime | None = None,
    *,
    clear_checkpoints: bool = False,
    urgent: bool = False,
    found: T | None = None,
    enters: bool = True,
) -> T:
    """Make a failed or ignored task pending, with fresh attempts, and return it. A pending task can only get urgent.

    Args:
        statements: Those of the step.
        task_id: The task. If it waits for others, it keeps waiting.
        by: Who reopens it, for `errors`.
        due: When it is due, by default now. It is ignored if the task waits for others or repeats.
        clear_checkpoints: Whether the next attempt repeats the parts that are stored.
        urgent: Whether it gets urgent. Without that, it stays as urgent as it is.
        found: The row, if the caller has read it.
        enters: If False, a task that would have to enter its group again is returned as it is.
    """
    codes, operation, kept = statements.codes, f"reopen {statements.codes.step} of", False
    options: dict[str, bool] = {"clear_checkpoints": clear_checkpoints, "urgent": urgent}
    try:
        for _ in range(_TRIES):
            token = new_token(above=None if found is None else found.lock)
            if found is not None and membership_of(found) is Membership.ENDED and not enters:
                return found
            if found is not None and found.expire_time is not None:
                kept = True
                keep(statements.model, found, token, operation)
            try:
                reopened = _send(statements, task_id, token, by, due, kept=kept, found=found, **options)
            except Refused:
                found = read(statements, task_id, operation)
            else:
                kept = False
                return reopened
            if found.status == codes.pending and (is_urgent(found) or not urgent):
                return found
            if found.status not in (codes.pending, codes.failed, codes.ignored):
                raise refusal(statements, found, operation)
        raise kept_changing(statements, task_id, operation, _TRIES)
    finally:
        if kept:
            expire_again(statements.model, task_id)


def _send(
    statements: StepStatements[T],
    task_id: str,
    token: str,
    by: str | None,
    due: datetime | None,
    *,
    kept: bool,
    found: T | None,
    **options: bool,
) -> T:
    """Make the task pending or urgent, or let it enter its group again, and return it."""
    if found is not None and found.status == statements.codes.pending:
        response = statements.send(statements.hurry(token, found), task_id)
    elif found is not None and membership_of(found) is Membership.ENDED:
        now = clock.now()
        entry = None if by is None else _entry(statements, now, by)
        enter_again(statements, found, token, now, entry, due=due, kept=kept, **options)
        return read(statements, task_id, f"reopen {statements.codes.step} of")
    else:
        response = _send_reopen(statements, task_id, token, by, due, kept=kept, found=found, **options)
    return load(statements.model, response["Attributes"])


def _send_reopen(
    statements: StepStatements[T],
    task_id: str,
    token: str,
    by: str | None,
    due: datetime | None,
    *,
    kept: bool,
    found: T | None,
    clear_checkpoints: bool,
    urgent: bool,
) -> dict[str, Any]:
    """Send a reopen. With `by`, it adds an entry to `errors`, if the row has room for it."""
    now = clock.now()
    following = (
        None if found is None or found.repeat is None else next_round_when_reopened(statements.codes, found, now)
    )

    def reopen(entry: list[dict[str, Any]] | None) -> dict[str, Any]:
        transition = statements.reopen(token, found, kept=kept, entry=entry, urgent=urgent)
        if clear_checkpoints:
            transition.add(checkpoints=None)
        if following is not None:
            transition.follow(following)
        elif transition.due is None:
            transition.due = due
        transition.time = now
        return statements.send(transition, task_id)

    if by is not None:
        try:
            return reopen(_entry(statements, now, by))
        except PynamoDBConnectionError as refused:
            if not is_invalid(refused):
                raise
    try:
        return reopen(None)
    except PynamoDBConnectionError as refused:
        raise_if_damaged(statements.model, task_id, refused)
        raise


def _entry(statements: StepStatements[Any], now: datetime, by: str) -> list[dict[str, Any]]:
    return for_row(None, [Failure(statements.codes.step, 0, now, by, "reopened", "")])[0]
