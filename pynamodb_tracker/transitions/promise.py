"""That the success of a run is to be recorded by a transaction of its block, not by the end of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pynamodb_tracker.model import Changes

__all__ = ["Promise", "Success"]


@dataclass(frozen=True, slots=True)
class Success:
    """A success as it was sent."""

    changes: Changes
    """What the block had changed by then."""
    sent: Changes
    """The same, with a pointer in the place of data that lies beside the row."""
    row: Mapping[str, Any]
    """What it makes of the row's own attributes."""


@dataclass(slots=True)
class Promise:
    """Made by `ctx.transaction(succeed=True)`: without a commit there is no success."""

    kept: bool = False
    """Whether the success is on record."""
    sent: Success | None = None
    """What was sent and got no answer: it may have been applied, or may be yet."""
    broken_by: BaseException | None = None
    """What kept the last transaction from being committed."""
