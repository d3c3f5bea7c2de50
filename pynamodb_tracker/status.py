"""The statuses of a task, and the integer code that each status of each step is stored as."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

LOWEST, HIGHEST, SPACING = 1, 990, 5
"""Numbers of steps are whole, within these bounds, and this far apart: four codes, and one in reserve."""

END = 1000
"""The code of a task whose last step succeeded."""


class Status(StrEnum):
    """The status of a step of a task. The transitions between them: see docs/explanation/life-of-a-task.md.

    Examples:
        >>> assert Order.ship.failed.status is Status.FAILED
    """

    PENDING = "pending"
    """Waits for its first attempt, or for the next one after a release or a reopen; left by a claim or an ignore."""
    IN_PROGRESS = "in_progress"
    """A worker holds the lock; left by that worker or, once the lock has expired, by the next claim or an ignore."""
    FAILED = "failed"
    """The last attempt failed and another one is allowed; left by a claim, a reopen or an ignore."""
    SUCCEEDED = "succeeded"
    """Done; if there is a next step, this is the same state as pending of that one."""
    IGNORED = "ignored"
    """Not tried any more: by a person, GiveUp or the last attempt; left by a reopen, or a claim with `also_from`."""

    def __eq__(self, other: object) -> bool:
        """Compare with another status, or its text; TypeError for a number, because `task.status` is a code."""
        if isinstance(other, int) and not isinstance(other, bool):
            raise TypeError(
                f"{other} is the code of a state, which is never equal to Status.{self.name}: compare "
                f"task.state.status with Status.{self.name}, or task.state with a state such as Order.ship.{self}"
            )
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class Codes:
    """The codes of a step: its number, and the three that follow; `succeeded` belongs to what comes next."""

    def __init__(
        self, use_case_id: str, step: str, pending: int, succeeded: int, *, branch: bool = False, done_from: int = END
    ) -> None:
        self.use_case_id = use_case_id
        self.step = step
        self.pending = pending
        self.succeeded = succeeded
        self.done_from = min(done_from, succeeded)
        """The lowest code of a task that this step is behind: the number of the next step, also of a branch."""
        self.branch = branch
        """Whether only a run that chooses it leads to the step."""
        self.in_progress = pending + 1
        """The code while a worker holds the lock."""
        self.failed = pending + 2
        """The code after an attempt that failed."""
        self.ignored = pending + 3
        """The code of an ignored task."""
        self.own = {
            self.pending: Status.PENDING,
            self.in_progress: Status.IN_PROGRESS,
            self.failed: Status.FAILED,
            self.ignored: Status.IGNORED,
        }
        """The four codes that only this step has."""

    def code(self, status: Status) -> int:
        """Return the code of `status` at this step."""
        return self.succeeded if status is Status.SUCCEEDED else next(c for c, s in self.own.items() if s is status)


def name_of(code: int, steps: Iterable[Codes]) -> str:
    """Return a state in words, such as `ship pending`; `unknown 25` for a code that no step declares."""
    for codes in steps:
        if code in codes.own:
            return f"{codes.step} {codes.own[code]}"
        if code == codes.succeeded == END:
            return f"{codes.step} {Status.SUCCEEDED}"
    return f"unknown {code}"
