"""Writes that PynamoDB renders once, with named slots that each request fills."""

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
"""PynamoDB's placeholder for a value."""


class Slot(str):
    """The name of a value that each request fills in."""

    __slots__ = ()


def slot(attribute: Attribute[Any], name: str, kind: str | None = None) -> object:
    """Return an operand for a slot with the attribute's type, or `kind`."""
    return {kind or attribute.attr_type: Slot(name)}


def fill(attribute: Attribute[Any], name: str, kind: str | None = None) -> Action:
    """Return the action that sets an attribute to a slot's value."""
    value: Any = slot(attribute, name, kind)
    return attribute.set(value)


class PreparedWrite:
    """An UpdateItem or DeleteItem that is rendered once and filled per request."""

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
        """Return the request for one row, with a stored value per slot."""
        filled = dict(self._fixed)
        for place, kind, name in self._open:
            filled[place] = {kind: values[name]}
        return {**self._rendered, KEY: key, EXPRESSION_ATTRIBUTE_VALUES: filled}


def _each_once(rendered: dict[str, Any], values: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Give equal values one placeholder, because serializing values takes the client a long time."""
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
