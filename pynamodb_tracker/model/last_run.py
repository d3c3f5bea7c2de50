"""How the last round of a task that repeats has ended: kept in its row by the write that ended it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

OUTCOMES = ("succeeded", "failed", "skipped", "ignored")
"""A success; its last attempt that failed; no attempt left, which a later run found; a person's command."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The end of a round; an older program leaves the one from before, whose time tells that."""

    occurrence: datetime | None
    """For which time of the rule it was; None if it was asked for before that."""
    due: datetime
    """When it was due: at its occurrence, or when that was asked for."""
    outcome: str
    """One of OUTCOMES."""
    attempt: int
    """Which attempt of its step was the last one."""
    ended: datetime
    """When it ended, to the second."""
    created: int
    """How many tasks its last success created."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what a row has stored; a ValueError if that cannot be read."""
        try:
            stored = json.loads(text)
            due, ended = (_time(stored[name]) for name in ("occurrence" if "occurrence" in stored else "due", "ended"))
            outcome, attempt, created = stored["outcome"], int(stored["attempt"]), int(stored.get("created", 0))
            if outcome not in OUTCOMES:
                raise ValueError(f"{outcome!r} is no outcome")
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{text[:200]!r} says of no run how it ended: {error!r}") from error
        return cls(due if "occurrence" in stored else None, due, outcome, attempt, ended, created)

    def stored(self) -> str:
        """Return the stored form, of at most 120 bytes."""
        due = self.due.astimezone(UTC) if self.occurrence is None else self.occurrence
        found: dict[str, Any] = {"due" if self.occurrence is None else "occurrence": _text(due)}
        found |= {"outcome": self.outcome, "attempt": self.attempt, "ended": _text(self.ended.astimezone(UTC))}
        return json.dumps(found | ({"created": self.created} if self.created else {}), separators=(",", ":"))


def _text(time: datetime) -> str:
    return f"{time:%Y%m%dT%H%M%S%z}".replace("+0000", "Z")


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    return time
