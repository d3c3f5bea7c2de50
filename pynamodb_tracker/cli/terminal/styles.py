"""How states look at a terminal that has colours."""

from __future__ import annotations

from typing import Any

from pynamodb_tracker.status import Status
from pynamodb_tracker.step.state import State

__all__ = ["style_of"]

_STYLES = {
    Status.PENDING: "cyan",
    Status.IN_PROGRESS: "blue",
    Status.FAILED: "red",
    Status.IGNORED: "magenta",
    Status.SUCCEEDED: "green",
    None: "yellow",
}


def style_of(state: State[Any]) -> str:
    """Return the colour of a state; a code that no step declares has one of its own."""
    return _STYLES[state.status]
