"""What was asked for while a task could not take it: kept in its row until the success of the last step takes it in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.constants import MAP, NULL, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item


class Again(NamedTuple):
    """What the task runs again with."""

    due_time: datetime
    """When it is due then, at the earliest."""
    attributes: Item
    """The user's attributes, by the names under which they are stored; None in its stored form removes one."""
    repeat: str | None = None
    """A new rule by which it is due again; None leaves the rule as it is."""

    @classmethod
    def read(cls, stored: Item) -> Again:
        """Return what a row has stored."""
        repeat = stored.get("repeat")
        due_time = clock.read(stored["due_time"][STRING])
        if due_time is None:
            raise ValueError(f"{stored['due_time'][STRING]!r} is no time")
        return cls(due_time, stored["attributes"][MAP], None if repeat is None else repeat[STRING])

    def stored(self) -> Item:
        """Return the stored form of the map."""
        rule = {} if self.repeat is None else {"repeat": {STRING: self.repeat}}
        return {"due_time": {STRING: clock.stamp(self.due_time)}, "attributes": {MAP: self.attributes}, **rule}

    def changes(self, own: Mapping[str, Attribute[Any]]) -> dict[str, tuple[Attribute[Any], dict[str, Any] | None]]:
        """Return the changes that it makes in a row, whose `own` attributes are given by name.

        What another version of the program has asked for, and this one does not declare, has a name that no attribute
        has.
        """
        names = {attribute.attr_name: (name, attribute) for name, attribute in own.items()}
        return {
            name: (attribute, None if NULL in value else value)
            for stored, value in self.attributes.items()
            for name, attribute in [names.get(stored) or (f"#{stored}", UnicodeAttribute(attr_name=stored))]
        }


class AgainAttribute(Attribute[dict[str, Any]]):
    """What was asked for, as it is stored; what cannot be read is found out when the row is loaded."""

    attr_type = MAP

    def serialize(self, value: Item) -> Item:
        """Return the map itself."""
        return value

    def deserialize(self, value: Item) -> Item:
        """Return the map itself, if it can be read."""
        try:
            again = Again.read(value)
        except KeyError as missing:
            raise ValueError(f"it has no {missing}, or it is of another type") from missing
        if again.repeat is not None:
            from pynamodb_tracker.model.repeat import Repeat  # noqa: PLC0415 - few tasks repeat

            Repeat.from_json(again.repeat)
        return value
