"""Task statuses, and the integer codes that are stored for them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

LOWEST, HIGHEST, SPACING = 1, 990, 5
"""Step numbers are whole, between these bounds, and this far apart. A step uses four codes and reserves one."""

END = 1000
"""The code after the last step has succeeded."""


class Status(StrEnum):
    """The status of a step. docs/explanation/life-of-a-task.md lists the transitions.

    Examples:
        >>> assert Order.ship.failed.status is Status.FAILED
    """

    PENDING = "pending"
    """Waiting for its first attempt, or for the next one after a release or reopen. A claim or an ignore ends it."""
    IN_PROGRESS = "in_progress"
    """A worker holds the lock. That worker ends it, or an ignore, or the next claim after the lock has expired."""
    FAILED = "failed"
    """The last attempt failed, and the task may be retried. A claim, a reopen or an ignore ends it."""
    SUCCEEDED = "succeeded"
    """Done. If there is a next step, the task is pending there, which is the same state."""
    IGNORED = "ignored"
    """A person, GiveUp or the last failure ended the task. A reopen, or a claim with `also_from`, continues it."""

    def __eq__(self, other: object) -> bool:
        """Compare with another status or its text. A number is a TypeError, because `task.status` is a code."""
        if isinstance(other, int) and not isinstance(other, bool):
            raise TypeError(
                f"{other} is a state's code, which never equals Status.{self.name}: compare "
                f"task.state.status with Status.{self.name}, or task.state with a state such as Order.ship.{self}"
            )
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class Codes:
    """A step's codes: its number and the three that follow. `succeeded` is the next step's number, or the end."""

    def __init__(
        self,
        use_case_id: str,
        step: str,
        pending: int,
        succeeded: int,
        *,
        branch: bool = False,
        skips_branches: bool = False,
    ) -> None:
        self.use_case_id = use_case_id
        self.step = step
        self.pending = pending
        self.succeeded = succeeded
        self.done_from = pending + SPACING
        """The lowest code that proves this step is done. It may be of a step that another program declares."""
        self.skips_branches = skips_branches
        """Whether there are branch steps between this step and the next one in order, or the end."""
        self.branch = branch
        """Whether a task gets to this step only if a run chooses it."""
        self.in_progress = pending + 1
        """The code while a worker holds the lock."""
        self.failed = pending + 2
        """The code after a failed attempt."""
        self.ignored = pending + 3
        """The code after the task was ignored."""
        self.own = {
            self.pending: Status.PENDING,
            self.in_progress: Status.IN_PROGRESS,
            self.failed: Status.FAILED,
            self.ignored: Status.IGNORED,
        }
        """The four codes that belong only to this step."""

    def code(self, status: Status) -> int:
        """Return this step's code for a status."""
        return self.succeeded if status is Status.SUCCEEDED else next(c for c, s in self.own.items() if s is status)


def name_of(code: int, steps: Iterable[Codes]) -> str:
    """Return a state's name, such as `ship pending`, or `unknown 25` if no step has that code."""
    for codes in steps:
        if code in codes.own:
            return f"{codes.step} {codes.own[code]}"
        if code == codes.succeeded == END:
            return f"{codes.step} {Status.SUCCEEDED}"
    return f"unknown {code}"
