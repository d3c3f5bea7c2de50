"""How the tracker's own attributes are stored: integers, times, and the list of fences."""

from __future__ import annotations

from datetime import datetime

from pynamodb.attributes import Attribute, UTCDateTimeAttribute
from pynamodb.constants import LIST, NUMBER

from pynamodb_tracker import clock

__all__ = ["FencesAttribute", "IntegerAttribute", "TimeAttribute"]

_STAMP = 31
"""Characters of a stored time."""


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

    def deserialize(self, value: str) -> datetime:
        """Return the aware time; what this library stored is read at once, anything else as PynamoDB does."""
        if len(value) == _STAMP and value.endswith("+0000"):
            return datetime.fromisoformat(value)
        return super().deserialize(value)  # type: ignore[no-any-return,no-untyped-call]


class FencesAttribute(Attribute[list[int]]):
    """A list of whole numbers."""

    attr_type = LIST

    def serialize(self, value: list[int]) -> list[dict[str, str]]:
        """Return the stored list."""
        return [{NUMBER: str(fence)} for fence in value]

    def deserialize(self, value: list[dict[str, str]]) -> list[int]:
        """Return the numbers."""
        return [int(fence[NUMBER]) for fence in value]
