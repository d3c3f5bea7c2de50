"""The outcomes of attempts, as a batch reports them and a worker counts them."""

from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["succeeded", "failed", "ignored", "refused", "released"]
"""refused: the task was not started, or its end could not be recorded. released: the attempt does not count."""


@dataclass(slots=True)
class Report:
    """A batch's outcomes. Each task is in one list."""

    succeeded: list[str] = field(default_factory=list)
    """They succeeded, or were created, deleted or reopened."""
    failed: list[str] = field(default_factory=list)
    """They will be tried again."""
    ignored: list[str] = field(default_factory=list)
    """No attempt was left, the function gave up, or `ignore_many` ignored them."""
    refused: dict[str, Exception] = field(default_factory=dict)
    """They were not started or changed, or lost their lock, for these reasons."""
    released: list[str] = field(default_factory=list)
    """Their attempts do not count, because the batch was stopped or responses came too late."""
    paused: bool = False
    """Whether the step was paused, so that no more tasks started."""
    postponed: int = 0
    """How many failed tasks were postponed, so that their attempts do not count."""
    due_now: int = 0
    """How many reopened tasks are due now instead of at their `due_times`, because they repeat or were pending."""

    def __str__(self) -> str:
        postponed = f" ({self.postponed} postponed)" if self.postponed else ""
        paused = ", and then the step was paused" if self.paused else ""
        return (
            f"{len(self.succeeded)} succeeded, {len(self.failed)} failed{postponed}, {len(self.ignored)} ignored, "
            f"{len(self.refused)} refused{paused}"
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tasks had each outcome at a step."""

    succeeded: int = 0
    """Their step is done."""
    failed: int = 0
    """They will be tried again."""
    ignored: int = 0
    """No attempt was left, or the function gave up."""
    refused: int = 0
    """They were not started, mostly because another worker had them first, or their end could not be recorded."""
    released: int = 0
    """Their attempts do not count, because the worker stopped or responses came too late."""
    postponed: int = 0
    """How many failed attempts were postponed, so that they do not count."""
    paused: bool = False
    """Whether the step is paused."""

    def __add__(self, other: "Tally") -> "Tally":
        numbers = (getattr(self, name) + getattr(other, name) for name in self.__slots__[:-1])
        return Tally(*numbers, paused=self.paused or other.paused)  # type: ignore[misc]  # `paused` is none of them

    def __str__(self) -> str:
        return (
            f"{self.succeeded} succeeded, {self.failed} failed, {self.ignored} ignored, {self.refused} refused, "
            f"{self.released} released"
            + (f", {self.postponed} postponed" if self.postponed else "")
            + (", paused" if self.paused else "")
        )
