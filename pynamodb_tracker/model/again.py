"""Requests that arrive during a run: merged, and kept in the row until the success of the last step applies them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.constants import MAP, NULL, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.serialization import decode_trace

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import Repeat


class PendingRequest(NamedTuple):
    """What the task runs again with."""

    due_time: datetime
    """When it is due then, at the earliest."""
    attributes: Item
    """The user's attributes, by the names under which they are stored; None in its stored form removes one."""
    repeat: Repeat | None = None
    """A new rule by which it is due again; None leaves the rule as it is."""
    trace: str | None = None
    """The trace of the request that asked for this run, as the row stores it."""

    @property
    def asks_for_run(self) -> bool:
        """Whether it asks for a run, and not for another rule alone."""
        return self.due_time != clock.NEVER

    @classmethod
    def read(cls, stored: Item) -> PendingRequest:
        """Return what a row has stored; a ValueError if that cannot be read."""
        from pynamodb_tracker.model.repeat import Repeat  # noqa: PLC0415 - few tasks repeat

        try:
            due_time = clock.read(stored["due_time"][STRING])
            if due_time is None:
                raise ValueError(f"{stored['due_time'][STRING]!r} is no time")
            repeat = Repeat.from_json(stored["repeat"][STRING]) if "repeat" in stored else None
            trace = stored["trace"][STRING] if "trace" in stored else None
            if trace is not None:
                decode_trace(trace)  # a ValueError for anything but a trace
            return cls(due_time, stored["attributes"][MAP], repeat, trace)
        except KeyError as missing:
            raise ValueError(f"it has no {missing}, or it is of another type") from missing

    def stored(self) -> Item:
        """Return the stored form of the map."""
        rule = {} if self.repeat is None else {"repeat": {STRING: self.repeat.to_json()}}
        trace = {} if self.trace is None else {"trace": {STRING: self.trace}}
        due_time = {STRING: clock.stamp(self.due_time)}
        return {"due_time": due_time, "attributes": {MAP: self.attributes}, **rule, **trace}

    def changes(self, own: Mapping[str, Attribute[Any]]) -> dict[str, tuple[Attribute[Any], dict[str, Any] | None]]:
        """Return the changes that it makes in a row, whose `own` attributes are given by name.

        An attribute that only another version of the program declares gets a name that no attribute has.
        """
        names = {attribute.attr_name: (name, attribute) for name, attribute in own.items()}
        return {
            name: (attribute, None if NULL in value else value)
            for stored, value in self.attributes.items()
            for name, attribute in [names.get(stored) or (f"#{stored}", UnicodeAttribute(attr_name=stored))]
        }
