"""The user's dictionary: JSON text, in the row or in pieces beside it, which is read and parsed when it is touched."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.constants import MAP, STRING

from pynamodb_tracker.pieces import Pointer
from pynamodb_tracker.stored import check_json, refuse_json

__all__ = ["DataAttribute", "LeftOut"]

_first_touch = threading.Lock()


class Unread(str):
    """The stored text of `data` that nobody has looked at yet."""

    __slots__ = ()


class LeftOut:
    """Stands for a dictionary that was not asked for."""


class DataAttribute(Attribute[dict[str, Any]]):
    """The user's dictionary, stored as JSON text or as a pointer to where that lies; an empty one is not stored."""

    attr_type = STRING

    def __init__(self) -> None:
        super().__init__(null=True)

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Return the dictionary of a row, the same object each time, so that nested changes of it count."""
        if instance is None:
            return self
        values = instance.attribute_values
        value = values.get("data")
        if isinstance(value, LeftOut):
            raise AttributeError(  # noqa: TRY004 - the attribute is not there
                f"data of {type(instance).__name__} {instance.task_id!r} was left out of this query: read the task "
                "with get_task, or leave with_data=False out",
                name="data",
                obj=instance,
            )
        if isinstance(value, Pointer):
            self.fill(instance, instance.tracker.read_beside(instance, "data", value))
        if values.get("data") is None or isinstance(values["data"], Unread):
            with _first_touch:  # of two threads, both get the dictionary of the first
                value = values.get("data")
                if value is None or isinstance(value, Unread):
                    values["data"] = {} if value is None else json.loads(value)
        return values["data"]

    def fill(self, instance: Any, text: str) -> None:
        """Give a row the text that its pointer means, unless another thread has done so, or has assigned another."""
        with _first_touch:
            if isinstance(instance.attribute_values.get("data"), Pointer):
                vars(instance)["_data_text"] = text
                instance.attribute_values["data"] = Unread(text)

    def unread(self, instance: Any) -> Pointer | None:
        """Return where the dictionary of a row lies; None where it is in the row, or read."""
        value = instance.attribute_values.get("data")
        return value if isinstance(value, Pointer) else None

    def is_untouched(self, instance: Any) -> bool:
        """Tell whether nobody has looked at the dictionary of a row, so that nothing in it can have changed."""
        return isinstance(instance.attribute_values.get("data"), Unread | Pointer | LeftOut)

    def get_value(self, value: dict[str, Any]) -> Any:
        """Return the text, or the map of a pointer."""
        return value[MAP] if MAP in value else super().get_value(value)

    def deserialize(self, value: str | Mapping[str, Any]) -> Any:
        """Keep the text, or where it lies, until somebody looks at it."""
        return Unread(value) if isinstance(value, str) else Pointer.loaded(value)

    def text_of(self, instance: Any, stored: Mapping[str, Any] | None) -> str | None:
        """Return the text that a stored value stands for; None where there is none, or nobody has read it yet."""
        if stored is not None and MAP in stored:
            text: str | None = vars(instance).get("_data_text")
            return text
        return None if stored is None else stored.get(STRING)

    def is_rewritten(self, instance: Any, text: str) -> bool:
        """Tell whether text as another writer formats it means what the row's dictionary says, and nothing else."""
        value = instance.attribute_values.get("data")
        before = json.loads(text)
        return before == value and _dumped(before) == self.serialize(value)

    def serialize(self, value: Any) -> str | None:
        """Return compact JSON that reads back equal; a TypeError or ValueError names the entry that would not."""
        if isinstance(value, Unread):
            return str(value)
        if not value:
            if value is not None and not isinstance(value, dict):
                raise TypeError(f"data is a dictionary, not {value!r}")
            return None
        if not isinstance(value, dict):
            raise TypeError(f"data is a dictionary, not a {type(value).__name__}")
        try:
            text = _dumped(value)
        except (TypeError, ValueError, RecursionError) as error:
            refuse_json(value, "data")
            raise ValueError(f"data cannot be told in JSON: {error}") from error
        check_json(value, text, "data")
        return text


def _dumped(value: dict[str, Any]) -> str:
    """Return compact JSON, in which text stays as it is, unless a lone surrogate in it has no UTF-8."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text
