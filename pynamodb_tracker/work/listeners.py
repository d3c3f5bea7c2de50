"""Tells workers of this process about the tasks that it creates, so that they try them at once."""

import weakref
from datetime import datetime
from typing import Any

from pynamodb_tracker.writes.participants import NewlyDue

_listeners: tuple[weakref.ref[Any], ...] = ()


def add_listener(listener: Any) -> None:
    """Call `note_created` of this listener for each new task, as long as the listener exists."""
    global _listeners  # noqa: PLW0603 - replaced as a whole, so that no thread sees it change
    _listeners = (*(each for each in _listeners if each() is not None), weakref.ref(listener))


def tell_created(model: Any, task_id: str, status: int, due_time: datetime, creation: str) -> None:
    for each in _listeners:
        if (listener := each()) is not None:
            listener.note_created(NewlyDue(model, task_id, status, creation, due_time))
