"""Task statuses, and the integer codes that are stored for them."""

from enum import StrEnum
from typing import Literal

LOWEST, HIGHEST, SPACING = 1, 990, 5
"""Bounds and distance of step numbers. A step uses four codes and reserves one."""

END, CANCELLED = 1000, 1001
"""The codes after the last step has succeeded, and after `cancel`."""


def end_of(code: int | None) -> Literal["succeeded", "cancelled"] | None:
    """Return how a task with this code has ended, or None if it is at a step, where it may be ignored."""
    return _ENDS.get(code)


_ENDS: dict[int | None, Literal["succeeded", "cancelled"]] = {END: "succeeded", CANCELLED: "cancelled"}


class Status(StrEnum):
    """The status of a step. docs/explanation/life-of-a-task.md lists the transitions.

    Examples:
        >>> assert Order.ship.failed.status is Status.FAILED
    """

    PENDING = "pending"
    """Waiting for its first attempt, or for the next one after a release or reopen."""
    IN_PROGRESS = "in_progress"
    """A worker holds the lock. That worker ends it, or an ignore, or the next claim after the lock has expired."""
    FAILED = "failed"
    """The last attempt failed, and the task may be retried."""
    SUCCEEDED = "succeeded"
    """Done. If there is a next step, the task is pending there, which is the same state."""
    IGNORED = "ignored"
    """A person, GiveUp or the last failure ended the task. A reopen, or a claim with `also_from`, continues it."""

    def __eq__(self, other: object) -> bool:
        """Compare with another status or its text. A number raises TypeError, because `task.status` is a code."""
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

    def __init__(self, use_case_id: str, step: str, pending: int, succeeded: int, *, branch: bool = False) -> None:
        self.use_case_id = use_case_id
        self.step = step
        self.pending = pending
        self.succeeded = succeeded
        self.done_from = pending + SPACING
        """The lowest code that proves this step is done. Another program may declare a step with it."""
        self.branch = branch
        """Whether a task gets to this step only if a run chooses it."""
        self.in_progress, self.failed, self.ignored = pending + 1, pending + 2, pending + 3
        statuses = (Status.PENDING, Status.IN_PROGRESS, Status.FAILED, Status.IGNORED)
        self.own = dict(enumerate(statuses, pending))
        """The statuses by the four codes that belong only to this step."""

    def code(self, status: Status) -> int:
        return self.succeeded if status is Status.SUCCEEDED else next(c for c, s in self.own.items() if s is status)
