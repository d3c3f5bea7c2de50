"""A use case at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import methodcaller
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.control.item import Control, Pause, read
from pynamodb_tracker.control.slots import Use, uses
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.row import TaskRow, readable
from pynamodb_tracker.presentation.children import Blocked, blocked_among
from pynamodb_tracker.presentation.task_facts import is_abandoned, is_branch, unfinished_states
from pynamodb_tracker.presentation.text import span
from pynamodb_tracker.presentation.why_failed import Errors
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.pages import IndexEntry
from pynamodb_tracker.step.signal import signals_in
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

MOST = 1000  # the limit of counts. A count reads every index entry, at one read unit per 20 to 40

_MOST_WAITING = 100
_MOST_ROWS = (20, 200)  # rows with an expired lock to read, at first and if all those locks were extended
_SAMPLE = 400
_WITHIN = timedelta(hours=24)
_LATELY = timedelta(minutes=10)
_SECOND = timedelta(seconds=1)
_PARTS = 48


@dataclass(frozen=True, slots=True)
class Number:
    """A number of tasks. `more` is true if the count stopped there."""

    tasks: int
    more: bool = False

    @property
    def at_least(self) -> str:
        return f"{'≥ ' if self.more else ''}{self.tasks:,}"

    def __add__(self, other: Number) -> Number:
        return Number(self.tasks + other.tasks, self.more or other.more)

    def __str__(self) -> str:
        return f"{self.tasks:,}{'+' if self.more else ''}"


@dataclass(frozen=True, slots=True)
class StepView:
    step: BoundStep[Any]
    numbers: dict[State[Any], Number]
    waiting: Number  # how many pending tasks wait for signals or other tasks
    first: dict[Status, datetime]  # when the first task in each status can start
    left: Sequence[Task]  # tasks with an expired lock. Their rows show extensions, which the index does not have
    is_cut: bool
    time: datetime

    @property
    def is_branch(self) -> bool:
        return is_branch(self.step.model, self.step.name)

    @property
    def shares(self) -> list[tuple[str, Number]]:
        return [(str(state.status), number) for state, number in self.numbers.items()]

    @property
    def late(self) -> dict[Status, timedelta]:
        """How long the first pending task and the first failed task have been due, if they are."""
        ages = {status: self.time - time for status, time in self.first.items() if status is not Status.IN_PROGRESS}
        return {status: late for status, late in ages.items() if late >= _SECOND}

    @property
    def next(self) -> datetime | None:
        return min((time for time in self.first.values() if time >= self.time), default=None)

    @property
    def abandoned(self) -> timedelta | None:
        expired: list[datetime] = [task.lock_expire_time for task in self.left]
        return self.time - min(expired) if expired else None

    @property
    def expired(self) -> str:
        """How many locks have expired, and when the first did."""
        return _describe_expired(Number(len(self.left), self.is_cut), self.abandoned)


@dataclass(frozen=True, slots=True)
class Flow:
    """Recent successes, from the newest finished tasks."""

    entries: Sequence[tuple[datetime, datetime]]  # when each was created and done, the last one first
    covered: timedelta  # how far back the chart goes. A sample may not cover the whole day
    time: datetime

    @classmethod
    def of(cls, entries: Sequence[IndexEntry], *, is_all: bool) -> Flow:
        now = clock.now()
        times = [(each.create_time, each.update_time) for each in entries if each.create_time and each.update_time]
        covered = _WITHIN
        if times:
            begin = min(created for created, _ in times) if is_all else times[-1][1]
            covered = min(_WITHIN, max(now - begin, _SECOND))
        return cls([each for each in times if now - each[1] <= covered], covered, now)

    @property
    def period(self) -> str:
        return "24 hours" if self.covered == _WITHIN else span(self.covered)

    @property
    def lately(self) -> timedelta:
        return min(self.covered, _LATELY)

    @property
    def a_minute(self) -> float:
        found = sum(self.time - done <= self.lately for _, done in self.entries)
        return found / (self.lately / timedelta(minutes=1))

    @property
    def peak(self) -> str:
        return f"{max(self.columns)} in {span(self.part) if self.part >= _SECOND else f'{self.part / _SECOND:.1g}s'}"

    def took(self, share: float) -> timedelta | None:
        spans = sorted(done - created for created, done in self.entries)
        return spans[min(int(share * len(spans)), len(spans) - 1)] if spans else None

    @property
    def columns(self) -> list[int]:
        found = [0] * _PARTS
        for _, done in self.entries:
            at = int((self.time - done) / self.covered * _PARTS)
            found[_PARTS - 1 - min(max(at, 0), _PARTS - 1)] += 1
        return found

    @property
    def part(self) -> timedelta:
        return self.covered / _PARTS

    @property
    def titles(self) -> list[str]:
        shown = "%H:%M" if self.part >= timedelta(minutes=1) else "%H:%M:%S"
        starts = [self.time - self.part * (_PARTS - at) for at in range(_PARTS)]
        return [
            f"{value} done, {start:{shown}} to {start + self.part:{shown}} UTC"
            for value, start in zip(self.columns, starts, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Overview:
    steps: Sequence[StepView]
    pauses: Sequence[Pause] | None  # the current pauses, or None if the steps cannot be paused
    required: Sequence[str]  # a line for each required step that this program does not declare
    limits: Sequence[Use]
    done: Number | None  # None, like `flow`, if finished tasks are not in the index
    flow: Flow | None
    blocked: Sequence[Blocked]

    @property
    def time(self) -> datetime:
        return self.steps[0].time

    def total(self, status: str) -> Number:
        numbers = (each for step in self.steps for each in step.numbers.items())
        return sum((number for state, number in numbers if state.status == status), Number(0))

    @property
    def shares(self) -> list[tuple[str, Number]]:
        statuses = (Status.PENDING, Status.IN_PROGRESS, Status.FAILED, Status.IGNORED)
        return [(str(status), self.total(status)) for status in statuses]

    @property
    def waiting(self) -> Number:
        return sum((step.waiting for step in self.steps), Number(0))

    @property
    def late(self) -> dict[Status, timedelta]:
        found = [each for step in self.steps for each in step.late.items()]
        return {status: max(late for each, late in found if each is status) for status in dict.fromkeys(dict(found))}

    @property
    def exact(self) -> dict[State[Any], int] | None:
        """The number of unfinished tasks by state, or None if a count stopped at its limit."""
        numbers = {state: number for step in self.steps for state, number in step.numbers.items()}
        is_exact = not any(number.more for number in numbers.values())
        return {state: number.tasks for state, number in numbers.items()} if is_exact else None

    @property
    def abandoned(self) -> timedelta | None:
        return max(filter(None, (step.abandoned for step in self.steps)), default=None)

    @property
    def expired(self) -> str:
        numbers = (Number(len(step.left), step.is_cut) for step in self.steps)
        return _describe_expired(sum(numbers, Number(0)), self.abandoned)


def _describe_expired(number: Number, since: timedelta | None) -> str:
    if since is None:
        return f"no lock of the first {_MOST_ROWS[-1]} has expired" if number.more else ""
    first = f"{span(since)} ago"
    if str(number) == "1":
        return f"a lock expired {first}"
    return f"{number} locks expired, the first {first}"


def look(steps: Sequence[BoundStep[Any]], errors: Errors) -> Overview:
    """Load the overview. States that `errors` has counted cost no request."""
    views = behind(steps)
    known = {state: Number(tasks) for state, tasks in errors.counts.items() if tasks <= MOST}
    # Without a first task, no task is in progress. For pending, this does not hold: `first` ignores waiting tasks.
    known |= {view.step.in_progress: Number(0) for view in views if Status.IN_PROGRESS not in view.first}
    asked = [state for step in steps for state in unfinished_states(step) if state not in known]
    known |= dict(zip(asked, side_by_side(_count, asked), strict=True))

    def find_waiting(step: BoundStep[Any]) -> tuple[Number, list[str]]:
        pending = known[step.pending].tasks
        return waiting_of(step, most=min(pending, _MOST_WAITING)) if pending else (Number(0), [])

    waiting = side_by_side(find_waiting, steps)
    views = [
        replace(view, numbers={state: known[state] for state in unfinished_states(view.step)}, waiting=number)
        for view, (number, _) in zip(views, waiting, strict=True)
    ]
    model = steps[0].model
    control = control_of(model)
    pauses = control.in_force if model.tracker.obeys_control() else None
    blocked = blocked_among({step: ids for step, (_, ids) in zip(steps, waiting, strict=True)})
    done, flow = _find_done(steps[-1])
    return Overview(views, pauses, control.undeclared(model), limits_in_use(model), done, flow, blocked)


def control_of(model: type[TaskRow]) -> Control:
    """Return the control item's contents, without a request if no program obeys it."""
    return read(model) if model.tracker.obeys_control() else Control({}, {}, None)


def pause_at(task: Task) -> Pause | None:
    """Return the pause that holds the task back, without a request if it could not start anyway."""
    may_start = task.state.status in {Status.PENDING, Status.FAILED} or is_abandoned(task)
    if not may_start or task.waits_for is not None:
        return None
    return find_pause(type(task), task.state.step)


def find_pause(model: type[TaskRow], step: str | None) -> Pause | None:
    return next((pause for pause in control_of(model).in_force if pause.step == step), None)


def limits_in_use(model: type[TaskRow]) -> Sequence[Use]:
    if all(step._definition.declared.concurrency_limit is None for step in model._bound_steps.values()):
        return ()
    return uses(model)


def behind(steps: Sequence[BoundStep[Any]]) -> list[StepView]:
    """Return how late these steps are, without counts, in about three requests per step."""
    now, firsts = clock.now(), side_by_side(methodcaller("next_due"), steps)
    left = side_by_side(lambda each: _find_left(*each), zip(steps, firsts, strict=True))
    return [
        StepView(step, {}, Number(0), {state.status: time for state, time in first.items()}, *tasks, now)
        for step, first, tasks in zip(steps, firsts, left, strict=True)
    ]


def _count(state: State[Any]) -> Number:
    counted = state.count(up_to=MOST + 1)
    return Number(min(counted, MOST), counted > MOST)


def _find_left(step: BoundStep[Any], first: dict[State[Any], datetime]) -> tuple[list[Task], bool]:
    """Return tasks with an expired lock, and whether there may be more."""
    if first.get(step.in_progress, clock.now()) >= clock.now():
        return [], False
    found, is_cut = list[Task](), False
    for most in _MOST_ROWS:
        rows = [*map(readable, step.in_progress.query(limit=most, with_data=False))]
        found = [*filter(is_abandoned, rows)]
        is_cut = len(rows) == most and (rows[-1].due_time or clock.now()) <= clock.now()
        if found or not is_cut:
            break
    return found, is_cut


def waiting_of(step: BoundStep[Any], *, most: int = _MOST_WAITING) -> tuple[Number, list[str]]:
    """Return the number and the ids of tasks that wait, among those with the latest due times.

    If the use case declares signals, only the row shows whether a task that is due later waits for one until then.
    """
    found = step.pending.index_page(limit=most, latest_due_first=True)
    later = [each for each in found.tasks if each.due_time is not None and each.due_time > clock.now()]
    waiting = [each.task_id for each in later if each.due_time == clock.NEVER]
    if not signals_in(step.model):
        later = later[: len(waiting)]
    if with_limit := [each.task_id for each in later[len(waiting) :]]:
        rows = rows_to_show(step.model, with_limit)
        waiting += [task_id for task_id, row in rows.items() if row.waits_for is not None]
    return Number(len(waiting), more=found.cursor is not None and len(later) == len(found.tasks)), waiting


def _find_done(last: BoundStep[Any]) -> tuple[Number, Flow] | tuple[None, None]:
    if not last.model.tracker.use_case.index_succeeded:
        return None, None
    found = last.succeeded.index_page(limit=_SAMPLE, latest_due_first=True)
    done = Number(len(found.tasks)) if found.cursor is None else _count(last.succeeded)
    return done, Flow.of(found.tasks, is_all=found.cursor is None)
