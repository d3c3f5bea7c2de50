"""A write of a task's row as data, and how the writes of a step are completed, rendered and sent.

A write has guards and new attributes. Everything except the values is its shape, which is rendered once.
"""

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Generic, NamedTuple, Self, TypeVar

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.connection.table import TableConnection
from pynamodb.constants import ALL_OLD, LIST, MAP, NUMBER, RETURN_VALUES, STRING
from pynamodb.exceptions import PynamoDBConnectionError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path
from pynamodb.expressions.update import Action

from pynamodb_tracker import clock
from pynamodb_tracker.clock import stamp
from pynamodb_tracker.dynamodb.connection import Item, send
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.results import payload_attribute, result_attribute
from pynamodb_tracker.model.row import OF_ROUND, TaskRow, check_tracker_attributes, load
from pynamodb_tracker.model.serialization import TimeAttribute
from pynamodb_tracker.model.status import Codes, end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import Guard, PreparedWrite, all_of, fill, parameter

T = TypeVar("T", bound=TaskRow)

_ATTRIBUTES: dict[str, Attribute[Any]] = TaskRow.get_attributes()
_STORED = {name: (attribute.attr_name, attribute.attr_type) for name, attribute in _ATTRIBUTES.items()}
"""Stored names and types, because asking PynamoDB's attributes for them would slow every run."""

_TIMES = frozenset(name for name, attribute in _ATTRIBUTES.items() if isinstance(attribute, TimeAttribute))
_PAST_THE_END = 9999
"""SET beyond a list's end appends to it."""


class Stored(NamedTuple):
    """A value in its stored form, without its type. It is not copied to the row in memory."""

    value: Any


class Constant(NamedTuple):
    """A fixed number, part of the shape."""

    after: int


class Same(NamedTuple):
    """The new value of another attribute."""

    name: str


class OneMore(NamedTuple):
    """The row's attempt or fence, plus one. In `unfinished`, the list with that fence appended."""

    def stored_after(self, item: Item, name: str) -> dict[str, Any]:
        counted = {NUMBER: str(Decimal(item["fence" if name == "unfinished" else name][NUMBER]) + 1)}
        return {LIST: [*item[name][LIST], counted]} if name == "unfinished" else counted


class EmptyMap(NamedTuple):
    """An empty map, unless the row already has a map, to which others may have added entries."""


EMPTY_MAP = EmptyMap()
ONE_MORE = OneMore()
ZERO = Constant(0)

_RENDERED = frozenset({Constant, EmptyMap, OneMore, Same})
"""Kinds of values without a parameter."""


class Appended(NamedTuple):
    """A stored entry to append to the row's `errors`."""

    entry: list[dict[str, Any]]
    is_first: bool
    """Whether the row may lack the list, which PartiQL cannot express."""


class Transition:
    # Building a dataclass would slow every cold start.

    def __init__(self, name: str, code: int | None, *guards: Guard, due: datetime | None = None) -> None:
        self.name = name
        """Its name in docs/explanation/lock.md."""
        self.code = code
        """The new state, or None to keep the state."""
        self.guards = guards
        self.time: datetime | None = None
        """When the task changes its state. None keeps its index key and times."""
        self.due = due
        """The new due time, or None for now."""
        self.expires = True
        """Whether a finished task gets the use case's time to live."""
        self.is_urgent = False
        self.returns: str | None = None
        """Whether the response has the row after the write (ALL_NEW) or before it (ALL_OLD)."""
        self.seen: dict[str, Any] = {}
        """Stored values for the guards' parameters."""
        self.parameters: dict[str, Any] = {}
        """All stored parameters, once it is completed."""
        self.values: dict[str, Any] = {}
        """The tracker's new attributes by name. None removes an attribute."""
        self.assigned: Changes = {}
        """User attributes that the block has assigned."""
        self.changes: Changes = {}
        """Payload fingerprints and other user attributes. They take precedence over `assigned`."""

    def add(self, *guards: Guard, seen: Mapping[str, Any] | None = None, **values: Any) -> None:
        """Add guards, their parameters, and new attributes."""
        self.guards += guards
        if seen is not None:
            self.seen.update(seen)
        self.values.update(values)

    def drop_entries(self, last_error: str) -> None:
        """Leave out the errors, because the row is too full."""
        self.add(errors=Stored([]))
        if "last_error" in self.values:
            self.add(last_error=last_error)
        self.values.pop("last_run", None)

    def replace_guard(self, old: Guard, new: Guard) -> None:
        self.guards = tuple(new if each == old else each for each in self.guards)

    def follow(self, other: Self) -> None:
        """Copy another transition's state, due time and attributes."""
        self.code, self.due, self.expires = other.code, other.due, other.expires
        self.values, self.changes = {**self.values, **other.values}, {**self.changes, **other.changes}

    def requires_same(self, other: Self) -> bool:
        return (self.guards, self.seen) == (other.guards, other.seen)

    def render(self, table: TableConnection) -> PreparedWrite:
        return PreparedWrite(table, condition=self.condition, actions=self.actions, return_values=self.returns)

    @property
    def actions(self) -> list[Action]:
        actions: list[Action] = [] if self.code is None else [TaskRow.status.set(self.code)]
        actions += [_action(name, getattr(TaskRow, name), value) for name, value in self.values.items()]
        actions += [
            attribute.remove() if value is None else fill(attribute, f"own {name}", next(iter(value)))
            for name, (attribute, value) in {**self.assigned, **self.changes}.items()
        ]
        return actions

    @property
    def condition(self) -> Condition:
        return all_of(self.guards)

    def shape_and_parameters(self) -> tuple[tuple[Hashable, ...], dict[str, Any]]:  # noqa: C901, PLR0912 - see below
        """Return the shape and the stored parameters. Calling attributes would slow every run."""
        shape: list[Hashable] = [self.code, self.returns, self.guards]
        parameters, time, text = dict(self.seen), None, ""
        for name, value in self.values.items():
            shape.append(name)
            kind = type(value)
            if kind is str:
                parameters[name] = value
            elif kind is datetime and name in _TIMES:
                if value is not time:
                    time, text = value, stamp(value)
                parameters[name] = text
            elif kind is int:
                parameters[name] = str(value)
            elif kind is Stored:
                parameters[name] = value.value
            elif kind is list and not value:
                parameters[name] = []
            elif value is None or kind in _RENDERED:
                shape.append(value)
            elif kind is Appended:
                shape.append(value.is_first)
                parameters["entry"] = value.entry if value.is_first else value.entry[0][MAP]
            else:
                parameters[name] = _ATTRIBUTES[name].serialize(value)
        if self.assigned or self.changes:
            for name, (_, stored) in {**self.assigned, **self.changes}.items():
                if stored is None:
                    shape.append((name, None))
                else:
                    ((kind_of_own, parameters[f"own {name}"]),) = stored.items()
                    shape.append((name, kind_of_own))
        return tuple(shape), parameters

    def stored_after(self, item: Item) -> Item:
        """Return the stored row after the completed write, given the row before it."""
        after, parameters = {**item}, self.parameters
        if self.code is not None:
            after["status"] = {NUMBER: str(self.code)}
        for name, value in self.values.items():
            stored_name, kind = _STORED[name]
            if value is None:
                after.pop(stored_name, None)
            elif value is ONE_MORE:
                after[name] = value.stored_after(item, name)
            elif isinstance(value, Constant):
                after[stored_name] = {NUMBER: str(value.after)}
            elif (source := value.name if isinstance(value, Same) else name) in parameters:
                after[stored_name] = {kind: parameters[source]}
        for attribute, stored in {**self.assigned, **self.changes}.values():
            if stored is None:
                after.pop(attribute.attr_name, None)
            else:
                after[attribute.attr_name] = stored
        return after

    def apply_to(self, task: TaskRow) -> None:
        """Update the tracker's attributes in memory."""
        values, state, gone = task.attribute_values, task._row_state, []
        values["status"] = self.code
        for name, value in self.values.items():
            if value is None:
                values[name] = None
                gone.append(_STORED[name][0])
            elif isinstance(value, Constant):
                values[name] = value.after
            elif not isinstance(value, tuple):
                values[name] = value
        if not state.stored.keys().isdisjoint(gone):
            state.stored = {name: value for name, value in state.stored.items() if name not in gone}


def _action(name: str, attribute: Attribute[Any], value: Any) -> Action:
    action: Action
    match value:
        case None:
            action = attribute.remove()
        case Constant():
            action = attribute.set(value.after)
        case EmptyMap():
            action = attribute.set(attribute | {})
        case OneMore() if name == "unfinished":
            action = Path(attribute)[_PAST_THE_END].set(TaskRow.fence + 1)
        case OneMore():
            action = attribute.set(attribute + 1)
        case Appended(is_first=True):
            action = attribute.set((attribute | []).append(parameter(attribute, "entry")))
        case Appended():
            entry: Any = parameter(attribute, "entry", MAP)
            action = Path(attribute)[_PAST_THE_END].set(entry)
        case _:
            action = fill(attribute, value.name if isinstance(value, Same) else name)
    return action


_MOST_SHAPES = 128
"""How many rendered writes a step keeps."""

WhenIgnored = Callable[[T], Any]
"""Returns the OptionalParticipant to include when a task is ignored. It gets the future row."""


class StepStatements(Generic[T]):
    def __init__(
        self, model: type[T], codes: Codes, max_attempts: int, when_ignored: WhenIgnored[T] | None = None
    ) -> None:
        self.model = model
        self.codes = codes
        self.max_attempts = max_attempts
        self.when_ignored = when_ignored
        self.has_expiry = model.tracker.use_case.has_expiry
        self.result = UnicodeAttribute(attr_name=result_attribute(codes.pending), null=True)
        self.payload = UnicodeAttribute(attr_name=payload_attribute(codes.pending))
        self._rendered: dict[tuple[Hashable, ...], PreparedWrite] = {}

    def send(
        self, transition: Transition, task_id: str, *, until: datetime | None = None, shows_row: bool = False
    ) -> dict[str, Any]:
        """Send a transition. With `shows_row`, a refusal contains the row, at no charge."""
        request = self._request(transition, task_id)
        if shows_row:
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return send(self.table, "UpdateItem", request, until=until)

    def as_action(self, transition: Transition, task_id: str) -> dict[str, Any]:
        request = self._request(transition, task_id)
        request.pop(RETURN_VALUES, None)
        return {"Update": {"TableName": self.table.table_name, **request}}

    def complete(self, transition: Transition, task_id: str) -> tuple[Hashable, ...]:
        """Add the index key and times to a change of state, unless it sets them itself. Return the shape.

        The stored parameters are kept in the transition.
        """
        if (now := transition.time) is not None:
            tracker, code, due = self.model.tracker, transition.code or 0, transition.due
            moves: dict[str, Any] = {
                "status_key": tracker.status_key(code, task_id, is_urgent=transition.is_urgent),
                "due_time": now if due is None or due <= now else due,
                "update_time": now,
            }
            if self.has_expiry and transition.expires and (expiry := tracker.expiry_of(code, now)):
                moves["expire_time"] = Stored(expiry)
            transition.values = {**moves, **transition.values}
        shape, transition.parameters = transition.shape_and_parameters()
        return shape

    @property
    def table(self) -> TableConnection:
        return self.model.tracker.connection()

    def _request(self, transition: Transition, task_id: str) -> dict[str, Any]:
        shape = self.complete(transition, task_id)
        write = self._rendered.get(shape)
        if write is None:
            if len(self._rendered) >= _MOST_SHAPES:
                self._rendered.clear()
            write = self._rendered[shape] = transition.render(self.table)
        return write.request(self.model.tracker.key(task_id), transition.parameters)

    def claim(
        self,
        token: str,
        worker: str,
        now: datetime,
        lock_for: timedelta,
        *,
        code: int | None,
        payload: str | None,
        on_time: bool = False,
        parked: bool = False,
    ) -> Transition:
        """Build the claim on a runnable or abandoned task, which every run sends first.

        With a `code`, it claims from that state, as the first attempt at this step. If the task is still `parked`, its
        wait ends now. `payload` is a fingerprint. `on_time` leaves out the clock margin.
        """
        claim = Transition("claim" if code is None else "claim from", self.codes.in_progress, due=now + lock_for)
        claim.time, claim.guards = now, self._startable
        if code is not None:
            claim.guards = when.has_status(code), when.is_due(), when.later_token(), when.known_format()
            if code not in self.codes.own:
                claim.add(when.lacks("cancelled"))
        claim.seen = {**times_seen(now, self.model.tracker.margin), "max_attempts": str(self.max_attempts)}
        if on_time:
            claim.seen["now_plus_margin"] = clock.stamp(now)
        claim.returns = ALL_OLD
        claim.values = {
            "attempt": ONE_MORE if code is None else Constant(1),
            "lock_expire_time": Same("due_time"),
            "lock": token,
            "worker": worker,
            "fence": ONE_MORE,
            "unfinished": ONE_MORE,
            "saves": ZERO,
            "expire_time": None,
        }
        if code is not None:
            claim.add(postpone_count=None, first_failure=None)
            if parked:
                claim.add(wait_until=now)
        if end_of(code):
            claim.add(round=Same("lock"), signals=None, **dict.fromkeys(sorted(OF_ROUND)))
        if payload is not None:
            claim.add(when.same_payload(self.payload.attr_name))
            claim.changes = {self.payload.attr_name: (self.payload, {STRING: payload})}
        return claim

    def prepare(self, *, with_payload: bool) -> None:
        """Render the first run's claim in advance."""
        now, payload = clock.now(), "" if with_payload else None
        self._request(self.claim("", "", now, timedelta(0), code=None, payload=payload), "")

    @cached_property
    def _startable(self) -> tuple[Guard, ...]:
        return when.startable(self.codes), when.under_limit(), when.later_token(), when.known_format()

    @cached_property
    def held_by_run(self) -> tuple[Guard, ...]:
        """The guard for all of a run's writes."""
        return (when.held_by_run(self.codes),)

    def save(self, token: str, number: int, changes: Changes | None = None, *, name: str = "save") -> Transition:
        """Build a save of the block's changes, which writes no indexed attribute.

        The row counts each save, so late copies of earlier saves are refused. In a transaction, a save without changes
        checks the lock and leaves a trace in the row.
        """
        save = Transition(name, None, *self.held_by_run, when.later_save())
        save.seen, save.values, save.assigned = {"lock": token}, {"saves": number}, changes or {}
        return save


def is_parked(row: TaskRow) -> bool:
    """Return whether a task waits for others, for its turn, or for signals."""
    return not {"blockers", "awaited_signals"}.isdisjoint(row._row_state.stored)


def is_urgent(row: TaskRow) -> bool:
    return "urgent" in row._row_state.stored


def waits_until(row: TaskRow) -> datetime | None:
    """Return a waiting task's limit, or None if it waits for nothing."""
    wait_until: datetime | None = row.wait_until
    return wait_until or clock.NEVER if is_parked(row) else None


def times_seen(now: datetime, margin: timedelta) -> dict[str, str]:
    """Return the parameters for `is_due` and `lock_expired`."""
    return {"now_plus_margin": clock.stamp(now + margin), "now_minus_margin": clock.stamp(now - margin)}


def get(model: type[T], task_id: str, *, until: datetime | None = None) -> T | None:
    """Read a task with strong consistency. Raise a TaskError if the tracker's attributes are damaged."""
    request = {"Key": model.tracker.key(task_id), "ConsistentRead": True}
    item = send(model.tracker.table.connection(), "GetItem", request, until=until).get("Item")
    return load_checked(model, item) if item else None


def load_checked(model: type[T], item: Item) -> T:
    """Load a task from an item. Raise a TaskError if the tracker's attributes are damaged."""
    return check_tracker_attributes(load(model, item))


def raise_if_damaged(model: type[T], task_id: str, error: PynamoDBConnectionError) -> None:
    """Raise a TaskError if damaged tracker attributes have made an update invalid."""
    if is_invalid(error):
        get(model, task_id)
