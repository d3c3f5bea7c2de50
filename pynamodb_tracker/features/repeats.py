"""Repeating tasks: the row's next turn after an end, a command or another rule.

Here, a turn is an occurrence, or a requested extra run before the next occurrence. A group has other turns.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.constants import NUMBER, STRING
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.codecs import PendingRequest
from pynamodb_tracker.model.failure_log import failures_in_row
from pynamodb_tracker.model.repeat import LastRun, Occurrence, Repeat
from pynamodb_tracker.model.results import payload_attribute
from pynamodb_tracker.model.row import OF_ROUND, TaskRow, load
from pynamodb_tracker.model.status import Codes, end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.lock import Claim, Journal, new_token
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.transition import StepStatements, Transition, get

_SECOND = timedelta(seconds=1)

_NO_TURN: Mapping[str, Any] = {"occurrence": None, "occurrence_count": None, "extra_time": None}


class Turn(NamedTuple):
    """When a task is due, and the row's attributes for that. None removes an attribute."""

    due: datetime
    values: Mapping[str, Any]


def first_turn(repeat: Repeat, at: datetime) -> Turn | None:
    """Return the first turn of a rule that starts then, or None if it never occurs."""
    rule = repeat.begun(at)
    first = rule.first(at)
    return None if first is None else _turn_at(first, rule)


def next_turn(row: TaskRow, now: datetime, asked: PendingRequest | None = None) -> Turn | None:
    """Return the row's next turn, or None after the last. `asked` is a pending request."""
    rule = None if asked is None else asked.repeat
    return _earlier_turn(_next_occurrence(row, now, rule), None if asked is None else _requested_time(asked), rule)


def next_round_when_reopened(codes: Codes, row: TaskRow, now: datetime) -> Transition | None:
    """Return a reopened task's transition to its next turn, or None if it keeps its turn."""
    occurrence, number, repeat = row.occurrence, row.occurrence_count, row.repeat
    is_first = codes.pending == row.tracker.steps[0].pending
    if not is_first or not row.tracker.ends_at(row.status) or occurrence is None or repeat is None:
        return None
    following = Occurrence(occurrence, number) if occurrence > now else repeat.beyond(occurrence, number, now)
    return None if following is None else build_next_round(row, _turn_at(following))


def build_pin(statements: StepStatements[Any], token: str, values: Mapping[str, Any]) -> Transition:
    """Store the occurrence that the run is for, without writing an indexed attribute."""
    pin = Transition("pin", None, when.held_by_run(statements.codes))
    pin.seen, pin.values = {"lock": token}, {**values}
    return pin


def _is_first_claim(model: type[TaskRow], before: Item, *, is_held: bool) -> bool:
    """Return whether no block had begun in a row's round before its claim, or before a dead worker's."""
    lock, begun = before.get("lock"), before.get("round")
    if not is_held and (lock is None or (begun is not None and lock[STRING] <= begun[STRING])):
        return True  # neither a claim nor a command has written the row since
    is_first = before["attempt"] == {NUMBER: "1" if is_held else "0"}
    if not is_first or not {"release_count", "postpone_count"}.isdisjoint(before):
        return False
    return "last_error" not in before or _is_of_last_round(load(model, before))


def _is_of_last_round(row: TaskRow) -> bool:
    """Return whether the row's last error ended the previous round."""
    errors = [each for each in failures_in_row(row) if each.type != "reopened"]
    last: LastRun | None = row.last_run
    return bool(errors) and last is not None and errors[-1].time - last.ended < _SECOND


class NextRound(Participant):
    """Begins the next round instead of ending the task."""

    writes = False

    def __init__(self, row: TaskRow, attempt: int, created: int) -> None:
        self._row = row
        self._attempt = attempt
        self._created = created

    @classmethod
    def after_claim(cls, claim: Claim[Any]) -> Transition | None:
        """Return the write that moves a task to the latest missed occurrence, if there is one.

        All attempts in a round have the same `ctx.occurrence`, so it moves only before the round's first block.
        """
        row, before = claim.task, claim.before or claim.task._row_state.stored
        rule, occurrence, number, claimed = row.repeat, row.occurrence, row.occurrence_count, row.update_time
        if rule is None or occurrence is None or rule.missed == "all" or row.extra_time is not None:
            return None
        codes = claim.statements.codes
        was_held = before["status"] == {NUMBER: str(codes.in_progress)}
        if codes.pending != row.tracker.steps[0].pending or not _is_first_claim(type(row), before, is_held=was_held):
            return None
        if was_held:  # if the dead worker should have moved it, it died before its block
            died = clock.read(before["update_time"][STRING])
            if died is None or rule.latest(occurrence, number, died) is None:
                return None
        latest = rule.latest(occurrence, number, claimed)
        if latest is None:
            return None
        counted = {} if latest.number is None else {"occurrence_count": latest.number}
        return build_pin(claim.statements, claim.token, {"occurrence": latest.time, **counted})

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Self | None:
        """Take part in the success of the last step if the task repeats or has a pending request."""
        if end_of(run.next_code) != "succeeded" or (row.repeat is None and row.queued is None):
            return None
        follow_ups = run.additions.get("follow_ups")
        return cls(row, run.claim.attempt, follow_ups.created if follow_ups else 0)

    def change(self, success: Transition) -> None:
        """Move to the next turn, and apply the pending request unless another one has come."""
        row, again = self._row, self._row.queued
        rule = None if again is None else again.repeat
        turn = next_turn(row, clock.now(), again)
        if again is not None and rule is None and row.repeat is None:
            turn = Turn(again.due_time, {})
        if turn is not None:
            success.follow(build_next_round(row, turn))
        else:
            success.expires = False
            success.add(**_NO_TURN)
            if rule is not None:
                success.add(repeat=rule)
        success.add(**last_run(row, "succeeded", self._attempt, clock.now(), self._created))
        if again is None:
            return
        success.replace_guard(when.lacks("queued"), when.seen("request_count"))
        success.add(seen={"seen_request_count": str(row.request_count)}, queued=None)
        success.changes = {**success.changes, **again.changes(row.tracker.own_attributes)}
        if again.urgent:
            success.is_urgent = True
            success.add(urgent=True)
        if again.asks_for_run and (again.trace or "trace" in row._row_state.stored):
            trace: Any = TaskRow.trace, None if again.trace is None else {STRING: again.trace}
            success.changes = {**success.changes, "trace": trace}

    @classmethod
    def after_last_failure(cls, row: TaskRow, now: datetime, claim: Claim[Any] | None) -> Transition | None:
        """Return the transition to the next turn, unless the rule stops on failure."""
        if row.repeat is None or row.cancelled is not None:
            return None
        row = row if claim is None else _read_again(claim)
        if row.repeat is None or row.repeat.stop_on_failure:
            return None
        again = row.queued  # it stays for the next success, and may make the next turn earlier
        asked = None if again is None else _requested_time(again)
        turn = _earlier_turn(_next_occurrence(row, now, None), asked, None)
        return None if turn is None else build_next_round(row, turn)


def _read_again(claim: Claim[Any]) -> TaskRow:
    """Read the row again, because an earlier run may have been requested since the claim."""
    task: TaskRow = claim.task
    try:
        row = get(claim.statements.model, task.task_id, until=claim.expire_time)
    except (PynamoDBConnectionError, TaskError):
        return task  # the request then waits for the next occurrence
    return row if row is not None and claim.holds(row) else task


def last_run(row: TaskRow, outcome: str, attempt: int, ended: datetime, created: int = 0) -> dict[str, Any]:
    """Return a repeating task's record for a round that ends."""
    occurrence, extra = row.occurrence, row.extra_time
    due = extra or occurrence
    if due is None:
        return {}
    return {"last_run": LastRun(None if extra else occurrence, due, outcome, attempt, ended, created)}


def build_next_round(row: TaskRow, turn: Turn) -> Transition:
    """Return the transition to a turn at the first step. The new round accepts any payload."""
    begun = Transition("next round", row.tracker.steps[0].pending, due=turn.due)
    begun.add(round=new_token(above=row.lock), **round_removals(row), **turn.values)
    begun.changes = payload_removals(row)
    return begun


def round_removals(row: TaskRow) -> dict[str, None]:
    """Return the attributes that a new round removes: the wait, even if it is newer than the row, and the row's own."""
    waits = "blockers", "awaited_signals", "signals", "wait_until"
    return dict.fromkeys((*waits, *sorted(OF_ROUND & row._row_state.stored.keys())))


def payload_removals(model: TaskRow | type[TaskRow]) -> Changes:
    """Return changes that remove all payload fingerprints, as a new round does."""
    names = [payload_attribute(each.pending) for each in model.tracker.steps]
    return {name: (UnicodeAttribute(attr_name=name), None) for name in names}


def first_stored_turn(repeat: Repeat, at: datetime) -> tuple[datetime, Item] | None:
    """Return a new repeating task's first due time and stored attributes, or None if it never occurs."""
    turn = first_turn(repeat, at)
    if turn is None:
        return None
    changes = _changes({}, turn.values).values()
    return turn.due, {attribute.attr_name: value for attribute, value in changes if value is not None}


def change_rule(
    row: TaskRow, repeat: Repeat | None, due: datetime | None, now: datetime
) -> tuple[Changes, datetime | None]:
    """Return the changes for another rule or an earlier turn at the first step, and the new due time."""
    values: dict[str, Any] = {}
    if repeat is not None and repeat != row.repeat:
        rule = start_rule(row, repeat, now)
        first = rule.first(now)
        if first is not None and not _is_at_occurrence(row, now):
            turn = _turn_by_other_rule(row, rule, first, due)
            return _changes(row._row_state.stored, turn.values), None if turn.due == row.due_time else turn.due
        values["repeat"] = rule
    if due is not None:
        values["extra_time"] = due if row.occurrence is None or due < row.occurrence else None
    return _changes(row._row_state.stored, values), due


def turn_changes(row: TaskRow, turn: Turn | None, due: datetime) -> Changes:
    """Return the changes that give a finished row a turn, or an extra one after the last."""
    return _changes(row._row_state.stored, {**_NO_TURN, "extra_time": due} if turn is None else turn.values)


def start_rule(row: TaskRow, repeat: Repeat, now: datetime) -> Repeat:
    """Return a rule that counts from now, or as before if its times are the same."""
    before, occurrence = row.repeat, row.occurrence
    if before is not None and _has_same_times(repeat, before):
        return replace(repeat, since=before.since)
    if occurrence is None or row.extra_time is not None or occurrence > now + row.tracker.margin:
        return repeat.begun(now)
    return repeat.begun(max(now, occurrence + _SECOND))


def _turn_by_other_rule(row: TaskRow, rule: Repeat, first: Occurrence, due: datetime | None) -> Turn:
    """Return a waiting row's turn by a new rule. A requested due time stays."""
    codes, was_asked_for = row.tracker.steps[0], row.repeat is None or row.extra_time is not None
    if row.status == codes.pending:
        asked = due or (row.due_time if was_asked_for else None)
        if asked is not None and asked < first.time:
            return _turn_at(first, rule, asked)
        return _turn_at(first, rule)
    turn = _turn_at(first, rule, row.due_time if row.status == codes.failed else None)
    return turn._replace(due=row.due_time)  # noqa: SLF001 - a public method of named tuples


def _is_at_occurrence(row: TaskRow, now: datetime) -> bool:
    if row.occurrence is None or row.extra_time is not None:
        return False
    codes = row.tracker.steps[0]
    return row.status == codes.failed or (row.status == codes.pending and row.due_time <= now + row.tracker.margin)


def _has_same_times(repeat: Repeat, other: Repeat | None) -> bool:
    return other is not None and replace(repeat, missed=other.missed, stop_on_failure=other.stop_on_failure) == other


def _next_occurrence(row: TaskRow, now: datetime, rule: Repeat | None) -> Occurrence | None:
    if rule is not None and rule.since is not None and not _has_same_times(rule, row.repeat):
        return rule.after(rule.since - _SECOND, None, now)
    occurrence, number, rule = row.occurrence, row.occurrence_count, rule or row.repeat
    if occurrence is None or rule is None:
        return None
    if row.extra_time is not None:  # the turn that came before the occurrence has ended
        return Occurrence(occurrence, number)
    return rule.after(occurrence, number, now)


def _requested_time(asked: PendingRequest) -> datetime | None:
    """Return when another run was requested, or None if only the rule was changed."""
    return asked.due_time if asked.asks_for_run else None


def _earlier_turn(following: Occurrence | None, asked: datetime | None, rule: Repeat | None) -> Turn | None:
    """Return the turn at the next occurrence or at the requested time, if that is earlier."""
    if asked is not None and (following is None or asked < following.time):
        return _turn_at(following, rule, asked)
    return None if following is None else _turn_at(following, rule)


def _turn_at(following: Occurrence | None, rule: Repeat | None = None, extra_time: datetime | None = None) -> Turn:
    values = {**_NO_TURN, "extra_time": extra_time}
    if rule is not None:
        values["repeat"] = rule
    if following is not None:
        values.update(occurrence=following.time, occurrence_count=following.number)
    due = extra_time or (clock.NEVER if following is None else following.time)
    return Turn(due, values)


def _changes(stored: Item, values: Mapping[str, Any]) -> Changes:
    changes: dict[str, tuple[Attribute[Any], dict[str, Any] | None]] = {}
    for name, value in values.items():
        attribute: Attribute[Any] = getattr(TaskRow, name)
        text = None if value is None else {attribute.attr_type: attribute.serialize(value)}
        if text != stored.get(attribute.attr_name):
            changes[name] = attribute, text
    return changes
