"""A transition as data: what the write of a task's own row requires, and what the row has after it.

The expressions, the values of their slots, and the row in memory follow from it. All but the values is its shape, which
is rendered once for each step.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple, Protocol, cast

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
from pynamodb_tracker.transitions.conditions import Guard, all_of
from pynamodb_tracker.transitions.prepared import PreparedWrite, fill, slot

_TIMES = frozenset(name for name, attribute in TaskRow.get_attributes().items() if isinstance(attribute, TimeAttribute))
"""The attributes that `stamp` serializes."""

_PAST_THE_END = 9999
"""SET of an element beyond the end of a list appends it. A finish shortens the list; only dead claims extend it."""


class Special(Protocol):
    """A value of a transition that is more than what the attribute is set to; each is a tuple."""

    def action(self, attribute: Attribute[Any], name: str, /) -> Action:
        """Return the action that stores it."""


class Stored(NamedTuple):
    """A value that is given in its stored form, without its type; the row in memory does not get it."""

    value: Any

    def action(self, attribute: Attribute[Any], name: str) -> Action:
        """Return the action that stores it."""
        return fill(attribute, name)


class Constant(NamedTuple):
    """A number that is the same in each write of its shape."""

    after: int

    def action(self, attribute: Attribute[Any], _name: str) -> Action:
        """Return the action that stores it."""
        return attribute.set(self.after)


class Same(NamedTuple):
    """The value that another attribute gets."""

    name: str

    def action(self, attribute: Attribute[Any], _name: str) -> Action:
        """Return the action that stores it."""
        return fill(attribute, self.name)


class Added(NamedTuple):
    """A number that the table adds to what the row has by then, or to 0."""

    number: int
    after: int
    """What the row has after it, as far as is known."""

    def action(self, attribute: Attribute[Any], name: str) -> Action:
        """Return the action that adds it."""
        number: Any = slot(attribute, f"added {name}")
        return attribute.set((attribute | 0) + number)


class NextFence(NamedTuple):
    """One more than the row has: the attempt, and the fence of a claim, which is also appended to `unfinished`."""

    def action(self, attribute: Attribute[Any], name: str) -> Action:
        """Return the action that counts."""
        if name == "unfinished":
            return Path(attribute)[_PAST_THE_END].set(TaskRow.fence + 1)
        return attribute.set(attribute + 1)

    def stored_after(self, item: Item, name: str) -> dict[str, Any]:
        """Return what the attribute of that name is after it, in its stored form."""
        counted = {NUMBER: str(Decimal(item["fence" if name == "unfinished" else name][NUMBER]) + 1)}
        return {LIST: [*item[name][LIST], counted]} if name == "unfinished" else counted


class EmptyMap(NamedTuple):
    """An empty map, unless the row has one by then, with entries of others."""

    def action(self, attribute: Attribute[Any], _name: str) -> Action:
        """Return the action that stores it."""
        return attribute.set(attribute | {})


EMPTY_MAP = EmptyMap()
ONE_MORE = NextFence()
ZERO = Constant(0)

_RENDERED = frozenset({Constant, EmptyMap, NextFence, Same})
"""The kinds of values that have no slot."""


class Appended(NamedTuple):
    """An entry of `errors`, in its stored form, that comes after those that the row has by then."""

    entry: list[dict[str, Any]]
    is_first: bool
    """Whether the row may have no errors yet; no statement of PartiQL can express that."""

    def action(self, attribute: Attribute[Any], _name: str) -> Action:
        """Return the action that appends it."""
        if self.is_first:
            return attribute.set((attribute | []).append(slot(attribute, "entry")))
        entry: Any = slot(attribute, "entry", MAP)
        return Path(attribute)[_PAST_THE_END].set(entry)


class Transition:
    """One write of a task's own row."""

    __slots__ = (
        "assigned",
        "changes",
        "code",
        "due",
        "expires",
        "guards",
        "name",
        "returns_row",
        "returns_row_before",
        "seen",
        "values",
    )  # no dataclass: cold starts pay for building one

    def __init__(self, name: str, code: int | None, *guards: Guard, due: datetime | None = None) -> None:
        self.name = name
        """What docs/explanation/lock.md calls it."""
        self.code = code
        """The state after it; None if it stays."""
        self.guards = guards
        """What it requires."""
        self.due = due
        """When the task is due then; None for now."""
        self.expires = True
        """Whether a task that has ended gets a time to live, where the use case has one."""
        self.returns_row = False
        """Whether its response has the row after it."""
        self.returns_row_before = False
        """Whether its response has the row as it was, from which `stored_after` makes the row after it."""
        self.seen: dict[str, Any] = {}
        """The values of the slots of the guards, in their stored form."""
        self.values: dict[str, Any] = {}
        """The tracker's attributes after it, by name; None removes one."""
        self.assigned: Changes = {}
        """What the block has assigned to the user's attributes, as it is sent."""
        self.changes: Changes = {}
        """What else it does to attributes that depend on the class: the user's, in place of what is assigned to them,
        and the fingerprints of payloads."""

    def add(self, *guards: Guard, seen: Mapping[str, Any] | None = None, **values: Any) -> None:
        """Add guards with the values of their slots, and what the row has after it."""
        self.guards += guards
        if seen is not None:
            self.seen.update(seen)
        self.values.update(values)

    def instead(self, of: Guard, guard: Guard) -> None:
        """Require one thing in place of another."""
        self.guards = tuple(guard if each == of else each for each in self.guards)

    def follow(self, other: Transition) -> None:
        """Lead to where another transition leads."""
        self.code, self.due, self.expires = other.code, other.due, other.expires
        self.values, self.changes = {**self.values, **other.values}, {**self.changes, **other.changes}

    def requires_same(self, other: Transition) -> bool:
        """Return whether both require the same of the row."""
        return (self.guards, self.seen) == (other.guards, other.seen)

    def rendered(self, table: TableConnection) -> PreparedWrite:
        """Return the write with slots in place of its values."""
        returned = ALL_OLD if self.returns_row_before else ALL_NEW if self.returns_row else None
        return PreparedWrite(table, condition=self.condition, actions=self.actions, return_values=returned)

    @property
    def actions(self) -> list[Action]:
        """What the write changes, with slots in place of its values."""
        actions: list[Action] = [] if self.code is None else [TaskRow.status.set(self.code)]
        actions += [_action(name, getattr(TaskRow, name), value) for name, value in self.values.items()]
        actions += [
            attribute.remove() if value is None else fill(attribute, f"own {name}", next(iter(value)))
            for name, (attribute, value) in {**self.assigned, **self.changes}.items()
        ]
        return actions

    @property
    def condition(self) -> Condition:
        """The condition of the write, with slots in place of its values."""
        return all_of(self.guards)

    def shape_and_slots(self) -> tuple[tuple[Hashable, ...], dict[str, Any]]:  # noqa: C901, PLR0912 - see below
        """Return what the rendered write depends on, all but the values, and the values of its slots, as stored.

        This is part of every run: calls of attributes, or one for each kind of value, would take most of its time.
        """
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
            elif kind is Added:
                shape.append("added")
                slots[f"added {name}"] = str(value.number)
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
        """Return a row, in its stored form, as it is after the write, if it was `item` right before that."""
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
        """Let the row in memory have the tracker's attributes as they are after the write."""
        values, state, gone = task.attribute_values, task._row_state, []
        values["status"] = self.code
        for name, value in self.values.items():
            if value is None:
                values[name] = None
                gone.append(getattr(TaskRow, name).attr_name)
            elif isinstance(value, Added | Constant):
                values[name] = value.after
            elif not isinstance(value, tuple):
                values[name] = value
        if not state.stored.keys().isdisjoint(gone):
            state.stored = {name: value for name, value in state.stored.items() if name not in gone}


def _action(name: str, attribute: Attribute[Any], value: Any) -> Action:
    if value is None:
        return attribute.remove()
    if isinstance(value, tuple):
        return cast("Special", value).action(attribute, name)
    return fill(attribute, name)


def of_round(row: TaskRow) -> dict[str, None]:
    """Return which attributes another round of a task begins without, of those that its row has."""
    return dict.fromkeys(sorted(OF_ROUND & row._row_state.stored.keys()))


def without_payloads(model: TaskRow | type[TaskRow]) -> Changes:
    """Return what a new round forgets, the fingerprints of all steps: it may be started with another payload."""
    names = [payload_attribute(each.pending) for each in model.tracker.steps]
    return {name: (UnicodeAttribute(attr_name=name), None) for name in names}
