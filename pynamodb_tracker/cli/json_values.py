"""A task's attributes as JSON, for programs and for files; `load` reads back what `export` writes."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

from pynamodb import constants as kinds
from pynamodb.attributes import Attribute, JSONAttribute, UTCDateTimeAttribute

from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model.data import DataAttribute
from pynamodb_tracker.model.serialization import serialized
from pynamodb_tracker.task.task import Task

_NOUNS = {
    kinds.STRING: "a string",
    kinds.BOOLEAN: "true or false",
    kinds.NUMBER: "a number",
    kinds.BINARY: "a base64 string",
    kinds.STRING_SET: "a list of strings",
    kinds.NUMBER_SET: "a list of numbers",
    kinds.BINARY_SET: "a list of base64 strings",
    kinds.LIST: "a list",
    kinds.MAP: "an object",
}
"""What the values of each kind of attribute are in JSON."""

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def attributes_of(task: Task, unread: dict[str, Exception], *, with_data: bool = True) -> dict[str, Any]:
    """Return the user's attributes that have a value, as JSON; those that cannot be read are added to `unread`."""
    found = {}
    for name, attribute in task.tracker.own_attributes.items():
        is_data = isinstance(attribute, DataAttribute)
        if name in unread or (is_data and not with_data):
            continue
        try:
            value = _as_json(task, name, attribute)
        except LockLostError:  # the data was written again after the row was read
            raise
        except Exception as error:  # noqa: BLE001 - any value may be stored
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
    return None if stored is None else _from_stored(stored)


def _from_stored(stored: dict[str, Any]) -> Any:
    """Return a stored value as JSON: bytes as base64, sets as sorted lists."""
    ((kind, value),) = stored.items()
    match kind:
        case kinds.NUMBER:
            return json.loads(value)
        case kinds.BINARY:
            return base64.b64encode(value).decode()
        case kinds.STRING_SET | kinds.NUMBER_SET | kinds.BINARY_SET:
            return sorted(_from_stored({kind[0]: each}) for each in value)
        case kinds.LIST:
            return [_from_stored(each) for each in value]
        case kinds.MAP:
            return {name: _from_stored(each) for name, each in value.items()}
        case _:
            return None if kind == kinds.NULL else value


def from_json(attribute: Attribute[Any], value: Any) -> Any:
    """Return what `create` takes for an attribute; a ValueError says what is wrong with the value."""
    if value is None or isinstance(attribute, DataAttribute | JSONAttribute):
        return value
    if isinstance(attribute, UTCDateTimeAttribute):
        return time_of(value)
    stored = {attribute.attr_type: _to_stored(attribute.attr_type, value)}
    return attribute.deserialize(attribute.get_value(stored))


def from_text(attribute: Attribute[Any], text: str) -> Any:
    """Return what `create` takes for the text of a CSV field."""
    kind = attribute.attr_type
    if kind == kinds.BOOLEAN:
        return from_json(attribute, _BOOLEANS.get(text.lower(), text))
    is_text = kind in {kinds.STRING, kinds.BINARY} and not isinstance(attribute, DataAttribute | JSONAttribute)
    if is_text:
        return from_json(attribute, text)
    try:
        return from_json(attribute, json.loads(text))
    except json.JSONDecodeError:
        raise ValueError(f"{text!r} is not {_NOUNS[kind] if kind == kinds.NUMBER else 'JSON'}") from None


def time_of(value: object) -> datetime:
    """Return the time that a text says; one without a zone is in UTC."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f"{value!r} is not a time: write it as in 2026-01-31T12:00:00Z")
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _to_stored(kind: str, value: Any) -> Any:
    """Return the stored content of a JSON value, for an attribute of that kind."""
    match kind, value:
        case (kinds.STRING, str()) | (kinds.BOOLEAN, bool()):
            return value
        case kinds.NUMBER, int() | float() if not isinstance(value, bool):
            return json.dumps(value)
        case kinds.BINARY, str():
            return base64.b64decode(value, validate=True)
        case kinds.STRING_SET | kinds.NUMBER_SET | kinds.BINARY_SET, list():
            return [_to_stored(kind[0], each) for each in value]
        case kinds.LIST, list():
            return [_nested(each) for each in value]
        case kinds.MAP, dict():
            return {name: _nested(each) for name, each in value.items()}
        case _:
            raise ValueError(f"{value!r} is not {_NOUNS[kind]}")


def _nested(value: Any) -> dict[str, Any]:
    """Return a value inside of a list or a map as it is stored."""
    if value is None:
        return {kinds.NULL: True}
    types = {bool: kinds.BOOLEAN, int: kinds.NUMBER, float: kinds.NUMBER, str: kinds.STRING, list: kinds.LIST}
    kind = types.get(type(value), kinds.MAP)
    return {kind: _to_stored(kind, value)}
