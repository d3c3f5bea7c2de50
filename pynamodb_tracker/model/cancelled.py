"""Who cancelled a task, when, why, and at which step."""

from datetime import datetime
from typing import Any, NamedTuple, Self

from pynamodb.constants import MAP, NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.serialization import Coded
from pynamodb_tracker.model.status import CANCELLED


class CancelRecord(NamedTuple):
    """How a task was cancelled. It stays until the task is reopened."""

    step: int
    """The number of the task's step."""
    time: datetime
    by: str
    """By default the worker name of the process that cancelled it."""
    reason: str
    join: str | None = None
    """The token of the wait for children that this has ended, or None if the task waited for none."""

    def stored(self) -> Item:
        """Return the stored form."""
        texts = {"time": clock.stamp(self.time), "by": self.by, "reason": self.reason}
        texts |= {} if self.join is None else {"join": self.join}
        return {"step": {NUMBER: str(self.step)}, **{name: {STRING: text} for name, text in texts.items()}}

    @classmethod
    def read(cls, stored: Item) -> Self:
        """Parse the stored form."""
        step, time = int(stored["step"][NUMBER]), clock.parse(stored["time"][STRING])
        join = stored["join"][STRING] if "join" in stored else None
        return cls(step, time, stored["by"][STRING], stored["reason"][STRING], join)


class CancelledAttribute(Coded[CancelRecord | None]):
    """On a use case, this is the state of cancelled tasks, as in `Order.cancelled`."""

    def __init__(self) -> None:
        super().__init__(MAP, CancelRecord.stored, CancelRecord.read)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return super().__get__(instance, owner) if instance is not None else owner._states.get(CANCELLED, self)  # noqa: SLF001 - as for GroupAttribute
