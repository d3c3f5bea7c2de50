"""An order: what the world outside of the table does with it, and so where the pipeline must leave it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pynamodb_tracker.status import Status

__all__ = ["CALLED_OFF", "STATUSES", "STEPS", "PlacedOrder", "Trouble", "called_off_at", "happened"]

STEPS = ("confirm_payment", "ship", "deliver")
"""The steps of the pipeline, in order; the event of each is told by one time of the order."""

STATUSES: Mapping[str, int] = {
    "created": 0,
    "approved": 1,
    "invoiced": 1,
    "processing": 1,
    "shipped": 2,
    "delivered": 3,
    "canceled": 0,
    "unavailable": 0,
}
"""The statuses of an order, and how many steps have certainly happened in each."""

CALLED_OFF = ("canceled", "unavailable")
"""The statuses of an order that some step gives up on."""


class Trouble(StrEnum):
    """Why a generated order can never succeed, whatever is tried."""

    DECLINED = "declined"
    """The bank declines the card: the step gives up at once."""
    SILENT = "silent"
    """The bank never answers: every attempt fails."""
    CRASHING = "crashing"
    """The label takes down each worker that prints it: every attempt dies."""
    UNKNOWN = "unknown"
    """Nobody knows the address: the step gives up at once."""

    @property
    def step(self) -> str:
        """The step at which it shows."""
        return {Trouble.CRASHING: "ship", Trouble.UNKNOWN: "deliver"}.get(self, "confirm_payment")


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    """One order, from a file or generated."""

    order_id: str
    status: str
    """One of `STATUSES`."""
    times: Mapping[str, datetime] = field(default_factory=dict)
    """When the event of a step happened, by the step's name; a step without one is left out."""
    trouble: Trouble | None = None

    @property
    def end(self) -> tuple[str, Status]:
        """Where the pipeline must leave the order, as a step and its status.

        A delivered order reaches the end; one that was called off ends ignored at the step that had not happened
        by then; any other waits at the step that has not happened yet.
        """
        if self.trouble:
            return self.trouble.step, Status.IGNORED
        if step := called_off_at(self.status, self.times):
            return step, Status.IGNORED
        done = happened(self.status, self.times)
        return (STEPS[-1], Status.SUCCEEDED) if done == len(STEPS) else (STEPS[done], Status.PENDING)

    @property
    def steps_started(self) -> tuple[str, ...]:
        """The steps that some worker must start, the one that gives up included."""
        step, status = self.end
        return STEPS[: STEPS.index(step) + (status is not Status.PENDING)]


def happened(status: str, times: Collection[str]) -> int:
    """Return how many steps of an order have happened: all up to the last one that its status or a time tells of.

    Real files have gaps, delivered orders without a time of delivery for one: what came later tells of what was before.
    """
    told = (number for number, step in enumerate(STEPS, 1) if step in times)
    return max(STATUSES[status], max(told, default=0))


def called_off_at(status: str, times: Collection[str]) -> str | None:
    """Return the step that gives up on an order: the first that had not happened, or the last if all had."""
    if status not in CALLED_OFF:
        return None
    return STEPS[min(happened(status, times), len(STEPS) - 1)]
