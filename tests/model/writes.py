"""The writes of the library on an item in memory: their conditions and changes, as they would be sent."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any

from pynamodb.expressions.condition import And, Comparison, Condition, Exists, In, Not, NotExists, Or
from pynamodb.expressions.operand import Path, Value, _Increment
from pynamodb.expressions.update import RemoveAction, SetAction

from pynamodb_tracker.transitions.conditions import all_of
from pynamodb_tracker.transitions.prepared import Slot
from pynamodb_tracker.transitions.transition import Transition

__all__ = ["Item", "Slots", "Write", "plain", "typed", "written"]

Item = tuple[tuple[str, Any], ...]
"""An item: numbers as int, texts as str, lists of numbers as tuples, in the order of names."""
Slots = Mapping[str, Any]
Test = Callable[[dict[str, Any], Slots], bool]
Change = Callable[[dict[str, Any], dict[str, Any], Slots], None]

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INDEX = re.compile(r"(\w+)\[\d+\]")
_rendered: dict[tuple[Hashable, ...], tuple[Test, list[Change]]] = {}


class Write:
    """One write on its way: what it is called, the shape that its condition and changes depend on, and its values."""

    def __init__(self, transition: Transition, without: Collection[str] = ()) -> None:
        """Leave out the guards of these names."""
        self.name = transition.name
        shape, slots = transition.shape_and_slots()
        self.slots = tuple(sorted((name, _frozen(value)) for name, value in slots.items()))
        self.shape = (*shape, tuple(without))
        if self.shape not in _rendered:
            guards = [guard for guard in transition.guards if guard.part.__name__ not in without]
            test: Test = _test(all_of(guards)) if guards else lambda *_: True
            _rendered[self.shape] = test, [_change(action) for action in transition.actions]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Write) and (self.shape, self.slots) == (other.shape, other.slots)

    def __hash__(self) -> int:
        return hash((self.shape, self.slots))


def written(write: Write, item: Item) -> Item | None:
    """Return the item after a write; None if its condition does not hold."""
    before, slots = dict(item), dict(write.slots)
    test, changes = _rendered[write.shape]
    if not test(before, slots):
        return None
    after = dict(before)
    for change in changes:
        change(before, after, slots)
    return tuple(sorted(after.items()))


def typed(item: Item) -> dict[str, Any]:
    """Return an item in the form of DynamoDB's API."""
    return {name: _typed(value) for name, value in item}


def plain(item: Mapping[str, Any]) -> Item:
    """Return an item of DynamoDB's API as it is searched with."""
    return tuple(sorted((name, _plain(value)) for name, value in item.items()))


def _typed(value: Any) -> dict[str, Any]:
    match value:
        case int():
            return {"N": str(value)}
        case tuple():
            return {"L": [_typed(each) for each in value]}
        case _:
            return {"S": value}


def _plain(value: Mapping[str, Any]) -> Any:
    ((kind, stored),) = value.items()
    match kind:
        case "N":
            return int(stored)
        case "L":
            return tuple(_plain(each) for each in stored)
        case _:
            return stored


def _frozen(value: Any) -> Any:
    return tuple(_plain(each) for each in value) if isinstance(value, list) else value


def _test(condition: Condition) -> Test:  # noqa: PLR0911 - one for each kind
    """Return the function that evaluates a condition; a comparison with what is not there does not hold."""
    match condition:
        case And():
            one, other = map(_test, condition.values)
            return lambda item, slots: one(item, slots) and other(item, slots)
        case Or():
            one, other = map(_test, condition.values)
            return lambda item, slots: one(item, slots) or other(item, slots)
        case Not():
            (one,) = map(_test, condition.values)
            return lambda item, slots: not one(item, slots)
        case Exists():
            name = _name(condition.values[0])
            return lambda item, _: name in item
        case NotExists():
            name = _name(condition.values[0])
            return lambda item, _: name not in item
        case In():
            left, *rights = map(_operand, condition.values)
            return lambda item, slots: left(item, slots) in [right(item, slots) for right in rights]
        case Comparison():
            compared = _COMPARED[condition.operator]
            left, right = map(_operand, condition.values)

            def compare(item: dict[str, Any], slots: Slots) -> bool:
                one, other = left(item, slots), right(item, slots)
                return one is not None and other is not None and compared(one, other)

            return compare
        case _:
            raise TypeError(f"no rule for {condition!r}")


def _operand(operand: Any) -> Callable[[dict[str, Any], Slots], Any]:
    match operand:
        case Path():
            name = _name(operand)
            return lambda item, _: item.get(name)
        case Value():
            ((kind, value),) = operand.value.items()
            if not isinstance(value, Slot):
                constant = _plain({kind: value})
                return lambda *_: constant
            place = str(value)
            if kind == "N":
                return lambda _, slots: int(slots[place])
            return lambda _, slots: slots[place]
        case _Increment():
            one, other = map(_operand, operand.values)
            return lambda item, slots: one(item, slots) + other(item, slots)
        case _:
            raise TypeError(f"no rule for {operand!r}")


def _change(action: Any) -> Change:
    name, appends = _name(action.values[0]), _INDEX.fullmatch(action.values[0].path[-1])
    if isinstance(action, RemoveAction):
        return lambda _before, after, _slots: after.pop(name, None) and None
    assert isinstance(action, SetAction), action
    value = _operand(action.values[1])

    def change(before: dict[str, Any], after: dict[str, Any], slots: Slots) -> None:
        stored = value(before, slots)
        after[name] = (*before.get(name, ()), stored) if appends else stored

    return change


def _name(path: Path) -> str:
    (name,) = path.path
    found = _INDEX.fullmatch(name)
    return found[1] if found else name
