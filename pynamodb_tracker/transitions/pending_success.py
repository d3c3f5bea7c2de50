"""That the success of a run is to be recorded by a transaction of its block, not by the end of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pynamodb_tracker.model.row import Changes

__all__ = ["Promise", "Success"]


class Success:
    """A success as it was sent."""

    __slots__ = ("changes", "row", "sent")  # no dataclass: a cold start would pay for the making of it

    def __init__(self, changes: Changes, sent: Changes, row: Mapping[str, Any]) -> None:
        self.changes = changes
        """What the block had changed by then."""
        self.sent = sent
        """The same, with a pointer in the place of data that lies beside the row."""
        self.row = row
        """What it makes of the row's own attributes."""


class Promise:
    """Made by `ctx.transaction(succeed=True)`: without a commit there is no success."""

    __slots__ = ("broken_by", "kept", "sent")

    def __init__(self) -> None:
        self.kept = False
        """Whether the success is on record."""
        self.sent: Success | None = None
        """What was sent and got no answer: it may have been applied, or may be yet."""
        self.broken_by: BaseException | None = None
        """What kept the last transaction from being committed."""
