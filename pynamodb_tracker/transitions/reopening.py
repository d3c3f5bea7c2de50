"""Reopening a task: it gets fresh attempts, continues with its rule, and may have to enter its group again."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.features.groups.queue import Groups, ReopenedMember
from pynamodb_tracker.features.overflow import expire_again, keep
from pynamodb_tracker.features.repeats import begun_again, turn_when_reopened
from pynamodb_tracker.model.failure import Failure
from pynamodb_tracker.model.failure_log import for_row
from pynamodb_tracker.model.row import Membership, TaskRow, load, membership_of
from pynamodb_tracker.transitions.commands import read
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import seen_values
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.participants import send_though_busy
from pynamodb_tracker.writes.refusals import kept_changing, refusal
from pynamodb_tracker.writes.statements import StepStatements, raise_if_damaged, waits_until
from pynamodb_tracker.writes.transition import Appended, Transition

T = TypeVar("T", bound=TaskRow)

_TRIES = 4


def reopen(
    statements: StepStatements[T],
    task_id: str,
    by: str | None = None,
    due: datetime | None = None,
    *,
    clear_checkpoints: bool = False,
) -> T:
    """Make a failed or ignored task pending, with fresh attempts, and return it. A pending task does not change.

    Args:
        statements: Those of the step.
        task_id: The task. If it waits for others, it keeps waiting.
        by: Who reopens it, for `errors`.
        due: When it is due, by default now. It is ignored if the task waits, repeats or is in a group.
        clear_checkpoints: Whether the next attempt repeats the parts that are stored.
    """
    codes, operation, token, kept = statements.codes, f"reopen {statements.codes.step} of", new_token(), False
    found: T | None = None
    try:
        for _ in range(_TRIES):
            try:
                if found is not None and membership_of(found) is Membership.ENDED:
                    reopened = _enter_again(
                        statements, found, token, by, kept=kept, clear_checkpoints=clear_checkpoints
                    )
                else:
                    response = _send_reopen(
                        statements, task_id, token, by, due, kept=kept, clear_checkpoints=clear_checkpoints, found=found
                    )
                    reopened = load(statements.model, response["Attributes"])
            except Refused:
                row = read(statements, task_id, operation)
            else:
                kept = False
                return reopened
            if row.status == codes.pending:
                return row
            if row.status not in (codes.failed, codes.ignored):
                raise refusal(statements, row, operation)
            token, found = new_token(above=row.lock), row
            if row.expire_time is not None:
                kept = True
                keep(statements.model, row, token, operation)
        raise kept_changing(statements, task_id, operation, _TRIES)
    finally:
        if kept:
            expire_again(statements.model, task_id)


def _send_reopen(
    statements: StepStatements[T],
    task_id: str,
    token: str,
    by: str | None,
    due: datetime | None,
    *,
    kept: bool,
    clear_checkpoints: bool,
    found: T | None,
) -> dict[str, Any]:
    """Send a reopen. With `by`, it adds an entry to `errors`, if the row has room for it."""
    now = clock.now()
    following = None if found is None or found.repeat is None else _next_round(statements, found, now)

    def reopen(entry: list[dict[str, Any]] | None) -> dict[str, Any]:
        transition = statements.reopen(token, found, kept=kept, entry=entry)
        if clear_checkpoints:
            transition.add(checkpoints=None)
        if following is not None:
            transition.follow(following)
        elif transition.due is None and (found is None or found.group is None):
            transition.due = due
        return statements.send(statements.moved(transition, task_id, now), task_id)

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


def _enter_again(
    statements: StepStatements[T], row: T, token: str, by: str | None, *, kept: bool, clear_checkpoints: bool
) -> T:
    """Let a task whose turn has passed enter its group at the end, and return it. `by` is as for `_send_reopen`."""
    codes, now = statements.codes, clock.now()
    entry = None if by is None else _entry(statements, now, by)

    def own(number: int, *, has_turn: bool) -> dict[str, Any]:
        entering = enter_again(statements, token, row, kept=kept, entry=entry)
        entering.due = waits_until(row) if has_turn else clock.NEVER
        entering.add(group_number=number, **({"checkpoints": None} if clear_checkpoints else {}))
        if not has_turn:
            entering.add(turn_due_time=now, blockers=(row.blockers or 0) + 1)
        return statements.as_action(statements.moved(entering, row.task_id, now), row.task_id)

    groups, member = Groups(), ReopenedMember(row, codes.pending, now, own)
    groups.of(type(row), row.group).entrants.append(member)
    unapplied = send_though_busy(statements.table, member.action, [groups])
    if unapplied and entry and is_invalid(unapplied.error):
        entry = None  # the row has no room for who did it
        unapplied = send_though_busy(statements.table, member.action, [groups])
    if unapplied is None:
        return read(statements, row.task_id, f"reopen {codes.step} of")
    raise Refused(repeated=unapplied.unheard) if unapplied.refused else unapplied.error


def enter_again(
    statements: StepStatements[T], token: str, row: T, *, kept: bool, entry: list[dict[str, Any]] | None
) -> Transition:
    """Give an ignored task of a group a fresh set of attempts, at the end of the queue.

    If it waits for other tasks, it keeps waiting. The caller adds its number, and its turn or its place.
    """
    enter = Transition("enter again", statements.codes.pending, when.at(statements.codes.ignored), when.later_token())
    enter.add(
        when.waits_seen(is_there=row.blockers is not None),
        when.awaits_seen(is_there="awaited_signals" in row._row_state.stored),
        when.membership_seen(Membership.ENDED),
        when.same_life(),
    )
    enter.seen = {**seen_values(row), "seen_awaits": sorted(row.awaited_signals or ())}
    appended = None if entry is None else Appended(entry, is_first=True)
    return statements.reopened(enter, token, kept=kept, entry=appended)


def _entry(statements: StepStatements[Any], now: datetime, by: str) -> list[dict[str, Any]]:
    return for_row(None, [Failure(statements.codes.step, 0, now, by, "reopened", "")])[0]


def _next_round(statements: StepStatements[T], row: T, now: datetime) -> Transition | None:
    """Return the transition of a repeating task to its next turn, or None if it keeps the present one."""
    is_first = statements.codes.pending == row.tracker.steps[0].pending
    turn = turn_when_reopened(row, now) if is_first and row.status == statements.codes.ignored else None
    return None if turn is None else begun_again(row, turn)
