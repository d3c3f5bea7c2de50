"""A write whose expressions PynamoDB rendered once, with named slots that each request fills."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.connection.table import TableConnection
from pynamodb.constants import CONDITION_EXPRESSION, EXPRESSION_ATTRIBUTE_VALUES, KEY, TABLE_NAME, UPDATE_EXPRESSION
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from pynamodb_tracker.dynamodb.partiql import Rendered

_PLACE = re.compile(r":\d+")
"""The placeholder of a value in PynamoDB's expressions."""


class Slot(str):
    """Stands for a value that is only known at the request; the text is its name."""

    __slots__ = ()


def slot(attribute: Attribute[Any], name: str, kind: str | None = None) -> object:
    """Return an operand that stands for a value of the attribute; `kind` is its type if the attribute has another."""
    return {kind or attribute.attr_type: Slot(name)}


def fill(attribute: Attribute[Any], name: str, kind: str | None = None) -> Action:
    """Return the action that sets an attribute to the value of a slot."""
    value: Any = slot(attribute, name, kind)
    return attribute.set(value)


class PreparedWrite:
    """An UpdateItem or DeleteItem: rendered by PynamoDB once, and filled for each request."""

    def __init__(
        self,
        table: TableConnection,
        *,
        condition: Condition,
        actions: Sequence[Action] | None = None,
        return_values: str | None = None,
    ) -> None:
        rendered: dict[str, Any] = table.get_operation_kwargs(
            "", "", condition=condition, actions=actions, return_values=return_values
        )
        values: dict[str, dict[str, Any]] = rendered.pop(EXPRESSION_ATTRIBUTE_VALUES)
        del rendered[KEY], rendered[TABLE_NAME]
        values = _each_once(rendered, values)
        for expression, source in ((CONDITION_EXPRESSION, condition), (UPDATE_EXPRESSION, actions)):
            if source is not None and expression in rendered:
                rendered[expression] = Rendered.of(rendered[expression], source, values)
        self._rendered = rendered
        self._fixed = {
            place: value for place, value in values.items() if not isinstance(next(iter(value.values())), Slot)
        }
        self._open = [
            (place, kind, name)
            for place, value in values.items()
            for kind, name in value.items()
            if place not in self._fixed
        ]

    def request(self, key: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request for one row; `values` has the stored form of every slot."""
        filled = dict(self._fixed)
        for place, kind, name in self._open:
            filled[place] = {kind: values[name]}
        return {**self._rendered, KEY: key, EXPRESSION_ATTRIBUTE_VALUES: filled}


def _each_once(rendered: dict[str, Any], values: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Give equal values one placeholder; PynamoDB gives each occurrence its own.

    A request then has fewer values to serialize, which takes most of the client's time.
    """
    places: dict[object, str] = {}
    first = {
        place: places.setdefault((kind, type(value), value) if isinstance(value, str) else place, place)
        for place, typed in values.items()
        for kind, value in typed.items()
    }
    for expression in (CONDITION_EXPRESSION, UPDATE_EXPRESSION):
        if expression in rendered:
            rendered[expression] = _PLACE.sub(lambda place: first[place[0]], rendered[expression])
    return {place: value for place, value in values.items() if first[place] == place}
