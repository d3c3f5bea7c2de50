"""Signals from outside: a success or a create parks the task until they come, and `send` stores them.

`awaited_signals` names the missing signals. A signal counts once per round, and stays in `signals`. A success begins
the wait for signals and children, and the next one ends it. `missed_signals` names the signals that were missing then.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, Self, TypeVar

from pynamodb.constants import MAP, STRING, STRING_SET
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused
from pynamodb_tracker.dynamodb.connection import send as send_request
from pynamodb_tracker.dynamodb.retries import slept_before_retry
from pynamodb_tracker.exceptions import (
    SignalAlreadyReceivedError,
    TaskAlreadySucceededError,
    TaskNotFoundError,
    TaskNotReadyError,
)
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import check_due_time
from pynamodb_tracker.model.references import round_of
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.signals import ReceivedSignal, check_label, check_signal, too_late, value_text
from pynamodb_tracker.model.status import END, Status, end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import Guard, PreparedWrite, fill, guard, parameter
from pynamodb_tracker.writes.lock import Journal, new_token
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.refusals import build_error, check_found, kept_changing_error
from pynamodb_tracker.writes.transition import EMPTY_MAP, Transition, get, load_checked

T = TypeVar("T", bound=TaskRow)
T_co = TypeVar("T_co", bound=TaskRow, covariant=True)

Effect = Literal["resumed", "early", "late", "stored", "cancelled"]

_OF_WAIT = frozenset({"blockers", "awaited_signals", "wait_until"})
_TRIES = 8
_AT_ONCE = 3
"""How many writes per call are sent without a pause."""
_MOST_IN = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html"""


@guard
def not_received(name: str) -> Condition:
    """Require that this signal has not come, because the first one counts."""
    return Path(["signals", name]).does_not_exist()


@guard
def awaits_only(name: str) -> Condition:
    """Require a task that waits for nothing but this signal."""
    return (TaskRow.awaited_signals == {name}) & TaskRow.blockers.does_not_exist()


@guard
def awaits_more(name: str) -> Condition:
    """Require a task that waits for this signal and for something else."""
    return TaskRow.awaited_signals.contains(name) & (~(TaskRow.awaited_signals == {name}) | TaskRow.blockers.exists())


@guard
def not_awaited(name: str) -> Condition:
    """Require a task that this signal cannot make due."""
    return TaskRow.awaited_signals.does_not_exist() | ~TaskRow.awaited_signals.contains(name)


@guard
def not_missed(name: str) -> Condition:
    """Require that no run has continued without this signal, or its sender has to learn that."""
    return TaskRow.missed_signals.does_not_exist() | ~TaskRow.missed_signals.contains(name)


@guard
def parked(begun: tuple[int, ...]) -> Condition:
    """Require a parked task that has not changed its state after this moment."""
    return _parked(begun) & (TaskRow.update_time <= parameter(TaskRow.update_time, "now"))


@guard
def not_parked(begun: tuple[int, ...]) -> Condition:
    return ~_parked(begun)


def _parked(begun: tuple[int, ...]) -> Condition:
    """Require a parked task, by its due time and no code of these."""
    due: Any = TaskRow.due_time
    is_parked: Condition = (due == clock.NEVER) | (due == Path(TaskRow.wait_until))
    for first in range(0, len(begun), _MOST_IN):
        is_parked &= ~when.has_status(*begun[first : first + _MOST_IN]).condition
    return is_parked


@guard
def same_round() -> Condition:
    """Require the round that a callback names."""
    token = parameter(TaskRow.round, "seen_round")
    return (TaskRow.round == token) | (TaskRow.round.does_not_exist() & (TaskRow.creation == token))


@guard
def first_round() -> Condition:
    """Require a task that never started over, and is older than the signal."""
    creation = TaskRow.creation
    return TaskRow.round.does_not_exist() & (creation <= parameter(creation, "token"))


@dataclass(frozen=True, slots=True)
class Sent(Generic[T_co]):
    """The effect of `send`, and the task after it."""

    task: T_co
    effect: Effect
    """`resumed` if the signal makes the task due, or `early` if the task did not wait for it yet. `late` if a run has
    begun without it, or the task has failed or is ignored. `stored` if the task still waits, or had this signal.
    `cancelled` if the task was cancelled."""
    will_be_read: bool
    """Whether a run can still act on the signal, or has. False if the task continued without it or was cancelled: the
    signal is not stored, and a payment may have to be refunded."""


def attributes_awaiting(
    model: type[TaskRow], signal: object, until: datetime | timedelta | None, **others: object
) -> tuple[Item, datetime]:
    """Return the attributes and due time for a new task that awaits this signal. It cannot have `others`."""
    if signal is None:
        raise TypeError("until limits how long a task waits for a signal: add wait_for, or use due_time")
    for name in [name for name, given in others.items() if given is not None]:
        raise ValueError(f"a task that waits for a signal cannot have {name}: leave it out, or create it later")
    return _wait_attributes(check_signal(model, signal), check_due_time(until, "until"))


def _wait_attributes(name: str, until: datetime | timedelta | None) -> tuple[Item, datetime]:
    limit = clock.now() + until if isinstance(until, timedelta) else until
    also: Item = {"awaited_signals": {STRING_SET: [name]}, "signals": {MAP: {}}}
    if limit is not None:
        also["wait_until"] = {STRING: clock.stamp(limit)}
    return also, limit or clock.NEVER


def attributes_of_exported(
    task_id: str, awaits: Collection[str], signals: Mapping[str, Mapping[str, Any]], until: datetime | None
) -> tuple[Item, datetime | None]:
    if both := {*awaits} & signals.keys():
        raise ValueError(f"it awaits {', '.join(sorted(both))}, but has already received it: remove one")
    stored: Item = {}
    for name, given in signals.items():
        by, key = check_label("by", given.get("by")), check_label("key", given.get("key"))
        time = datetime.fromisoformat(given["time"]) if "time" in given else clock.now()
        signal = ReceivedSignal(None, by, time, new_token(), key)
        stored[name] = {MAP: signal.stored(value_text(given.get("value"), name, task_id))}
    also, due = _wait_attributes("", until)
    if awaits:
        return {**also, "awaited_signals": {STRING_SET: sorted(awaits)}, "signals": {MAP: stored}}, due
    return {"signals": {MAP: stored}}, until


def build_send_write(model: type[TaskRow], name: str, form: str, *, of_round: bool) -> PreparedWrite:
    """Build the write of a signal: `more`, `last`, `late`, `early`, or `first`, which also adds the map."""
    begun = (*(code for codes in model.tracker.steps for code in codes.own if code != codes.pending), END)
    guards = [same_round() if of_round else first_round(), when.known_format()]
    path: Any = Path(["signals", name])
    changes: list[Any] = [path.set(parameter(TaskRow.signals, "signal"))]
    if form == "more":
        guards += [not_received(name), awaits_more(name)]
        changes.append(TaskRow.awaited_signals.delete({name}))
    elif form in ("early", "first"):
        guards += [not_awaited(name), not_missed(name), when.lacks("queued"), when.not_ended()]
        if form == "first":
            guards.append(when.lacks("signals"))
            changes[0] = fill(TaskRow.signals, "signals")
        else:
            guards.append(not_received(name))
    else:
        guards += [not_received(name), awaits_only(name)]
        guards.append(parked(begun) if form == "last" else not_parked(begun))
        changes += [TaskRow.awaited_signals.remove(), TaskRow.wait_until.remove()]
        if form == "last":
            changes.append(fill(TaskRow.due_time, "now"))
    return PreparedWrite(
        model.tracker.connection(), condition=when.all_of(guards), actions=changes, return_values="ALL_NEW"
    )


_EFFECTS: dict[str, Effect] = {"last": "resumed", "late": "late", "more": "stored", "early": "early", "first": "early"}


def send(
    model: type[T], task_id: str, name: str, value: object, *, by: str | None, key: str | None, of_round: str | None
) -> Sent[T]:
    """Store a signal. The first try assumes a parked task's last signal."""
    text, token, form, now = value_text(value, name, task_id), new_token(), "last", clock.now()
    for number in range(_TRIES):
        signal = {MAP: ReceivedSignal(None, by, now, token, key).stored(text)}
        values = {
            "signal": signal[MAP],
            "signals": {name: signal},
            "token": token,
            "seen_round": of_round,
            "now": clock.stamp(now),
        }
        write = build_send_write(model, name, form, of_round=of_round is not None)
        request = write.request(model.tracker.key(task_id), values)
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        try:
            stored = send_request(model.tracker.connection(), "UpdateItem", request)["Attributes"]
        except Refused as refused:
            item = refused.item if number < _AT_ONCE else None
            # Without a row, or if other callers are quicker, read the row after a pause.
            if not slept_before_retry(number, base=0.05 if item is None else 0.0):
                break
            row = get(model, task_id) if item is None else load_checked(model, item)
        else:
            return Sent(load_checked(model, stored), _EFFECTS[form], will_be_read=True)
        row = _check_round(model, task_id, name, row, of_round)
        first = (row.signals or {}).get(name)
        if first is not None and first.token == token:
            return Sent(row, _EFFECTS[form], will_be_read=True)
        if end_of(row.status) == "cancelled" and (first is None or not _went_through_branch(row)):
            return Sent(row, "cancelled", will_be_read=False)
        if first is not None:
            return Sent(row, _check_repetition(row, name, first, text, key), will_be_read=True)
        if name in (row.missed_signals or ()):
            log.warning("%s", too_late(row, name), extra=log_fields(row.use_case_id, None, row.task_id))
            return Sent(row, "late", will_be_read=False)
        form, now = _next_form(row, name), max(clock.now(), row.update_time)
        if token < row.creation:  # this clock is behind the creator's
            token = new_token(above=row.creation)
    raise kept_changing_error(model, task_id, f"send {name} to", number + 1)


def _check_round(model: type[T], task_id: str, name: str, row: T | None, of_round: str | None) -> T:
    operation = f"send {name} to"
    row = check_found(model, row, task_id, operation)
    if of_round is None and "round" in row._row_state.stored:
        raise TypeError(
            f"cannot {operation} {model.__name__} {task_id!r}: the task has started over, and this signal may "
            "belong to an earlier round. Include ctx.round in the callback, and call send(..., round=...)"
        )
    if of_round is not None and of_round != round_of(row):
        why = f"its round {of_round} has ended, so the signal was not stored"
        raise build_error(row, TaskNotFoundError, operation, why)
    return row


def _went_through_branch(row: TaskRow) -> bool:
    """Return whether a branch step ended a cancelled task, for example a refund, which had all stored signals."""
    record, skipped = row.cancelled, row.skipped_steps or ()
    steps = [] if record is None else [codes for codes in row.tracker.steps if codes.pending > record.step]
    return any(codes.branch and codes.pending not in skipped for codes in steps)


def _check_repetition(row: TaskRow, name: str, first: ReceivedSignal, text: str, key: str | None) -> Effect:
    """Return the effect of a repeated signal. Raise SignalAlreadyReceivedError if the stored one differs."""
    # Keys decide if both have one, because two payments often have the same amount.
    have_keys = key is not None and first.key is not None
    if key == first.key if have_keys else strict_json.are_equal(text, strict_json.dumps(first.value)):
        return "stored"
    raise SignalAlreadyReceivedError(
        f"cannot send {name} to {type(row).__name__} {row.task_id!r}: it was received at {clock.in_words(first.time)}"
        f"{f' by {first.by}' if first.by else ''} with another {'key' if have_keys else 'value'}. The first one counts",
        task_id=row.task_id,
        task=row,
        signal=first,
    )


def _next_form(row: TaskRow, name: str) -> str:
    """Return the next write's form. Raise if the signal cannot be stored."""
    operation, awaits = f"send {name} to", row.awaited_signals or frozenset()
    if name in awaits:
        if awaits != {name} or "blockers" in row._row_state.stored:
            return "more"
        has_begun = row.tracker.status_of(row.status) not in (None, Status.PENDING)
        return "last" if not has_begun and row.due_time in {clock.NEVER, row.wait_until} else "late"
    if end_of(row.status):
        raise build_error(row, TaskAlreadySucceededError, operation, "it has succeeded")
    if "queued" in row._row_state.stored:
        why = "another run was requested that has not begun. Try again once it has begun"
        raise build_error(row, TaskNotReadyError, operation, why)
    return "early" if "signals" in row._row_state.stored else "first"


class Waits(Participant):
    """Begins the next step's wait, and ends this step's."""

    writes = False

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        """The signals that the next step waits for."""
        self.until: datetime | None = None
        """When the next step starts even if something is missing."""
        self.run: Any = None
        self.row: Any = None
        self.missing: frozenset[str] = frozenset()
        self.claimed: frozenset[str] = frozenset()
        """Signals that were still missing when the task was claimed."""

    def limit(self, until: datetime) -> None:
        """Set the limit. Raise a ValueError if there is a different one."""
        if self.until not in (None, until):
            raise ValueError(f"the next step already has the limit {self.until}, so it cannot have {until} as well")
        self.until = until

    @classmethod
    def of_run(cls, run: Journal[Any]) -> Self:
        """Return the run's waits. They stay in its additions even if a signal removes the row's attributes."""
        waits: Self = run.additions.setdefault("waits", cls())
        waits.run, waits.claimed = run, (run.claim.task.awaited_signals or frozenset()) - waits.names
        return waits

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Self:
        """Find the missing signals. If one has come that the run did not know, raise TaskNotReadyError."""
        waits, received = cls.of_run(run), (row.signals or {}).keys()
        if end_of(run.next_code):  # no later run would read one that has come
            waits.claimed |= row.tracker.awaited - (run.claim.task.signals or {}).keys()
        waits.row, waits.missing = row, waits.names - received
        if came := waits.claimed & received:
            run.unstarted = TaskNotReadyError(
                f"{run.claim} has decided without the signal {', '.join(sorted(came))}, which came during its run. The "
                "attempt is released, and the next one has the signal",
                task_id=row.task_id,
                task=row,
            )
            raise run.unstarted
        return waits

    @classmethod
    def giving_up_guards(cls, run: Journal[Any]) -> Sequence[Guard]:
        """Require that no signal has come since the claim, unless a retry would repeat a part."""
        if getattr(run.additions.get("checkpoints"), "is_stuck", False):
            return ()
        return [not_received(name) for name in sorted(cls.of_run(run).claimed)]

    def change(self, success: Transition) -> None:
        """Begin the next step's wait, and end this step's."""
        run, row, missing = self.run, self.row, self.missing
        children = follow_ups.waited if (follow_ups := run.additions.get("follow_ups")) else 0
        success.add(*(not_received(name) for name in sorted(missing | self.claimed)))
        if children or missing:
            success.due = self.until or clock.NEVER
            success.add(blockers=children or None, awaited_signals=missing or None, wait_until=self.until)
            if children:
                success.add(join_token=run.claim.token)
            if missing:
                success.add(signals=EMPTY_MAP)
        else:
            success.add(**dict.fromkeys(sorted(_OF_WAIT & row._row_state.stored.keys())))
        known = row.missed_signals or frozenset()
        missed = (known | self.claimed) - self.names
        if missed != known and not end_of(run.next_code):
            success.add(missed_signals=missed or None)
