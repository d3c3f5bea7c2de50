"""How the tracker's own attributes are stored: integers, times, the list of fences, and the user's dictionary."""

from __future__ import annotations

import json
import threading
from datetime import datetime
from typing import Any, cast

from pynamodb.attributes import Attribute, UTCDateTimeAttribute
from pynamodb.constants import LIST, NUMBER, STRING

from pynamodb_tracker import clock

__all__ = ["DataAttribute", "FencesAttribute", "IntegerAttribute", "TimeAttribute"]


class IntegerAttribute(Attribute[int]):
    """A whole number; PynamoDB's own number attribute is a float to type checkers."""

    attr_type = NUMBER

    def serialize(self, value: int) -> str:
        """Return the digits."""
        return str(int(value))

    def deserialize(self, value: str) -> int:
        """Return the integer."""
        return int(value)


class TimeAttribute(UTCDateTimeAttribute):
    """A time in UTC with microseconds, stored so that the order of the strings is the order of time."""

    def serialize(self, value: datetime) -> str:
        """Return the stored form; a naive time is a ValueError, because it could mean any zone."""
        if value.tzinfo is None:
            raise ValueError(f"{self.attr_name} needs an aware datetime, not {value!r}: add tzinfo=UTC")
        return clock.stamp(value)


class FencesAttribute(Attribute[list[int]]):
    """A list of whole numbers."""

    attr_type = LIST

    def serialize(self, value: list[int]) -> list[dict[str, str]]:
        """Return the stored list."""
        return [{NUMBER: str(fence)} for fence in value]

    def deserialize(self, value: list[dict[str, str]]) -> list[int]:
        """Return the numbers."""
        return [int(fence[NUMBER]) for fence in value]


_first_touch = threading.Lock()


class _Unread(str):
    """The stored text of `data` that nobody has looked at yet."""

    __slots__ = ()


class DataAttribute(Attribute[dict[str, Any]]):
    """The user's dictionary, stored as JSON text and parsed when it is first touched; an empty one is not stored."""

    attr_type = STRING

    def __init__(self) -> None:
        super().__init__(null=True)

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Return the dictionary of a row, the same object each time, so that nested changes of it count."""
        if instance is None:
            return self
        values = instance.attribute_values
        if values.get("data") is None or isinstance(values["data"], _Unread):
            with _first_touch:  # of two threads, both get the dictionary of the first
                value = values.get("data")
                if value is None or isinstance(value, _Unread):
                    values["data"] = {} if value is None else json.loads(value)
        return values["data"]

    def stored(self, instance: Any) -> str | None:
        """Return the stored form of a row's dictionary, without parsing it where nobody touched it."""
        value = instance.attribute_values.get("data")
        return str(value) if isinstance(value, _Unread) else self.serialize(value)

    def rewritten(self, instance: Any, text: str) -> str:
        """Return stored text as this attribute would write it, where it still means what the row's dictionary says."""
        before = json.loads(text)
        return _dumped(before) if before == instance.attribute_values.get("data") else text

    def serialize(self, value: dict[str, Any] | None) -> str | None:
        """Return compact JSON that reads back equal; a TypeError or ValueError names the entry that would not."""
        if not value:
            if value is not None and not isinstance(value, dict):
                raise TypeError(f"data is a dictionary, not {value!r}")
            return None
        if not isinstance(value, dict):
            raise TypeError(f"data is a dictionary, not a {type(value).__name__}")
        try:
            text = _dumped(value)
            faithful = json.loads(text) == value
        except (TypeError, ValueError, RecursionError) as error:
            _refuse(value, "data", ())
            raise ValueError(f"data cannot be told in JSON: {error}") from error
        if not faithful:
            _refuse(value, "data", ())
            raise ValueError("data does not read back from JSON as it is")
        return text

    def deserialize(self, value: str) -> dict[str, Any]:
        """Keep the text until somebody looks at it."""
        return cast("dict[str, Any]", _Unread(value))


def _dumped(value: dict[str, Any]) -> str:
    """Return compact JSON, in which text stays as it is, unless a lone surrogate in it has no UTF-8."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def _refuse(value: object, path: str, parents: tuple[int, ...]) -> None:
    """Raise for the first entry, by its path, that JSON would refuse or would read back as something else."""
    if id(value) in parents:
        raise ValueError(f"{path} contains itself")
    parents = (*parents, id(value))
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}: keys are strings in JSON")
            _refuse(entry, f"{path}[{key!r}]", parents)
    elif isinstance(value, list):
        for position, entry in enumerate(value):
            _refuse(entry, f"{path}[{position}]", parents)
    elif not isinstance(value, str | int | float | bool | None):
        raise TypeError(f"{path} is a {type(value).__name__}: JSON has text, numbers, booleans, None, lists and dicts")
    elif isinstance(value, float) and not float("-inf") < value < float("inf"):
        raise ValueError(f"{path} is {value!r}, which JSON does not have")
