"""A reopened task whose turn has passed enters its group again, at the end of the queue."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.features.groups.queue import Groups
from pynamodb_tracker.model.row import Membership, TaskRow
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import seen_values
from pynamodb_tracker.writes.participants import Action, send_though_busy
from pynamodb_tracker.writes.statements import StepStatements, is_urgent, waits_until
from pynamodb_tracker.writes.transition import Appended, Transition

T = TypeVar("T", bound=TaskRow)


class ReopenedMember:
    """A task whose turn has passed, and that enters its group again."""

    def __init__(self, row: TaskRow, status: int, starts: datetime) -> None:
        self.task_id: str = row.task_id
        self.creation: str = row.creation
        self.turn_due_time, self.status = starts, status
        self.number, self.has_turn = 0, False

    def place(self, number: int, *, has_turn: bool) -> None:
        """Take this number, with or without the turn."""
        self.number, self.has_turn = number, has_turn


def enter_again(
    statements: StepStatements[T],
    row: T,
    token: str,
    now: datetime,
    entry: list[dict[str, Any]] | None,
    *,
    due: datetime | None,
    kept: bool,
    clear_checkpoints: bool,
    urgent: bool,
) -> None:
    """Let a task whose turn has passed enter its group at the end. Raise Refused if it has changed.

    With its turn, it is `due` at that time or at once. `entry` is for `errors`, if the row has room for it.
    """
    member = ReopenedMember(row, statements.codes.pending, max(now, due or now))

    def own() -> Action:
        entering = entrance(statements, token, row, kept=kept, entry=entry)
        entering.is_urgent = urgent or is_urgent(row)
        entering.time, entering.due = now, waits_until(row) or due if member.has_turn else clock.NEVER
        entering.add(group_number=member.number, **({"checkpoints": None} if clear_checkpoints else {}))
        if urgent:
            entering.add(urgent=True)
        if not member.has_turn:
            entering.add(turn_due_time=member.turn_due_time, blockers=(row.blockers or 0) + 1)
        return statements.as_action(entering, row.task_id)

    groups = Groups()
    groups.of(type(row), row.group).entrants.append(member)
    unapplied = send_though_busy(statements.table, own, [groups])
    if unapplied and entry and is_invalid(unapplied.error):
        entry = None  # the row has no room for who did it
        unapplied = send_though_busy(statements.table, own, [groups])
    if unapplied is not None:
        raise Refused(repeated=unapplied.unheard) if unapplied.refused else unapplied.error


def entrance(
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
