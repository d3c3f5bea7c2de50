"""The stored forms of a row's lists, parts, traces, rules and requests. Damaged ones raise a ValueError."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.constants import BOOLEAN, MAP, NULL, NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.arguments import shown

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import LastRun, Repeat

MOST = 9_999_999_999  # of codes and counts


def encode_numbers(numbers: list[int]) -> list[dict[str, str]]:
    return [{NUMBER: str(number)} for number in numbers]


def decode_numbers(stored: list[dict[str, str]]) -> list[int]:
    numbers = []
    for entry in stored:  # fast, because almost every claimed row has one
        number = int(entry[NUMBER]) if NUMBER in entry else -1
        if not 0 <= number <= MOST:
            raise ValueError(f"its entry {shown(entry)} is not a number from 0 to {MOST:,}")
        numbers.append(number)
    return numbers


def encode_texts(texts: list[str]) -> list[dict[str, str]]:
    return [{STRING: text} for text in texts]


def decode_texts(stored: list[dict[str, str]]) -> list[str]:
    if wrong := [entry for entry in stored if STRING not in entry]:
        raise ValueError(f"its entry {shown(wrong[0])} is not text")
    return [text[STRING] for text in stored]


def encode_parts(parts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {name: {STRING: text} for name, text in parts.items()}


def decode_parts(stored: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return checkpoint results as JSON, and their `round`."""
    parts = {name: entry[STRING] for name, entry in stored.items() if STRING in entry}
    if len(parts) != len(stored) or "round" not in parts:
        raise ValueError(f"it has {shown(sorted(stored))} instead of results and their round")
    for name in parts.keys() - {"round"}:
        json.loads(parts[name])
    return parts


def decode_trace(stored: str) -> dict[str, str]:
    trace = json.loads(stored)
    if not isinstance(trace, dict) or not all(isinstance(text, str) for text in trace.values()):
        raise ValueError(f"{shown(stored)} is not a dictionary of text")
    return trace


def decode_rule(stored: str) -> Repeat:
    from pynamodb_tracker.model.repeat import Repeat  # noqa: PLC0415 - few tasks repeat

    return Repeat.from_json(stored)


def decode_last_run(stored: str) -> LastRun:
    from pynamodb_tracker.model.repeat import LastRun  # noqa: PLC0415 - few tasks repeat

    return LastRun.read(stored)


class PendingRequest(NamedTuple):
    """Merged requests for another run or rule. They wait in the row until the last step succeeds."""

    due_time: datetime  # NEVER if only the rule changes
    attributes: Item  # the user's attributes by stored name. NULL removes an attribute.
    repeat: Repeat | None = None  # the new rule. None keeps the old one.
    trace: str | None = None
    urgent: bool = False

    @property
    def asks_for_run(self) -> bool:
        return self.due_time != clock.NEVER

    @classmethod
    def read(cls, stored: Item) -> PendingRequest:
        due_time = clock.parse(stored["due_time"][STRING])
        repeat = decode_rule(stored["repeat"][STRING]) if "repeat" in stored else None
        trace = stored["trace"][STRING] if "trace" in stored else None
        if trace is not None:
            decode_trace(trace)  # raises ValueError for anything else
        return cls(due_time, stored["attributes"][MAP], repeat, trace, "urgent" in stored)

    def stored(self) -> Item:
        rule = {} if self.repeat is None else {"repeat": {STRING: self.repeat.to_json()}}
        trace = {} if self.trace is None else {"trace": {STRING: self.trace}}
        urgent = {"urgent": {BOOLEAN: True}} if self.urgent else {}
        due_time = {STRING: clock.stamp(self.due_time)}
        return {"due_time": due_time, "attributes": {MAP: self.attributes}, **rule, **trace, **urgent}

    def changes(self, own: Mapping[str, Attribute[Any]]) -> dict[str, tuple[Attribute[Any], dict[str, Any] | None]]:
        """Return the changes to a row with these `own` attributes, by attribute name.

        An attribute that only another version of the program declares gets a name that no attribute has.
        """
        names = {attribute.attr_name: (name, attribute) for name, attribute in own.items()}
        return {
            name: (attribute, None if NULL in value else value)
            for stored, value in self.attributes.items()
            for name, attribute in [names.get(stored) or (f"#{stored}", UnicodeAttribute(attr_name=stored))]
        }
