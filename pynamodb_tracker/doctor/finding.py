"""A finding: what of a table differs from the model, or could be better, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "Severity"]


class Severity(StrEnum):
    """How much a finding matters, the worst first."""

    WRONG = "wrong"
    """The tracker, or a part of it, does not work."""
    DANGER = "danger"
    """It works, and a guarantee of it does not hold."""
    ADVICE = "advice"
    """It works, and something would be better otherwise, or could not be looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say about a table, in words for a person."""

    severity: Severity
    subject: str
    """What was looked at."""
    found: str
    expected: str
    meaning: str
    """What follows from it."""
    to_do: str
