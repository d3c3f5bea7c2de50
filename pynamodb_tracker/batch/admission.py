"""What a batch waits for before each task: a slot of the limit that its step is within."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import TYPE_CHECKING

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.error_codes import is_temporary

if TYPE_CHECKING:
    from pynamodb_tracker.control.slots import Slot, StepSlots

log = logging.getLogger("pynamodb_tracker")

_GLANCE = 0.5
"""Seconds after which a wait ends, so that the batch can be stopped."""


class Admission:
    """The slots of the tasks that a batch has begun to start; without a limit, it admits each task at once."""

    def __init__(self, slots: StepSlots | None) -> None:
        self.slots = slots
        self._of: dict[Hashable, Slot] = {}
        self._is_warned = False

    def admit(self, task: Hashable) -> bool:
        """Return whether a task may start now; if not, after a moment in which that may have changed."""
        if self.slots is None or self.has(task):
            return True
        self.slots.wait(_GLANCE)
        return self.has(task)

    def has(self, task: Hashable) -> bool:
        """Return whether a task has got a slot."""
        if self.slots is None:
            return True
        try:
            slot = self.slots.take()
        except PynamoDBException as error:
            if not is_temporary(error):
                raise
            if not self._is_warned:
                log.warning("no slot of the limit %s can be taken; it is tried again: %s", self.slots.limit.name, error)
            self._is_warned = True
            clock.sleep(_GLANCE)
            return False
        if slot is not None:
            self._of[task] = slot
        return slot is not None

    def slot_of(self, task: Hashable) -> Slot | None:
        """Return the slot of a task, which leaves it at its end."""
        return self._of.pop(task, None)

    def end(self) -> None:
        """Leave what no task has begun to use, and give back at once what none uses."""
        while self._of:
            self._of.popitem()[1].leave()
        if self.slots is not None:
            self.slots.give_back()
