"""Reopening a task: it gets fresh attempts, continues with its rule, and may have to enter its group again."""

from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from pynamodb.constants import ALL_NEW
from pynamodb.exceptions import PynamoDBConnectionError, TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Refused, shares_requests
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.exceptions import TaskNotStartableError
from pynamodb_tracker.features.groups.queue import Entrant, Groups
from pynamodb_tracker.features.overflow import expire_again, remove_chunk_expiry
from pynamodb_tracker.features.repeats import next_round_when_reopened
from pynamodb_tracker.model.failure import Failure
from pynamodb_tracker.model.failure_log import for_row
from pynamodb_tracker.model.row import Membership, TaskRow, load, membership_of
from pynamodb_tracker.model.status import CANCELLED, end_of
from pynamodb_tracker.transitions.commands import read_task
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.participants import Action, send_though_busy
from pynamodb_tracker.writes.refusals import build_error, check_found, kept_changing_error, refusal
from pynamodb_tracker.writes.transition import (
    ZERO,
    Appended,
    StepStatements,
    Transition,
    get,
    is_parked,
    is_urgent,
    raise_if_damaged,
    waits_until,
)

T = TypeVar("T", bound=TaskRow)

Entry = list[dict[str, Any]]
"""A stored entry of `errors`."""
_TRIES = 4


def reopen_anywhere(model: type[Any], task_id: str, by: str | None, due_time: datetime | None, **options: bool) -> Any:
    """Reopen a task at the step where it was cancelled, has failed or is ignored."""
    model.tracker.use_case  # noqa: B018 - a TypeError on the table class, which lacks steps
    row = check_found(model, get(model, task_id), task_id, "reopen")
    cancelled = row.cancelled is not None and end_of(row.status) == "cancelled"
    code, found = (row.cancelled.step, row) if cancelled else (row.status, None)
    for step in model._bound_steps.values():
        if code in step._definition.codes.own:
            return reopen(
                step._definition.statements, task_id, by, due_time, found=found, cancelled=cancelled, **options
            )
    why = "it has ended" if end_of(code) else f"this program declares no step {code}"
    raise build_error(row, TaskNotStartableError, "reopen", f"it is {row.tracker.name_of(row.status)}, and {why}")


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
    cancelled: bool = False,
) -> T:
    """Make a failed or ignored task pending with fresh attempts. A pending task can become urgent.

    If it waits for others, it keeps waiting, and `due` is ignored, as for a repeating task. Unless `enters`, a task
    that would have to enter its group again is returned unchanged. A cancelled task is refused unless `cancelled`.
    """
    codes, operation, kept = statements.codes, f"reopen {statements.codes.step} of", False
    reopens = {codes.pending, *((CANCELLED,) if cancelled else (codes.failed, codes.ignored))}
    call = _Reopening(statements, task_id, by, due, clear_checkpoints, urgent)
    try:
        for _ in range(_TRIES):
            token = new_token(above=None if found is None else found.lock)
            if found is not None and membership_of(found) is Membership.ENDED and not enters:
                return found
            if found is not None and found.expire_time is not None:
                kept = True
                remove_chunk_expiry(statements.model, found, token, operation)
            try:
                reopened = call.send(token, found, kept=kept)
            except Refused:
                found = read_task(statements, task_id, operation)
            else:
                kept = False
                return reopened
            if found.status == codes.pending and (is_urgent(found) or not urgent):
                return found
            if found.status not in reopens:
                raise refusal(statements, found, operation)
        raise kept_changing_error(statements.model, task_id, operation, _TRIES)
    finally:
        if kept:
            expire_again(statements.model, task_id)


class _Reopening(NamedTuple, Generic[T]):
    statements: StepStatements[T]
    task_id: str
    by: str | None
    due: datetime | None
    clear_checkpoints: bool
    urgent: bool

    def send(self, token: str, found: T | None, *, kept: bool) -> T:
        """Send the reopen. Raise Refused if the task has changed."""
        statements = self.statements
        if found is not None and found.status == statements.codes.pending:
            response = statements.send(build_hurry(statements, token, found), self.task_id)
            return load(statements.model, response["Attributes"])
        now = clock.now()
        entry = None
        if self.by is not None:
            entry = for_row(None, [Failure(statements.codes.step, 0, now, self.by, "reopened", "")])[0]
        try:
            try:
                return self._write(token, found, now, entry, kept=kept)
            except (PynamoDBConnectionError, TransactWriteError) as error:
                if entry is None or not is_invalid(error):
                    raise
                return self._write(token, found, now, None, kept=kept)  # the row is too full for the entry
        except PynamoDBConnectionError as error:
            raise_if_damaged(statements.model, self.task_id, error)
            raise

    def _write(self, token: str, found: T | None, now: datetime, entry: Entry | None, *, kept: bool) -> T:
        statements = self.statements
        if found is not None and membership_of(found) is Membership.ENDED:
            self._enter_group(token, found, now, entry, kept=kept)
            return read_task(statements, self.task_id, f"reopen {statements.codes.step} of")
        transition = build_reopen(statements, token, found, kept=kept, entry=entry, urgent=self.urgent)
        if self.clear_checkpoints:
            transition.add(checkpoints=None)
        following = None
        if found is not None and found.repeat is not None:
            following = next_round_when_reopened(statements.codes, found, now)
        if following is not None:
            transition.follow(following)
        elif transition.due is None:
            transition.due = self.due
        transition.time = now
        return load(statements.model, statements.send(transition, self.task_id)["Attributes"])

    def _enter_group(self, token: str, row: T, now: datetime, entry: Entry | None, *, kept: bool) -> None:
        statements = self.statements
        member = Entrant(row.task_id, statements.codes.pending, row.creation, max(now, self.due or now))

        def build_own() -> Action:
            enter = build_reentry(statements, token, row, kept=kept, entry=entry)
            enter.is_urgent = self.urgent or is_urgent(row)
            enter.time, enter.due = now, waits_until(row) or self.due if member.has_turn else clock.NEVER
            enter.add(group_number=member.number, **({"checkpoints": None} if self.clear_checkpoints else {}))
            if self.urgent:
                enter.add(urgent=True)
            if not member.has_turn:
                enter.add(turn_due_time=member.turn_due_time, blockers=(row.blockers or 0) + 1)
            return statements.as_action(enter, row.task_id)

        groups = Groups()
        groups.change_of(type(row), row.group).entrants.append(member)
        unconfirmed = send_though_busy(statements.table, build_own, [groups])
        if unconfirmed is not None:
            raise Refused(repeated=unconfirmed.in_doubt) if unconfirmed.refused else unconfirmed.error


def build_reopen(
    statements: StepStatements[T], token: str, row: T | None, *, kept: bool, entry: Entry | None, urgent: bool = False
) -> Transition:
    """Give a task fresh attempts. If it was not read, it must neither wait, repeat, nor be in a group.

    Unless `remove_chunk_expiry` has removed the chunks' time to live, a task with a time to live is refused.
    """
    codes, rule = statements.codes, row is not None and row.repeat
    from_codes = (CANCELLED,) if row is not None and end_of(row.status) else (codes.failed, codes.ignored)
    reopen = Transition("reopen", codes.pending, when.has_status(*from_codes), when.later_token())
    has_asked = row is not None and row.request_count is not None
    if row is None or not is_parked(row):
        reopen.add(when.lacks("blockers"), when.lacks("awaited_signals"))
    else:
        reopen.add(when.has("blockers" if "blockers" in row._row_state.stored else "awaited_signals"))
    reopen.add(
        when.seen("request_count", is_there=has_asked) if rule else when.lacks("repeat"),
        when.membership_seen(Membership.NONE if row is None else membership_of(row)),
    )
    if row is not None:
        reopen.add(when.same_life(), seen={**when.seen_values(row), "seen_request_count": str(row.request_count)})
        reopen.due = waits_until(row)
    if urgent:
        reopen.is_urgent = True
        reopen.add(urgent=True)
    elif statements.model.tracker.lane_codes:
        reopen.is_urgent = row is not None and is_urgent(row)
        reopen.add(when.urgent_seen(is_there=reopen.is_urgent))
    # If an unread task lacks errors, the second try succeeds.
    appended = None if entry is None else Appended(entry, is_first=row is not None or not shares_requests())
    return _with_fresh_attempts(statements, reopen, token, row, kept=kept, entry=appended)


def build_reentry(statements: StepStatements[T], token: str, row: T, *, kept: bool, entry: Entry | None) -> Transition:
    """Give a task fresh attempts in its group. The caller adds its number, and its turn or place."""
    enter = Transition("enter again", statements.codes.pending, when.has_status(row.status), when.later_token())
    enter.add(
        when.seen("blockers", is_there=row.blockers is not None),
        when.seen("awaited_signals", is_there="awaited_signals" in row._row_state.stored),
        when.membership_seen(Membership.ENDED),
        when.same_life(),
    )
    enter.seen = {**when.seen_values(row), "seen_awaited_signals": sorted(row.awaited_signals or ())}
    appended = None if entry is None else Appended(entry, is_first=True)
    return _with_fresh_attempts(statements, enter, token, row, kept=kept, entry=appended)


def _with_fresh_attempts(
    statements: StepStatements[T], reopen: Transition, token: str, row: T | None, *, kept: bool, entry: Appended | None
) -> Transition:
    """Complete a reopen. A cancelled task continues where it was cancelled, and the step accepts another payload."""
    if row is not None and end_of(row.status):
        skipped = [number for number in row.skipped_steps or () if number < statements.codes.pending]
        reopen.add(cancelled=None, skipped_steps=skipped or None)
    if entry is not None and not entry.is_first:
        reopen.add(when.has("errors"))
    if not kept:
        reopen.add(when.lacks("expire_time"))
    reopen.add(when.known_format(), lock=token, attempt=ZERO)
    if entry is not None:
        reopen.add(errors=entry)
    reopen.add(release_count=None, postpone_count=None, first_failure=None, expire_time=None)
    reopen.changes = {statements.payload.attr_name: (statements.payload, None)}
    reopen.returns = ALL_NEW
    return reopen


def build_hurry(statements: StepStatements[T], token: str, row: T) -> Transition:
    code = statements.codes.pending
    hurry = Transition("hurry", None, when.has_status(code), when.same_life(), when.later_token(), when.known_format())
    key = statements.model.tracker.status_key(code, row.task_id, is_urgent=True)
    hurry.add(seen={"seen_creation": row.creation}, urgent=True, status_key=key, lock=token)
    hurry.returns = ALL_NEW
    return hurry
