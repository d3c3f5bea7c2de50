"""A task's attributes as JSON, for programs and for files; `load` reads back what `export` writes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pynamodb.attributes import Attribute, JSONAttribute, UTCDateTimeAttribute
from pynamodb.constants import (
    BINARY,
    BINARY_SET,
    BOOLEAN,
    LIST,
    MAP,
    NULL,
    NUMBER,
    NUMBER_SET,
    STRING,
    STRING_SET,
)

from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model.data import DataAttribute
from pynamodb_tracker.model.serialization import serialized
from pynamodb_tracker.task.task import Task

__all__ = ["attributes_of", "from_json", "from_text", "time_of"]

_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def attributes_of(task: Task, unread: dict[str, Exception], *, with_data: bool = True) -> dict[str, Any]:
    """Return the user's attributes of a task that have a value, as JSON has them; `unread` gets what has none."""
    found = {}
    for name, attribute in task.tracker.own_attributes():
        is_data = isinstance(attribute, DataAttribute)
        if name in unread or (is_data and not with_data):
            continue
        try:
            value = _as_json(task, name, attribute)
        except LockLostError:  # it was written again since the row was read
            raise
        except Exception as error:  # noqa: BLE001 - whatever somebody stored
            unread[name] = error
            continue
        if value is not None and (value or not is_data):
            found[name] = value
    return found


def _as_json(task: Task, name: str, attribute: Attribute[Any] | DataAttribute) -> Any:
    value = getattr(task, name)
    if value is None or isinstance(attribute, DataAttribute | JSONAttribute):
        return value
    if isinstance(attribute, UTCDateTimeAttribute):
        return value.astimezone(UTC).isoformat()
    stored = serialized(task, name, attribute, complete=False)
    return None if stored is None else _plain(stored)


def _plain(stored: dict[str, Any]) -> Any:
    """Return a stored value as JSON has it: bytes as base64, sets as lists."""
    ((kind, value),) = stored.items()
    return _PLAIN[kind](value) if kind in _PLAIN else value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_PLAIN: dict[str, Callable[[Any], Any]] = {
    NUMBER: json.loads,
    NUMBER_SET: lambda values: sorted(map(json.loads, values)),
    BINARY: _base64,
    BINARY_SET: lambda values: sorted(map(_base64, values)),
    STRING_SET: sorted,
    LIST: lambda values: [_plain(value) for value in values],
    MAP: lambda values: {name: _plain(value) for name, value in values.items()},
    NULL: lambda _value: None,
}


def from_json(attribute: Attribute[Any], value: Any) -> Any:
    """Return what `create` takes for an attribute; a ValueError says what is wrong with the value."""
    if value is None or isinstance(attribute, DataAttribute | JSONAttribute):
        return value
    if isinstance(attribute, UTCDateTimeAttribute):
        return time_of(value)
    stored = {attribute.attr_type: _stored(attribute.attr_type, value)}
    return attribute.deserialize(attribute.get_value(stored))


def from_text(attribute: Attribute[Any], text: str) -> Any:
    """Return what `create` takes for the text of a CSV field; an empty one is no value."""
    if not text:
        return None
    kind = attribute.attr_type
    if kind == BOOLEAN:
        if text.lower() not in _TRUTHS:
            raise ValueError(f"{text!r} is neither true nor false")
        return _TRUTHS[text.lower()]
    if kind == NUMBER:
        return from_json(attribute, _parsed(text, "number"))
    if isinstance(attribute, DataAttribute | JSONAttribute) or kind not in {STRING, BINARY}:
        return from_json(attribute, _parsed(text, "JSON"))
    return from_json(attribute, text)


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"{text!r} is no {what}") from None


def time_of(value: object) -> datetime:
    """Return the time that a text says; one without a zone is in UTC."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f"{value!r} is no time: write it as 2026-01-31T12:00:00Z")
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _stored(kind: str, value: Any) -> Any:
    """Return the stored content of a value for an attribute of that kind."""
    noun, fits, store = _KINDS[kind]
    if not fits(value):
        raise ValueError(f"{value!r} is no {noun}")
    return store(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _bytes(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


def _nested(value: Any) -> dict[str, Any]:
    """Return a value inside of a list or a map as it is stored."""
    if value is None:
        return {NULL: True}
    if isinstance(value, bool):
        return {BOOLEAN: value}
    if isinstance(value, int | float):
        return {NUMBER: json.dumps(value)}
    if isinstance(value, str):
        return {STRING: value}
    if isinstance(value, list):
        return {LIST: [_nested(each) for each in value]}
    return {MAP: {name: _nested(each) for name, each in value.items()}}


_KINDS: dict[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    STRING: ("text", _is_text, str),
    BOOLEAN: ("truth, which is true or false", lambda value: isinstance(value, bool), bool),
    NUMBER: ("number", _is_number, json.dumps),
    BINARY: ("base64", _is_text, _bytes),
    STRING_SET: ("list of texts", _are(_is_text), list),
    NUMBER_SET: ("list of numbers", _are(_is_number), lambda values: [json.dumps(each) for each in values]),
    BINARY_SET: ("list of base64", _are(_is_text), lambda values: [_bytes(each) for each in values]),
    LIST: ("list", lambda value: isinstance(value, list), lambda value: _nested(value)[LIST]),
    MAP: ("object", lambda value: isinstance(value, dict), lambda value: _nested(value)[MAP]),
}
"""By kind of attribute: what its values are in JSON, how they are told, and how they are stored."""
