"""What passed through each step in the last 24 hours, of a use case that counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, sub
from typing import Any

from pynamodb_tracker.control import flow
from pynamodb_tracker.presentation.task_facts import is_branch
from pynamodb_tracker.step.bound import BoundStep


@dataclass(frozen=True, slots=True)
class Passing:
    """About how many tasks came to a step, and how its runs ended."""

    step: BoundStep[Any]
    came: Sequence[int]
    """By hour, the oldest first: new tasks, or successes of the step before it, and of runs that have chosen it."""
    succeeded: Sequence[int]
    failed: Sequence[int]
    """Attempts that failed, and are followed by another one."""
    ignored: Sequence[int]


def find_passing(steps: Sequence[BoundStep[Any]]) -> list[Passing]:
    """Return what was counted at each step."""
    hours = flow.read(steps[0].model)

    def by_hour(name: str) -> list[int]:
        return [hour.numbers.get(name, 0) for hour in hours]

    going_on, found = by_hour(flow.CREATED), []
    for step in steps:
        chosen, succeeded, failed, ignored, left = (
            by_hour(f"{what}#{step.number}") for what in (flow.CAME, "succeeded", "failed", "ignored", flow.LEFT)
        )
        came = chosen if is_branch(step.model, step.name) else list(map(add, going_on, chosen))
        found.append(Passing(step, came, succeeded, failed, ignored))
        going_on = list(map(sub, succeeded, left))
    return found
