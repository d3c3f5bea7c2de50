"""How many tasks passed through each step in the last 24 hours, from hourly counters."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import add, sub
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.control import flow
from pynamodb_tracker.presentation.task_facts import is_branch
from pynamodb_tracker.step.bound import BoundStep


@dataclass(frozen=True, slots=True)
class Passing:
    """About how many tasks came to a step in each of 24 hours, and how its runs ended."""

    step: BoundStep[Any]
    came: Sequence[int]
    """By hour, the oldest first: new tasks, the previous step's successes, and runs that chose this step."""
    succeeded: Sequence[int]
    failed: Sequence[int]  # failed attempts, except last ones
    ignored: Sequence[int]
    took: Sequence[int]  # the successes of 24 hours by duration, in the buckets between `flow.BOUNDS`
    begin: datetime

    @property
    def median(self) -> timedelta | None:
        return flow.quantile(self.took, 0.5)

    @property
    def percentile_95(self) -> timedelta | None:
        return flow.quantile(self.took, 0.95)

    @property
    def failure_rate(self) -> float | None:
        bad = sum(self.failed) + sum(self.ignored)
        return bad / attempts if (attempts := bad + sum(self.succeeded)) else None

    @property
    def _hours(self) -> float:
        """How long this hour and the last one have lasted so far."""
        return 1 + max((clock.now() - self.begin) / timedelta(hours=1), 0)

    @property
    def done_per_hour(self) -> float:
        """How many tasks left the step per hour, in this hour and the last one."""
        return (sum(self.succeeded[-2:]) + sum(self.ignored[-2:])) / self._hours

    @property
    def growth(self) -> float:
        """How many more tasks came than left, per hour."""
        return sum(self.came[-2:]) / self._hours - self.done_per_hour

    @property
    def last_success(self) -> datetime | None:
        at = next((at for at, number in enumerate(reversed(self.succeeded)) if number), None)
        return None if at is None else self.begin - timedelta(hours=at - 1)


def passing_of(steps: Sequence[BoundStep[Any]], hours: Sequence[flow.Hour]) -> list[Passing]:
    def by_hour(name: str) -> list[int]:
        return [hour.numbers.get(name, 0) for hour in hours]

    passed_on, found = by_hour(flow.CREATED), []
    for step in steps:
        chosen, succeeded, failed, ignored, left = (
            by_hour(f"{what}#{step.number}") for what in (flow.CAME, "succeeded", "failed", "ignored", flow.LEFT)
        )
        came = chosen if is_branch(step.model, step.name) else list(map(add, passed_on, chosen))
        took = [sum(by_hour(f"{flow.TOOK}{bucket}#{step.number}")) for bucket in range(len(flow.BOUNDS) + 1)]
        found.append(Passing(step, came, succeeded, failed, ignored, took, hours[-1].begin))
        passed_on = list(map(sub, succeeded, left))
    return found
