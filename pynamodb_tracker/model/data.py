"""The user's dictionary: JSON text, in the row or in pieces beside it, which is read and parsed when it is touched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.constants import MAP, STRING

from pynamodb_tracker.model.overflow import Pointer
from pynamodb_tracker.model.serialization import reads_back, refuse_json

__all__ = ["DataAttribute", "LeftOut"]

_TRIES = 20
"""How often a dictionary is told anew that another thread changes meanwhile."""


class Lazy:
    """A stored dictionary: where its text lies, the text once that is read, and what it says once somebody looks.

    Nothing here takes a lock: reading may run the garbage collector, and with it any code at all.
    """

    __slots__ = ("_parsed", "pointer", "text")

    def __init__(self, text: str | None, pointer: Pointer | None = None) -> None:
        self.text = text
        self.pointer = pointer
        self._parsed: dict[str, Any] = {}

    @property
    def is_touched(self) -> bool:
        """Whether somebody has looked at it, and may have changed it."""
        return bool(self._parsed)

    def value(self) -> Any:
        """Return the dictionary: of two threads, both get that of the first."""
        if not self._parsed:
            self._parsed.setdefault("value", json.loads(self.text or "{}"))
        return self._parsed["value"]

    def __eq__(self, other: object) -> bool:
        """Compare what both say, without reading what lies beside a row."""
        if not isinstance(other, Lazy):
            return NotImplemented
        if self.text is None or other.text is None:
            return (self.text, self.pointer) == (other.text, other.pointer)
        return bool(self.value() == other.value())

    __hash__ = None  # type: ignore[assignment]  # what it says may change


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
        if isinstance(value, Lazy):
            if value.text is None and value.pointer is not None:
                self._read(instance, value, instance.tracker.read_beside(instance, "data", value.pointer))
            return value.value()
        if value is None:
            value = values["data"] = values.get("data") or {}
        return value

    def fill(self, instance: Any, text: str) -> None:
        """Give a row the text that its pointer means."""
        value = instance.attribute_values.get("data")
        if isinstance(value, Lazy):  # unless another thread has assigned something else
            self._read(instance, value, text)

    def _read(self, instance: Any, value: Lazy, text: str) -> None:
        vars(instance)["_data_text"] = value.text = text

    def unread(self, instance: Any) -> Pointer | None:
        """Return where the dictionary of a row lies; None where it is in the row, or read."""
        value = instance.attribute_values.get("data")
        return value.pointer if isinstance(value, Lazy) and value.text is None else None

    def is_untouched(self, instance: Any) -> bool:
        """Tell whether nobody has looked at the dictionary of a row, so that nothing in it can have changed."""
        value = instance.attribute_values.get("data")
        return isinstance(value, LeftOut) or (isinstance(value, Lazy) and not value.is_touched)

    def get_value(self, value: dict[str, Any]) -> Any:
        """Return the text, or the map of a pointer."""
        return value[MAP] if MAP in value else super().get_value(value)

    def deserialize(self, value: str | Mapping[str, Any]) -> Any:
        """Keep the text, or where it lies, until somebody looks at it."""
        return Lazy(value) if isinstance(value, str) else Lazy(None, Pointer.loaded(value))

    def text_of(self, instance: Any, stored: Mapping[str, Any] | None) -> str | None:
        """Return the text that a stored value stands for; None where there is none, or nobody has read it yet."""
        if stored is not None and MAP in stored:
            text: str | None = vars(instance).get("_data_text")
            return text
        return None if stored is None else stored.get(STRING)

    def is_rewritten(self, instance: Any, text: str, new: str) -> bool:
        """Tell whether text as another writer formats it means what the row's dictionary, which is `new`, says."""
        before = json.loads(text)
        return bool(before == self.__get__(instance, type(instance))) and _dumped(before) == new

    def serialize(self, value: Any) -> str | None:
        """Return compact JSON that reads back equal; a TypeError or ValueError names the entry that would not."""
        known = None
        if isinstance(value, Lazy):
            if not value.is_touched and value.text is not None:
                return value.text
            known, value = value.text, value.value()
        if not value:
            if value is not None and not isinstance(value, dict):
                raise TypeError(f"data is a dictionary, not {value!r}")
            return None
        if not isinstance(value, dict):
            raise TypeError(f"data is a dictionary, not a {type(value).__name__}")
        return _told(value, known)


def _told(value: dict[str, Any], known: str | None) -> str:
    """Return a dictionary as text; where it does not read back equal, it cannot, or another thread changes it.

    `known` is text that was read before, so that it is not tried once more.
    """
    text = ""
    for _ in range(_TRIES):
        try:
            text = _dumped(value)
            if text == known or reads_back(text, value):
                return text
            refuse_json(value, "data")
        except (TypeError, ValueError, RecursionError) as error:
            refuse_json(value, "data")
            raise ValueError(f"data cannot be told in JSON: {error}") from error
        except RuntimeError:  # it changed while it was iterated over
            continue
    if not text or "\\ud" in text:
        raise ValueError("data does not read back from JSON as it is")
    return text  # as it was at one moment, and nothing in it is lost in JSON but halves of surrogates


def _dumped(value: dict[str, Any]) -> str:
    """Return compact JSON, in which text stays as it is, unless a lone surrogate in it has no UTF-8."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text
