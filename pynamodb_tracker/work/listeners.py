"""Who hears of the tasks that this process creates: workers, which then try them at once."""

from __future__ import annotations

import weakref
from datetime import datetime
from typing import Any, Protocol

from pynamodb_tracker.writes.participants import MadeDue


class Listener(Protocol):
    """What wants to hear of new tasks."""

    def note_created(self, task: MadeDue) -> None:
        """Note a new task."""


_listeners: tuple[weakref.ref[Listener], ...] = ()


def listening(listener: Listener) -> None:
    """Tell this listener of new tasks, as long as it exists."""
    global _listeners  # noqa: PLW0603 - one for the process; replaced, so that no thread sees it change
    _listeners = (*(each for each in _listeners if each() is not None), weakref.ref(listener))


def tell_created(model: Any, task_id: str, status: int, due_time: datetime, creation: str) -> None:
    """Tell all listeners of a new task."""
    for each in _listeners:
        if (listener := each()) is not None:
            listener.note_created(MadeDue(model, task_id, status, creation, due_time))
