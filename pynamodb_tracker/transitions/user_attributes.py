"""The user's own attributes in a write: the actions that set what changed, and the values that fill these."""

from __future__ import annotations

from typing import Any

from pynamodb.expressions.update import Action

from pynamodb_tracker.model.row import Changes
from pynamodb_tracker.transitions.prepared import fill

__all__ = ["own_actions", "own_values", "shape_of"]


def shape_of(changes: Changes) -> list[tuple[str, str | None]]:
    """Return which attributes change, and the type of each: writes of one shape are rendered once."""
    return [(name, None if value is None else next(iter(value))) for name, (_, value) in changes.items()]


def own_actions(changes: Changes) -> list[Action]:
    """Return the actions that store what changed."""
    return [
        attribute.remove() if value is None else fill(attribute, f"own {name}", next(iter(value)))
        for name, (attribute, value) in changes.items()
    ]


def own_values(changes: Changes) -> dict[str, Any]:
    """Return the values of the slots that the user's changes fill."""
    return {f"own {name}": next(iter(value.values())) for name, (_, value) in changes.items() if value is not None}
