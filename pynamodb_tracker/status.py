"""The statuses of a task, and the integer code that each status of each step is stored as."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["END", "HIGHEST", "LOWEST", "SPACING", "Codes", "Status", "name_of"]

LOWEST, HIGHEST, SPACING = 1, 990, 10
"""Numbers of steps are whole, within these bounds, and this far apart."""

END = 1000
"""The code of a task whose last step succeeded."""


class Status(StrEnum):
    """How a step of a task stands. Who leaves each: see docs/explanation/states.md."""

    PENDING = "pending"
    """Waits for its first attempt, or for the next one after a release or a reopen; left by a claim or an ignore."""
    IN_PROGRESS = "in_progress"
    """A worker holds the lock; left by that worker, or once the lock is over by the next claim."""
    FAILED = "failed"
    """The last attempt failed and another one is allowed; left by a claim, a reopen or an ignore."""
    SUCCEEDED = "succeeded"
    """Done; of a step that has a next one, this is the same state as pending of that one."""
    IGNORED = "ignored"
    """Set aside by a person, by GiveUp, or after the last attempt; left by a reopen only."""


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of one step: its number, and the three that follow; `succeeded` belongs to what comes next."""

    step: str
    pending: int
    succeeded: int

    @property
    def in_progress(self) -> int:
        """The code while a worker holds the lock."""
        return self.pending + 1

    @property
    def failed(self) -> int:
        """The code after an attempt that failed."""
        return self.pending + 2

    @property
    def ignored(self) -> int:
        """The code of a task that was set aside."""
        return self.pending + 3

    @property
    def own(self) -> dict[int, Status]:
        """The four codes that only this step has."""
        return {
            self.pending: Status.PENDING,
            self.in_progress: Status.IN_PROGRESS,
            self.failed: Status.FAILED,
            self.ignored: Status.IGNORED,
        }

    def code(self, status: Status) -> int:
        """Return the code of `status` at this step."""
        return self.succeeded if status is Status.SUCCEEDED else next(c for c, s in self.own.items() if s is status)


def name_of(code: int, steps: Iterable[Codes]) -> str:
    """Return a state in words, `ship pending`; a code of a step that is no longer declared is told as it is."""
    for codes in steps:
        if code in codes.own:
            return f"{codes.step} {codes.own[code]}"
        if code == codes.succeeded == END:
            return f"{codes.step} {Status.SUCCEEDED}"
    return f"unknown {code}"
