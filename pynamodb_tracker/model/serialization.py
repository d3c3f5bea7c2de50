"""The stored form of values, for those that read back equal: what a row holds, and whether two mean the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import TYPE_CHECKING, Any

from pynamodb.attributes import (
    Attribute,
    BinarySetAttribute,
    BooleanAttribute,
    DynamicMapAttribute,
    JSONAttribute,
    ListAttribute,
    MapAttribute,
    NumberSetAttribute,
    UnicodeSetAttribute,
    UTCDateTimeAttribute,
)
from pynamodb.constants import LIST, MAP, NULL, NUMBER, NUMBER_SET
from pynamodb.exceptions import AttributeNullError

from pynamodb_tracker.arguments import did_you_mean
from pynamodb_tracker.dynamodb.limits import SETS
from pynamodb_tracker.exceptions import ValueNotStorableError

if TYPE_CHECKING:
    from pynamodb_tracker.model.row import TaskRow

__all__ = [
    "Stored",
    "check_json",
    "check_map",
    "of_default",
    "reads_back",
    "refuse_json",
    "rewritten",
    "same",
    "serialized",
]

_NO_ENTRIES = frozenset({"self", "_user_instantiated"})
"""Parameters of PynamoDB's own."""
_SHORT = 200
"""Characters of a text, or bits of a whole number, that an error shows."""

_KINDS: Mapping[Any, tuple[tuple[type, ...], str]] = {
    BinarySetAttribute: ((set, frozenset), "a set"),
    ListAttribute: ((list,), "a list"),
    NumberSetAttribute: ((set, frozenset), "a set"),
    UnicodeSetAttribute: ((set, frozenset), "a set"),
    UTCDateTimeAttribute: ((datetime,), "a datetime"),
}
"""What PynamoDB's attributes read back; of some other kinds they would store something else."""

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
    kind: Any = type(attribute)
    own = _own(kind)
    _check_kind(own, value)
    if isinstance(value, MapAttribute) and not value.validate(null_check=complete):
        raise ValueError("it is not correctly typed")
    if isinstance(attribute, ListAttribute | MapAttribute):
        return attribute.serialize(value, null_check=complete)
    text = attribute.serialize(value)
    if own is JSONAttribute and not _is_as_loaded(row, attribute, text):
        check_json(value, text, name)
    return text


def _check_kind(own: Any, value: object) -> None:
    """Refuse what PynamoDB would take for something else: text as a list of its letters, any value as a truth."""
    if own is BooleanAttribute and value not in (True, False):
        raise TypeError("write True or False")
    if own in _KINDS:
        kinds, told = _KINDS[own]
        if not isinstance(value, kinds):
            raise TypeError(f"write {told}, not a {type(value).__name__}")


@cache
def _own(kind: Any) -> Any:
    """Return PynamoDB's class of an attribute, None where its `serialize` is the user's own and takes what it likes."""
    known = (*_KINDS, BooleanAttribute, JSONAttribute)
    return next((own for own in known if issubclass(kind, own) and kind.serialize is own.serialize), None)


def _is_as_loaded(row: TaskRow, attribute: Attribute[Any], text: str) -> bool:
    """Tell whether a row was loaded with this text, however formatted: others may store what JSON does not have."""
    stored: Stored = vars(row).get("_stored") or {}
    loaded = stored.get(attribute.attr_name, {}).get(attribute.attr_type)
    return loaded is not None and text in (loaded, attribute.serialize(attribute.deserialize(loaded)))


def check_json(value: object, text: str, path: str) -> None:
    """Raise unless the text is JSON that reads back equal; a TypeError or ValueError names the entry that does not."""
    if not reads_back(text, value):
        refuse_json(value, path)
        raise ValueError(f"{path} does not read back from JSON as it is")


def reads_back(text: str, value: object) -> bool:
    """Tell whether the text is JSON that reads back equal."""
    try:
        return bool(_JSON.decode(text) == value)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"JSON has no {constant}")


_JSON = json.JSONDecoder(parse_constant=_refuse_constant)


def refuse_json(value: object, path: str, parents: tuple[int, ...] = ()) -> None:
    """Raise for the first entry, by its path, that JSON would refuse or would read back as something else."""
    if id(value) in parents:
        raise ValueError(f"{path} contains itself")
    parents = (*parents, id(value))
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}: keys are strings in JSON")
            refuse_json(entry, f"{path}[{key!r}]", parents)
    elif isinstance(value, list):
        for position, entry in enumerate(value):
            refuse_json(entry, f"{path}[{position}]", parents)
    elif not isinstance(value, str | int | float | bool | None):
        raise TypeError(f"{path} is a {type(value).__name__}: JSON has text, numbers, booleans, None, lists and dicts")
    elif isinstance(value, float) and not float("-inf") < value < float("inf"):
        raise ValueError(f"{path} is {value!r}, which JSON does not have")


def check_map(owner: str, name: str, attribute: MapAttribute[Any, Any], value: Mapping[Any, Any]) -> None:
    """Refuse what PynamoDB, which takes the entries of a map for arguments, cannot make a map of, or would drop."""
    known = attribute.get_attributes()
    for key in value:
        if not isinstance(key, str):
            mistake = f"{key!r} is not text"
        elif key in _NO_ENTRIES:
            mistake = f"an entry cannot be named {key!r}"
        elif known and key not in known and not isinstance(attribute, DynamicMapAttribute):
            mistake = f"it has no {key!r}{did_you_mean(key, known)}"
        else:
            continue
        raise ValueNotStorableError(f"{owner}.{name} cannot be stored: {mistake}", attribute=name)


def rewritten(row: TaskRow, name: str, attribute: Attribute[Any], old: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a stored value would become if it were read and written: text and numbers of others may differ."""
    if NULL in old:
        return None
    copy = type(row).__new__(type(row))
    vars(copy).update(attribute_values={}, _stored={attribute.attr_name: old})
    attribute.__set__(copy, attribute.deserialize(attribute.get_value(old)))
    return serialized(copy, name, attribute, complete=False)


def of_default(model: type[TaskRow], name: str, attribute: Attribute[Any], value: object) -> dict[str, Any] | None:
    """Return the stored form of a value that is in no row."""
    row = model.__new__(model)
    vars(row)["attribute_values"] = {}
    attribute.__set__(row, value)
    return serialized(row, name, attribute)


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
