"""A request that arrived during a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.constants import BOOLEAN, MAP, NULL, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.codecs import decode_rule, decode_trace

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import Repeat


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
