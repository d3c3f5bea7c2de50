"""How a use case changes: counts tell whether it keeps up, and hourly counters how runs ended."""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import add, sub
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.control import flow
from pynamodb_tracker.presentation.task_facts import is_branch
from pynamodb_tracker.presentation.text import between, span
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State

_APART = timedelta(seconds=30)  # the least time between two counts. Until then, a newer count replaces the last one
_KEPT = 120  # an hour, if the page stays open
_OVER = timedelta(minutes=10)  # a shorter change says nothing about whether workers keep up
_NOTABLE = 0.1  # a change by a smaller part of the finished tasks is chance

_LEFT = (Status.PENDING, Status.IN_PROGRESS, Status.FAILED)


@dataclass(frozen=True, slots=True)
class Change:
    since: datetime
    until: datetime
    before: Mapping[State[Any], int]
    after: Mapping[State[Any], int]
    done_a_minute: float | None = None
    """How many tasks finished per minute, or None if that is unknown or the count is old."""
    is_old: bool = False

    @property
    def left(self) -> int:
        return _count_left(self.after)

    @property
    def a_minute(self) -> float:
        """How many unfinished tasks were added per minute, below zero if workers keep up."""
        return (self.left - _count_left(self.before)) / ((self.until - self.since) / timedelta(minutes=1))

    @property
    def keeps_up(self) -> bool | None:
        """Whether workers keep up, or None if that is unclear."""
        if self.done_a_minute is None or self.until - self.since < _OVER or not self.a_minute:
            return None
        is_chance = abs(self.a_minute) < _NOTABLE * self.done_a_minute
        is_other = self.a_minute < 0 and not self.done_a_minute  # for example, tasks were cancelled
        return None if is_chance or is_other else self.a_minute < 0

    @property
    def empty_in(self) -> timedelta | None:
        """How long it takes at this rate until no task is left."""
        return timedelta(minutes=self.left / -self.a_minute) if self.left and self.keeps_up else None

    @property
    def words(self) -> str:
        left, rate = f"{self.left:,} left", abs(self.a_minute)
        if self.is_old:
            return f"{left} at the last count, {between(self.until)}"
        period = span(self.until - self.since)
        if not rate:
            return f"{left}, unchanged for {period}"
        shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"  # noqa: PLR2004 - two digits
        return f"{left}, {shown} {'more' if self.a_minute > 0 else 'fewer'} a minute over {period}"

    @property
    def verdict(self) -> str:
        """Whether workers keep up, for people."""
        if self.empty_in is not None:
            return f"empty in about {span(self.empty_in)}"
        return "it does not keep up" if self.keeps_up is False else ""

    @property
    def by_state(self) -> dict[State[Any], int]:
        states = dict.fromkeys([*self.before, *self.after])
        changes = {state: self.after.get(state, 0) - self.before.get(state, 0) for state in states}
        return {state: change for state, change in changes.items() if change}


class History:
    def __init__(self) -> None:
        self._counts: deque[tuple[datetime, Mapping[State[Any], int]]] = deque(maxlen=_KEPT)
        self._guard = threading.Lock()

    def add(self, time: datetime, counts: Mapping[State[Any], int]) -> None:
        with self._guard:
            if self._counts and time <= self._counts[-1][0]:
                return
            if len(self._counts) > 1 and time - self._counts[-2][0] < _APART:
                self._counts.pop()
            self._counts.append((time, counts))

    @property
    def last(self) -> tuple[datetime, Mapping[State[Any], int]] | None:
        with self._guard:
            return self._counts[-1] if self._counts else None

    def change(self, time: datetime, done_a_minute: float | None = None) -> Change | None:
        """Return the change over the last ten minutes or less. `time` is when the view was read."""
        with self._guard:
            if len(self._counts) < 2:  # noqa: PLR2004 - a change is between two
                return None
            until, after = self._counts[-1]
            enough = [each for each in self._counts if each[0] <= until - _OVER]
            since, before = enough[-1] if enough else self._counts[0]
        is_old = until < time
        return Change(since, until, before, after, None if is_old else done_a_minute, is_old)


def _count_left(counts: Mapping[State[Any], int]) -> int:
    return sum(number for state, number in counts.items() if state.status in _LEFT)


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


def find_passing(steps: Sequence[BoundStep[Any]]) -> list[Passing]:
    return passing_of(steps, flow.read(steps[0].model))


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
