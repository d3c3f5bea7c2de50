"""A write of a task's row as data: its guards and new attributes. Everything except the values is its shape."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.connection.table import TableConnection
from pynamodb.constants import ALL_NEW, ALL_OLD, LIST, MAP, NUMBER
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path
from pynamodb.expressions.update import Action

from pynamodb_tracker.clock import stamp
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.results import payload_attribute
from pynamodb_tracker.model.row import OF_ROUND, TaskRow
from pynamodb_tracker.model.serialization import TimeAttribute
from pynamodb_tracker.writes.conditions import Guard, all_of
from pynamodb_tracker.writes.prepared import PreparedWrite, fill, slot

_TIMES = frozenset(name for name, attribute in TaskRow.get_attributes().items() if isinstance(attribute, TimeAttribute))
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


class NextFence(NamedTuple):
    """The row's attempt or fence plus one. A claim also appends its fence to `unfinished`."""

    def stored_after(self, item: Item, name: str) -> dict[str, Any]:
        """Return the attribute's new value in its stored form."""
        counted = {NUMBER: str(Decimal(item["fence" if name == "unfinished" else name][NUMBER]) + 1)}
        return {LIST: [*item[name][LIST], counted]} if name == "unfinished" else counted


class EmptyMap(NamedTuple):
    """An empty map, unless the row already has a map, to which others may have added entries."""


EMPTY_MAP = EmptyMap()
ONE_MORE = NextFence()
ZERO = Constant(0)

_RENDERED = frozenset({Constant, EmptyMap, NextFence, Same})
"""Kinds of values without a slot."""


class Appended(NamedTuple):
    """A stored entry to append to the row's `errors`."""

    entry: list[dict[str, Any]]
    is_first: bool
    """Whether the row may lack the list, which PartiQL cannot express."""


class Transition:
    """One write of a task's row."""

    # Building a dataclass would slow every cold start.
    __slots__ = (
        *("name", "code", "time", "due", "expires", "guards", "seen", "values", "assigned", "changes"),
        *("is_urgent", "returns_row", "returns_row_before"),
    )

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
        self.returns_row = False
        """Whether the response has the row after the write."""
        self.returns_row_before = False
        """Whether the response has the row before the write."""
        self.seen: dict[str, Any] = {}
        """Stored values for the guards' slots."""
        self.values: dict[str, Any] = {}
        """The tracker's new attributes by name. None removes an attribute."""
        self.assigned: Changes = {}
        """User attributes that the block has assigned."""
        self.changes: Changes = {}
        """Payload fingerprints and other user attributes. They take precedence over `assigned`."""

    def add(self, *guards: Guard, seen: Mapping[str, Any] | None = None, **values: Any) -> None:
        """Add guards, their slot values, and new attributes."""
        self.guards += guards
        if seen is not None:
            self.seen.update(seen)
        self.values.update(values)

    def replace_guard(self, old: Guard, new: Guard) -> None:
        """Replace one guard by another."""
        self.guards = tuple(new if each == old else each for each in self.guards)

    def follow(self, other: Transition) -> None:
        """Copy another transition's state, due time and attributes."""
        self.code, self.due, self.expires = other.code, other.due, other.expires
        self.values, self.changes = {**self.values, **other.values}, {**self.changes, **other.changes}

    def requires_same(self, other: Transition) -> bool:
        """Return whether both have the same guards and slot values."""
        return (self.guards, self.seen) == (other.guards, other.seen)

    def render(self, table: TableConnection) -> PreparedWrite:
        """Render the write, with slots for its values."""
        returned = ALL_OLD if self.returns_row_before else ALL_NEW if self.returns_row else None
        return PreparedWrite(table, condition=self.condition, actions=self.actions, return_values=returned)

    @property
    def actions(self) -> list[Action]:
        """The update's actions, with slots for the values."""
        actions: list[Action] = [] if self.code is None else [TaskRow.status.set(self.code)]
        actions += [_action(name, getattr(TaskRow, name), value) for name, value in self.values.items()]
        actions += [
            attribute.remove() if value is None else fill(attribute, f"own {name}", next(iter(value)))
            for name, (attribute, value) in {**self.assigned, **self.changes}.items()
        ]
        return actions

    @property
    def condition(self) -> Condition:
        """The write's condition, with slots for the values."""
        return all_of(self.guards)

    def shape_and_slots(self) -> tuple[tuple[Hashable, ...], dict[str, Any]]:  # noqa: C901, PLR0912 - see below
        """Return the shape and the stored slot values. Calling attributes would slow every run."""
        shape: list[Hashable] = [self.code, self.returns_row, self.returns_row_before, self.guards]
        slots, time, text = dict(self.seen), None, ""
        for name, value in self.values.items():
            shape.append(name)
            kind = type(value)
            if kind is str:
                slots[name] = value
            elif kind is datetime and name in _TIMES:
                if value is not time:
                    time, text = value, stamp(value)
                slots[name] = text
            elif kind is int:
                slots[name] = str(value)
            elif kind is Stored:
                slots[name] = value.value
            elif kind is list and not value:
                slots[name] = []
            elif value is None or kind in _RENDERED:
                shape.append(value)
            elif kind is Appended:
                shape.append(value.is_first)
                slots["entry"] = value.entry if value.is_first else value.entry[0][MAP]
            else:
                slots[name] = getattr(TaskRow, name).serialize(value)
        if self.assigned or self.changes:
            for name, (_, stored) in {**self.assigned, **self.changes}.items():
                if stored is None:
                    shape.append((name, None))
                else:
                    ((kind_of_own, slots[f"own {name}"]),) = stored.items()
                    shape.append((name, kind_of_own))
        return tuple(shape), slots

    def stored_after(self, item: Item) -> Item:
        """Return the stored row after the write, given the row before it."""
        after, (_, slots) = {**item}, self.shape_and_slots()
        if self.code is not None:
            after["status"] = {NUMBER: str(self.code)}
        for name, value in self.values.items():
            attribute: Attribute[Any] = getattr(TaskRow, name)
            if value is None:
                after.pop(attribute.attr_name, None)
            elif value is ONE_MORE:
                after[name] = value.stored_after(item, name)
            elif isinstance(value, Constant):
                after[attribute.attr_name] = {NUMBER: str(value.after)}
            elif (source := value.name if isinstance(value, Same) else name) in slots:
                after[attribute.attr_name] = {attribute.attr_type: slots[source]}
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
                gone.append(getattr(TaskRow, name).attr_name)
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
        case NextFence() if name == "unfinished":
            action = Path(attribute)[_PAST_THE_END].set(TaskRow.fence + 1)
        case NextFence():
            action = attribute.set(attribute + 1)
        case Appended(is_first=True):
            action = attribute.set((attribute | []).append(slot(attribute, "entry")))
        case Appended():
            entry: Any = slot(attribute, "entry", MAP)
            action = Path(attribute)[_PAST_THE_END].set(entry)
        case _:
            action = fill(attribute, value.name if isinstance(value, Same) else name)
    return action


def round_removals(row: TaskRow) -> dict[str, None]:
    """Return the row's attributes that a new round removes."""
    return dict.fromkeys(sorted(OF_ROUND & row._row_state.stored.keys()))


def payload_removals(model: TaskRow | type[TaskRow]) -> Changes:
    """Return changes that remove all payload fingerprints, as a new round does."""
    names = [payload_attribute(each.pending) for each in model.tracker.steps]
    return {name: (UnicodeAttribute(attr_name=name), None) for name in names}
