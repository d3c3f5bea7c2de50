"""Accidents: which runs fail and which take their worker with them, drawn from a seed before anything starts.

An accident belongs to an attempt of a step of an order, so that it happens whoever runs it, in whatever order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pynamodb_tracker.demo.orders import PlacedOrder, Trouble
from pynamodb_tracker.status import Status

__all__ = ["MAX_ATTEMPTS", "Accident", "Accidents", "draw_accidents"]

MAX_ATTEMPTS = 4
"""Attempts that each step allows."""

_MOST_IN_A_ROW = MAX_ATTEMPTS - 2
"""An order that can succeed does so one attempt before the last: a worker that is late on a busy machine costs one."""

_FAILURES = {"confirm_payment": 0.10, "ship": 0.02, "deliver": 0.02}
_DEATHS = 0.01


class Accident(StrEnum):
    """What may happen to an attempt."""

    FAILURE = "failure"
    """The service that the step asks does not do it this time."""
    DEATH = "death"
    """The worker is gone, with the work done and the success not recorded."""


@dataclass(frozen=True, slots=True)
class Accidents:
    """The accidents of all orders."""

    drawn: Mapping[tuple[str, str], tuple[Accident, ...]]
    """By order and step, one for each of its first attempts."""

    def of(self, order_id: str, step: str, attempt: int, trouble: Trouble | None) -> Accident | None:
        """Return what happens to this attempt."""
        if trouble and trouble.step == step:
            return {Trouble.SILENT: Accident.FAILURE, Trouble.CRASHING: Accident.DEATH}.get(trouble)
        drawn = self.drawn.get((order_id, step), ())
        return drawn[attempt - 1] if attempt <= len(drawn) else None


def draw_accidents(orders: Iterable[PlacedOrder], seed: int) -> Accidents:
    """Draw the accidents of the runs that succeed in the end; of each kind there is at least one, if there is room."""
    chance = random.Random(f"accidents {seed}")  # noqa: S311 - draws a demo, not a secret
    runs = [
        (order.order_id, step)
        for order in orders
        for step in order.steps_started
        if order.end != (step, Status.IGNORED)
    ]
    drawn = {run: accidents for run in runs if (accidents := _of_one_run(chance, run[1]))}
    for accident in Accident:
        quiet = [run for run in runs if run not in drawn]
        if quiet and not any(accident in accidents for accidents in drawn.values()):
            drawn[chance.choice(quiet)] = (accident,)
    return Accidents(drawn)


def _of_one_run(chance: random.Random, step: str) -> tuple[Accident, ...]:
    accidents: list[Accident] = []
    while len(accidents) < _MOST_IN_A_ROW:
        number = chance.random()
        if number < _DEATHS:
            accidents.append(Accident.DEATH)
        elif number < _DEATHS + _FAILURES[step]:
            accidents.append(Accident.FAILURE)
        else:
            break
    return tuple(accidents)
