"""The stored form of values: what a row holds of an attribute, and whether two of them mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from pynamodb.attributes import Attribute, ListAttribute, MapAttribute
from pynamodb.constants import LIST, MAP, NULL, NUMBER, NUMBER_SET
from pynamodb.exceptions import AttributeNullError

from pynamodb_tracker.exceptions import ValueNotStorableError
from pynamodb_tracker.limits import SETS

if TYPE_CHECKING:
    from pynamodb_tracker.model import TaskRow

__all__ = ["Stored", "rewritten", "same", "serialized"]

_SHORT = 200
"""Characters of a text, or bits of a whole number, that an error shows."""

Stored = dict[str, dict[str, Any]]
"""A row, or a part of one, as DynamoDB's API has it."""


def serialized(row: TaskRow, name: str, attribute: Attribute[Any], *, complete: bool = True) -> dict[str, Any] | None:
    """Return the stored form of one attribute of a row, None where it has none; any failure names the attribute.

    Without `complete`, a map that lacks what it requires is let pass: an older row may.
    """
    try:
        stored = _serialized(row, name, attribute, complete=complete)
    except AttributeNullError as error:
        raise ValueNotStorableError(
            f"{_told(row, name)}: {error.attr_path} is missing, and it is required", attribute=name
        ) from error
    except Exception as error:  # whatever an attribute, the user's own ones included, makes of a wrong value
        raise ValueNotStorableError(
            f"{_told(row, name)} cannot be stored as {type(attribute).__name__}: {error}", attribute=name
        ) from error
    return None if stored is None else {attribute.attr_type: stored}


def _serialized(row: TaskRow, name: str, attribute: Attribute[Any], *, complete: bool) -> Any:
    value = row.attribute_values.get(name)
    if value is None:
        return None
    if isinstance(value, MapAttribute) and not value.validate(null_check=complete):
        raise ValueError("it is not correctly typed")
    if isinstance(attribute, ListAttribute | MapAttribute):
        return attribute.serialize(value, null_check=complete)
    return attribute.serialize(value)


def rewritten(row: TaskRow, name: str, attribute: Attribute[Any], old: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a stored value would become if it were read and written: text and numbers of others may differ."""
    copy = type(row).__new__(type(row))
    vars(copy)["attribute_values"] = {}
    attribute.__set__(copy, attribute.deserialize(attribute.get_value(old)))
    return serialized(copy, name, attribute, complete=False)


def _told(row: TaskRow, name: str) -> str:
    value = row.attribute_values.get(name)
    short = isinstance(value, float | None) or (isinstance(value, int) and value.bit_length() < _SHORT)
    shown = repr(value) if short else repr(value[:_SHORT]) if isinstance(value, str) else f"a {type(value).__name__}"
    return f"{type(row).__name__}.{name} = {shown}"


def same(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> bool:
    """Tell whether two stored values mean the same: sets in any order, numbers by value, None as nothing stored."""
    if old is None or new is None or NULL in old or NULL in new:
        return (old is None or NULL in old) and (new is None or NULL in new)
    ((kind, before),) = old.items()
    ((new_kind, after),) = new.items()
    return kind == new_kind and (before == after or _same(kind, before, after))


def _same(kind: str, before: Any, after: Any) -> bool:
    if kind == NUMBER:
        return _number(before) == _number(after)
    if kind == NUMBER_SET:
        return set(map(_number, before)) == set(map(_number, after))
    if kind in SETS:
        return set(before) == set(after)
    if kind == LIST:
        return len(before) == len(after) and all(map(same, before, after))
    if kind == MAP:
        return before.keys() == after.keys() and all(same(before[name], after[name]) for name in before)
    return False


def _number(content: str) -> Decimal | str:
    try:
        return Decimal(content)
    except InvalidOperation:
        return content
