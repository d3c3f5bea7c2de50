"""A step in the picture: its unfinished tasks, and how many passed through it in the last 24 hours."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import add, sub
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.control import flow
from pynamodb_tracker.control.item import Pause
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import task_facts as facts
from pynamodb_tracker.presentation.errors import NO_ERROR
from pynamodb_tracker.presentation.glance import Glance, StateGlance, StepGlance
from pynamodb_tracker.presentation.waiting import Number
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.task.task import Task

_GROWS = 0.1  # the backlog counts as growing from this part of the finished tasks on


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
        came = chosen if facts.is_branch(step.model, step.name) else list(map(add, passed_on, chosen))
        took = [sum(by_hour(f"{flow.TOOK}{bucket}#{step.number}")) for bucket in range(len(flow.BOUNDS) + 1)]
        found.append(Passing(step, came, succeeded, failed, ignored, took, hours[-1].begin))
        passed_on = list(map(sub, succeeded, left))
    return found


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step's unfinished tasks, and how its runs ended lately."""

    step: BoundStep[Any]
    due: Number
    oldest: timedelta | None  # how long the first pending task has been due
    waits: Mapping[str, Number]
    """How many pending tasks wait for a `turn`, a `signal` or `children`, or are due `later`."""
    running: Number
    expired: int  # how many rows, among those that were read, have an expired lock
    first_expired: timedelta | None
    failed: Number
    failed_for: timedelta | None  # how long the first failed task has been due
    gave_up: Number  # without tasks that people have set aside
    set_aside: int
    passing: Passing | None
    pause: Pause | None

    @property
    def is_branch(self) -> bool:
        return facts.is_branch(self.step.model, self.step.name)

    @property
    def failure_rate(self) -> float | None:
        return None if self.passing is None else self.passing.failure_rate

    @property
    def growth(self) -> float | None:
        return None if self.passing is None else self.passing.growth

    @property
    def is_growing(self) -> bool:
        """Whether it grows by a task per hour and by a tenth of its finished tasks, or more."""
        return self.passing is not None and self.passing.growth >= max(_GROWS * self.passing.done_per_hour, 1)

    @property
    def is_empty(self) -> bool:
        numbers = (self.due, self.running, self.failed, self.gave_up, *self.waits.values())
        return not (self.set_aside or self.pause or any(number.tasks for number in numbers))


def build_row(found: Glance, step: StepGlance, passing: Passing | None, pause: Pause | None) -> StepRow:
    pending, running = step.states[Status.PENDING], step.states[Status.IN_PROGRESS]
    failed, ignored = step.states[Status.FAILED], step.states[Status.IGNORED]
    expired = [row.lock_expire_time for row in find_rows(found, step, running) if facts.is_abandoned(row)]
    set_aside = sum(map(is_set_aside, ignored.entries))
    return StepRow(
        step.step,
        step.due,
        _longest_due(pending.entries, found.now),
        count_waits(found, step),
        running.number,
        len(expired),
        found.now - min(expired) if expired else None,
        failed.number,
        _longest_due([*failed.entries, *step.oldest_failed], found.now),
        Number(len(ignored.entries) - set_aside, ignored.more),
        set_aside,
        passing,
        pause,
    )


def find_rows(found: Glance, step: StepGlance, state: StateGlance) -> list[Task]:
    """Return the rows of a state that were read."""
    name = step.step.model.tracker.use_case.name
    keys = [(entry["task_id"]["S"], name) for entry in state.entries]
    return [found.rows[key] for key in keys if key in found.rows]


def _longest_due(entries: Sequence[Item], now: datetime) -> timedelta | None:
    first = clock.read(min((each["due_time"]["S"] for each in entries), default=""))
    return now - first if first is not None and first <= now else None


def count_waits(found: Glance, step: StepGlance) -> dict[str, Number]:
    """Count the waiting tasks by reason. If only some rows were read, the numbers are minimums."""
    kinds = Counter(map(facts.kind_of_wait, find_rows(found, step, step.later)))
    unread = step.later.number.tasks - kinds.total()
    waits = {kind: Number(number, more=unread > 0) for kind, number in kinds.items()}
    return waits | ({"not read": Number(unread, step.later.number.more)} if unread > 0 else {})


def is_set_aside(entry: Item) -> bool:
    """Return whether a person ignored the task. Otherwise, its last failure did."""
    return (error_of(entry) + " ").startswith(("ignored: ", "ignored "))


def error_of(entry: Item) -> str:
    return str(entry.get("last_error", {}).get("S") or NO_ERROR)


def time_of(entry: Item) -> datetime:
    return clock.read(entry.get("update_time", {}).get("S", "")) or clock.now()
