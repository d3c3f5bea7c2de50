"""What was asked for while a task could not take it: kept in its row until the success of the last step takes it in."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from pynamodb.constants import MAP, STRING

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
        due_time = datetime.fromisoformat(stored["due_time"][STRING])
        return cls(due_time, stored["attributes"][MAP], None if repeat is None else repeat[STRING])

    def stored(self) -> Item:
        """Return the stored form of the map."""
        rule = {} if self.repeat is None else {"repeat": {STRING: self.repeat}}
        return {"due_time": {STRING: clock.stamp(self.due_time)}, "attributes": {MAP: self.attributes}, **rule}
