"""What the caller is told, by what became of a task."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from pynamodb_tracker.batch.batch import Outcome

__all__ = ["Reason", "Replies", "Reply"]

Reply = Literal["done", "error"]
"""done: answered, or the record is done with. error: the error leaves, or the record comes again."""

Reason = Literal["succeeded", "locked", "not_ready", "not_found", "ignored", "failed"]
"""Why a task did not succeed in this invocation; the names of the fields of Replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """What the caller is told where a task did not succeed in this invocation; None is what its trigger does."""

    succeeded: Reply | None = None
    """It had succeeded before: the event came twice, or late."""
    locked: Reply | None = None
    """Another worker holds it."""
    not_ready: Reply | None = None
    """It is not due yet, or an earlier step of it is not done."""
    not_found: Reply | None = None
    """There is no such task."""
    ignored: Reply | None = None
    """It was set aside: before, or by this attempt, which was its last one."""
    failed: Reply | None = None
    """This attempt failed, and there will be another one."""

    def __post_init__(self) -> None:
        """Refuse what is no reply."""
        for field in fields(self):
            reply = getattr(self, field.name)
            if reply is not None and reply not in get_args(Reply):
                raise ValueError(f'{field.name} is answered with "done" or "error", not {reply!r}')

    def over(self, others: Replies) -> Replies:
        """Return these, and what they leave open as in others."""
        return Replies(
            **{field.name: getattr(self, field.name) or getattr(others, field.name) for field in fields(self)}
        )

    def to(self, outcome: Outcome, reason: Reason | None) -> Reply:
        """Return the reply to what became of a task; what has no reason, such as a lost lock, is an error."""
        if outcome == "succeeded":
            return "done"
        return (reason and getattr(self, reason)) or "error"
