"""Numbers of tasks, which tasks of a step are late or wait, and what holds a use case back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import methodcaller
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.control.item import Control, Pause, read
from pynamodb_tracker.control.slots import Use, uses
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.row import TaskRow, readable
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation.task_facts import is_abandoned
from pynamodb_tracker.presentation.text import span
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.signal import signals_in
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

_MOST_WAITING = 100
_MOST_ROWS = (20, 200)  # rows with an expired lock to read, at first and if all those locks were extended
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of tasks. `more` is true if the count stopped there."""

    tasks: int
    more: bool = False

    @property
    def at_least(self) -> str:
        return f"{'≥ ' if self.more else ''}{self.tasks:,}"

    def __add__(self, other: "Number") -> "Number":
        return Number(self.tasks + other.tasks, self.more or other.more)

    def __str__(self) -> str:
        return f"{self.tasks:,}{'+' if self.more else ''}"


@dataclass(frozen=True, slots=True)
class Lateness:
    step: BoundStep[Any]
    late: dict[Status, timedelta]  # how long the first pending task and the first failed task have been due
    locks: Number  # the expired ones
    abandoned: timedelta | None  # how long ago the first lock expired

    @property
    def expired(self) -> str:
        """How many locks have expired, and when the first did."""
        if self.abandoned is None:
            return f"no lock of the first {_MOST_ROWS[-1]} has expired" if self.locks.more else ""
        first = f"{span(self.abandoned)} ago"
        return f"a lock expired {first}" if str(self.locks) == "1" else f"{self.locks} locks expired, the first {first}"


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


def lateness_of(steps: Sequence[BoundStep[Any]]) -> list[Lateness]:
    """Return how late these steps are, in about three requests per step."""
    now, firsts = clock.now(), side_by_side(methodcaller("next_due"), steps)
    locks = side_by_side(lambda each: _find_expired(*each), zip(steps, firsts, strict=True))
    found = []
    for step, first, (expired, is_cut) in zip(steps, firsts, locks, strict=True):
        ages = {state.status: now - time for state, time in first.items() if state != step.in_progress}
        late = {status: age for status, age in ages.items() if status and age >= _SECOND}
        found.append(Lateness(step, late, Number(len(expired), is_cut), now - min(expired) if expired else None))
    return found


def _find_expired(step: BoundStep[Any], first: dict[State[Any], datetime]) -> tuple[list[datetime], bool]:
    """Return when locks expired, and whether there may be more. Rows show extensions, which the index does not have."""
    if first.get(step.in_progress, clock.now()) >= clock.now():
        return [], False
    found, is_cut = list[datetime](), False
    for most in _MOST_ROWS:
        rows = [*map(readable, step.in_progress.query(limit=most, with_data=False))]
        found = [row.lock_expire_time for row in rows if is_abandoned(row)]
        is_cut = len(rows) == most and (rows[-1].due_time or clock.now()) <= clock.now()
        if found or not is_cut:
            break
    return found, is_cut


def waiting_of(step: BoundStep[Any]) -> Number:
    """Count the tasks that wait, among those with the latest due times.

    If the use case declares signals, only the row shows whether a task that is due later waits for one until then.
    """
    found = step.pending.index_page(limit=_MOST_WAITING, latest_due_first=True)
    later = [each for each in found.tasks if each.due_time is not None and each.due_time > clock.now()]
    waiting = sum(each.due_time == clock.NEVER for each in later)
    if not signals_in(step.model):
        later = later[:waiting]
    if with_limit := [each.task_id for each in later[waiting:]]:
        waiting += sum(row.waits_for is not None for row in rows_to_show(step.model, with_limit).values())
    return Number(waiting, more=found.cursor is not None and len(later) == len(found.tasks))
