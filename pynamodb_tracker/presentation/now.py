"""What needs people now in all use cases, as one picture for the page, the terminal and JSON."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pynamodb_tracker import clock
from pynamodb_tracker.control.records import MOST_SCHEDULES, Command
from pynamodb_tracker.control.slots import Use
from pynamodb_tracker.presentation.glance import Glance, ModelGlance, glance
from pynamodb_tracker.presentation.needs import Need, find_needs
from pynamodb_tracker.presentation.schedules import Schedule, schedule_of
from pynamodb_tracker.presentation.steps import StepRow, build_row, passing_of
from pynamodb_tracker.presentation.task_facts import steps_of
from pynamodb_tracker.presentation.waiting import limits_in_use
from pynamodb_tracker.task.task import Task

_MOST_COMMANDS = 20


@dataclass(frozen=True, slots=True)
class UseCaseRow:
    model: type[Task]
    steps: Sequence[StepRow]
    is_counted: bool  # whether `count_transitions` is set
    done: int | None  # about how many tasks succeeded at the last step in 24 hours
    limits: Sequence[Use]
    required: Sequence[str]  # a line for each required step that this program does not declare

    @property
    def is_empty(self) -> bool:
        return all(row.is_empty for row in self.steps)

    @property
    def most(self) -> int:
        """The most successes or failures per hour and step, for charts on one scale."""
        passing = [row.passing for row in self.steps if row.passing is not None]
        return max((number for each in passing for number in (*each.succeeded, *each.failed)), default=0)


@dataclass(frozen=True, slots=True)
class Now:
    time: datetime
    needs: Sequence[Need]
    retrying: int
    unseen: Sequence[str]
    use_cases: Sequence[UseCaseRow]
    schedules: Sequence[Schedule]
    commands: Sequence[tuple[type[Task], Command]]

    @property
    def summary(self) -> str:
        parts = [f"{len(self.needs)}, the most urgent first" if self.needs else "nothing"]
        if self.retrying:
            parts.append(f"{self.retrying} failed {'task' if self.retrying == 1 else 'tasks'} will be tried again")
        if self.unseen:
            parts.append("the table cannot tell whether more is wrong")
        elif self.needs:
            parts.append("nothing else needs you, as far as the table shows")
        return " · ".join(parts)

    @property
    def is_quiet(self) -> bool:
        return not (self.needs or self.unseen)


def find_now(models: Sequence[type[Task]], known: Collection[type[Task]] = ()) -> Now:
    """Read these use cases, and find out what needs people. Links also lead to `known` ones.

    Raises PynamoDB's error if the table cannot be reached.
    """
    found = glance(models)
    use_cases, schedules = list[UseCaseRow](), list[Schedule]()
    for model, of_model in found.models.items():
        use_cases.append(_build_use_case(found, of_model))
        listed = (found.rows.get((task_id, model.tracker.use_case.name)) for task_id in of_model.schedules)
        schedules += [schedule_of(task) for task in listed if task is not None and "repeat" in task._row_state.stored]
        if len(of_model.schedules) >= MOST_SCHEDULES:
            found.unseen[f"{model.__name__}: only {MOST_SCHEDULES} schedules are listed"] = None
    schedules.sort(key=lambda each: (each.due_time or clock.NEVER, each.task.task_id))
    steps = [step for of_model in found.models.values() for step in of_model.steps]
    rows = [row for use_case in use_cases for row in use_case.steps]
    needs, retrying = find_needs(found, list(zip(steps, rows, strict=True)), schedules, [*models, *known])
    commands = [(model, command) for model, each in found.models.items() for command in each.commands]
    commands.sort(key=lambda each: each[1].time, reverse=True)
    return Now(found.now, needs, retrying, list(found.unseen), use_cases, schedules, commands[:_MOST_COMMANDS])


def _build_use_case(found: Glance, of_model: ModelGlance) -> UseCaseRow:
    model, hours = of_model.model, of_model.hours
    passing = {} if hours is None else {each.step.name: each for each in passing_of(steps_of(model), hours)}
    pauses = {pause.step: pause for pause in of_model.pauses}
    names = [each.step.name for each in of_model.steps]
    rows = [
        build_row(found, each, passing.get(name), pauses.get(name))
        for name, each in zip(names, of_model.steps, strict=True)
    ]
    limits = found.attempt(model.__name__, partial(limits_in_use, model)) or ()
    done = sum(passing[names[-1]].succeeded) if passing else None
    return UseCaseRow(model, rows, hours is not None, done, limits, of_model.required)
