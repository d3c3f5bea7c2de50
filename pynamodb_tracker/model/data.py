"""The user's dictionary: JSON text in the row or in chunks, read and parsed on first access."""

import json
import re
from collections.abc import Mapping
from typing import Any

from pynamodb.attributes import Attribute, AttributeContainer
from pynamodb.constants import MAP, NULL, STRING

from pynamodb_tracker.exceptions import ValueNotStorableError
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.overflow import Pointer
from pynamodb_tracker.model.row_state import Unreadable, raw_value, read_data, unreadable_error
from pynamodb_tracker.model.serialization import reads_back, refuse_json

EMPTY_DATA = {STRING: "{}"}  # an emptied dictionary. A row without `data` never had chunks.
_TRIES = 20  # to serialize a dictionary that another thread is changing
_ESCAPE = len(r"\u00e9") - 1  # how far before a difference an escape may begin
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_OF_NUMBERS = "-+.0123456789eE"


class LazyData:
    """A stored dictionary, parsed on first access. A lock could deadlock during garbage collection."""

    __slots__ = ("_parsed", "pointer", "text")

    def __init__(self, text: str | None, pointer: Pointer | None = None) -> None:
        self.text = text
        self.pointer = pointer
        self._parsed: dict[str, Any] = {}

    @property
    def is_touched(self) -> bool:
        return bool(self._parsed)

    def value(self) -> Any:
        """Return the dictionary. All threads get the same object."""
        if not self._parsed:
            parsed = json.loads(self.text or "{}")
            if not isinstance(parsed, dict):
                raise ValueError(f"{shown(parsed)} is not a dictionary")
            self._parsed.setdefault("value", parsed)
        return self._parsed["value"]


class LeftOut:
    pass


class DataAttribute(Attribute[dict[str, Any]]):
    """Stores JSON text or a pointer. An empty dictionary is only stored to replace another."""

    attr_type = STRING

    def __init__(self) -> None:
        super().__init__(null=True)

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Return always the same object, so that nested changes are saved."""
        if instance is None:
            return self
        values = instance.attribute_values
        value = values.get("data")
        if isinstance(value, LeftOut):
            raise AttributeError(  # noqa: TRY004 - the attribute is absent
                f"data of {type(instance).__name__} {instance.task_id!r} was left out of this query: use get_task, or "
                "remove with_data=False",
                name="data",
                obj=instance,
            )
        if isinstance(value, LazyData):
            if value.text is None and value.pointer is not None:
                instance._row_state.data_text = value.text = read_data(instance, value.pointer)
            try:
                return value.value()
            except (ValueError, RecursionError) as error:
                raise unreadable_error(type(instance), instance.task_id, {"data": error}) from error
        if value is None:
            value = values.setdefault("data", {})  # atomic, so that two threads get the same object
        if value is None:  # None was assigned
            value = values["data"] = {}
        return value

    def fill(self, instance: Any, text: str) -> None:
        value = raw_value(instance, "data")
        if isinstance(value, LazyData):  # unless another thread has assigned something
            instance._row_state.data_text = value.text = text

    def is_untouched(self, instance: Any) -> bool:
        value = dict.get(instance.attribute_values, "data")  # fast, because every run asks
        return isinstance(value, LeftOut | Unreadable) or (isinstance(value, LazyData) and not value.is_touched)

    def get_value(self, value: dict[str, Any]) -> Any:
        return value[MAP] if MAP in value else super().get_value(value)

    def deserialize(self, value: str | Mapping[str, Any]) -> Any:
        return LazyData(value) if isinstance(value, str) else LazyData(None, Pointer.read(value))

    def is_same(self, instance: Any, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> bool:
        """Return whether the dictionary equals the stored one. Replacing an unread one counts as a change."""
        if old is None or NULL in old or new is None:
            return (old is None or NULL in old) and new is None
        text, new_text = instance._row_state.data_text if MAP in old else old.get(STRING), new[STRING]
        if text is None or text == new_text:
            return text is not None
        if _differ_in_content(text, new_text):  # usually settles it without parsing, which is slow for large data
            return False
        try:
            before = json.loads(text)  # another program may have formatted it
        except (ValueError, RecursionError):  # the block has replaced an unreadable value
            return False
        return bool(before == self.__get__(instance, type(instance))) and _dump(before) == new_text

    def serialize(self, value: Any) -> str | None:
        known = None
        if isinstance(value, LazyData):
            if not value.is_touched and value.text is not None:
                return value.text
            known, value = value.text, value.value()
        if not isinstance(value, dict | None):
            raise TypeError(f"data is a dictionary, not {f'a {type(value).__name__}' if value else repr(value)}")
        return to_json(value, "data", known) if value else None


def unread_data(row: AttributeContainer) -> Pointer | None:
    value = raw_value(row, "data")
    return value.pointer if isinstance(value, LazyData) and value.text is None else None


def to_json(value: object, name: str, known: str | None = None) -> str:
    """Return a value as JSON that reads back equal, even if another thread is changing it.

    If the value was parsed from `known`, only added entries are checked. Errors call the value `name`.
    """
    text = ""
    for _ in range(_TRIES):
        try:
            text = _dump(value)
            if text == known or (known and _only_adds(known, text, value)) or reads_back(text, value):
                return text
            refuse_json(value, name)
        except (TypeError, ValueError, RecursionError) as error:
            refuse_json(value, name)
            raise ValueError(f"{name} cannot be stored as JSON: {error}") from error
        except RuntimeError:  # it changed during iteration
            continue
    if not text or "\\ud" in text:
        raise ValueError(f"{name} does not read back equal from JSON")
    return text  # the complete value at one moment


def bounded_json(
    value: object, name: str, described: str, limit: int, advice: str, *, task_id: str, attribute: str
) -> str:
    """Return a value as JSON of at most `limit` bytes, or raise ValueNotStorableError.

    Errors about its contents call it `name`, and the exception `described`. `advice` is for a value that is too large.
    """
    try:
        text = to_json(value, name)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"{described} cannot be stored: {error}"
        raise ValueNotStorableError(problem, task_id=task_id, attribute=attribute) from error
    if (size := len(text.encode())) > limit:
        problem = f"{described} has {size:,} bytes as JSON, but at most {limit:,} can be stored: {advice}"
        raise ValueNotStorableError(problem, task_id=task_id, attribute=attribute, size=size)
    return text


def _only_adds(known: str, text: str, value: Any) -> bool:
    """Return whether the text only appends entries, which read back equal, to the known one."""
    if not text.startswith(known[:-1] + ","):
        return False
    added = "{" + text[len(known) :]
    found = json.loads(added)
    last = dict([*value.items()][-len(found) :])
    return bool(found == last) and _dump(last) == added and not strict_json.is_too_deep(last, added)


def _differ_in_content(text: str, other: str) -> bool:
    """Return whether two JSON texts first differ in content, not in blanks, escapes or number formats."""
    at = _first_difference(text, other)
    one, two = text[at : at + 1], other[at : at + 1]
    if not one.strip() or not two.strip() or "\\" in text[max(at - _ESCAPE, 0) : at] + one + two:
        return False
    if one not in _OF_NUMBERS and two not in _OF_NUMBERS:
        return True
    begin = len(text[:at].rstrip(_OF_NUMBERS))
    number, other_number = _NUMBER.match(text, begin), _NUMBER.match(other, begin)
    return number is None or other_number is None or float(number[0]) != float(other_number[0])


def _first_difference(text: str, other: str) -> int:
    at, end = 0, min(len(text), len(other))  # a binary search is much faster than comparing characters
    while at < end:
        middle = (at + end + 1) // 2
        if text.startswith(other[at:middle], at):
            at = middle
        else:
            end = middle - 1
    return at


def _dump(value: object) -> str:
    """Return compact JSON. Only text with a lone surrogate, which UTF-8 cannot encode, is escaped."""
    text = strict_json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return strict_json.dumps(value, separators=(",", ":"))
    return text
