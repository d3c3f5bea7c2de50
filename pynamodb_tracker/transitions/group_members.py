"""Tasks as they enter a group: new ones, and those that are reopened after their turn has passed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from pynamodb.constants import NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.participants import Action


class Entrant(Protocol):
    """A task that enters a group."""

    task_id: str
    turn_due_time: datetime
    """When it may start once it has its turn."""
    status: int
    """The code of its state."""
    creation: str
    """The token of its creation."""

    def place(self, number: int, *, has_turn: bool) -> None:
        """Take this number, and the turn at once or not; called for each try."""


class NewMember:
    """A new task, as it enters its group: the item that creates it."""

    def __init__(self, row: TaskRow, item: Item) -> None:
        self._row = row
        self._item = item
        self.task_id: str = row.task_id
        self.turn_due_time: datetime = row.due_time
        self.status: int = row.status
        self.creation: str = item["creation"][STRING]

    def place(self, number: int, *, has_turn: bool) -> None:
        """Take this number, and the turn at once or not."""
        item, values = self._item, self._row.attribute_values
        item["group_number"] = {NUMBER: str(number)}
        due, waits, starts = (self.turn_due_time, None, None) if has_turn else (clock.NEVER, 1, self.turn_due_time)
        item["due_time"] = {STRING: clock.stamp(due)}
        for name in ("blockers", "turn_due_time"):
            item.pop(name, None)
        if starts is not None:
            item |= {"blockers": {NUMBER: "1"}, "turn_due_time": {STRING: clock.stamp(starts)}}
        values.update(group_number=number, due_time=due, blockers=waits, turn_due_time=starts)


class ReopenedMember:
    """A task whose turn has passed, as it enters its group once more."""

    def __init__(self, row: TaskRow, status: int, starts: datetime, own: Callable[..., Action]) -> None:
        """`own` returns the update that reopens it, for its number, and for whether it has the turn."""
        self.task_id: str = row.task_id
        self.turn_due_time = starts
        self.status = status
        self.creation: str = row.creation
        self._own = own
        self._number, self._has_turn = 0, False

    def place(self, number: int, *, has_turn: bool) -> None:
        """Take this number, and the turn at once or not."""
        self._number, self._has_turn = number, has_turn

    def action(self) -> Action:
        """Return the update as it was placed last."""
        return self._own(self._number, has_turn=self._has_turn)
