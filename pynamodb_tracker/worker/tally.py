"""How many tasks of a step a worker has tried, by what became of them: numbers, for it may run for months."""

from __future__ import annotations

from dataclasses import astuple, dataclass

__all__ = ["Tally"]


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the tasks of a step, in numbers."""

    succeeded: int = 0
    """For these it was done."""
    failed: int = 0
    """These attempts failed; the tasks will be tried again."""
    ignored: int = 0
    """These were set aside: their last attempt failed or was used up, or the function gave up."""
    refused: int = 0
    """These were not started, mostly because another worker had them first, or their end could not be recorded."""
    released: int = 0
    """These attempts were given back when the worker stopped."""

    def __add__(self, other: Tally) -> Tally:
        """Return the sums."""
        return Tally(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.succeeded} succeeded, {self.failed} failed, {self.ignored} ignored, {self.refused} refused, "
            f"{self.released} released"
        )
