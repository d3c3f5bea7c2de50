"""The tasks that a command names, and the step of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.arguments import did_you_mean
from pynamodb_tracker.cli.command import CannotRunError, check_window, is_step, state_named, step_named, steps_of
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.presentation.listing import Filter, find
from pynamodb_tracker.presentation.task_facts import name_of
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

_READ_AT_ONCE = 250
"""Index entries per request."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Task ids, where `-` stands for the ids on stdin, and the step that they must be at, if one was named."""

    model: type[Task]
    step: BoundStep[Any] | None
    ids: Sequence[str]

    @classmethod
    def named(cls, model: type[Task], words: Sequence[str]) -> Targets:
        """Return the targets of `[STEP] TASK...`. The first word is a step if the use case has a step of that name."""
        first, *more = words
        if is_step(model, first):
            if not more:
                raise typer.BadParameter(f"{first} is a step: name tasks, too", param_hint="TASK")
            return cls(model, step_named(model, first), more)
        targets, known = cls(model, None, words), {step.name for step in steps_of(model)}
        if more and did_you_mean(first, known) and first != "-" and targets.task(first) is None:
            raise CannotRunError(f"{model.__name__} has no step and no task {first!r}{did_you_mean(first, known)}")
        return targets

    def task(self, task_id: str) -> Task | None:
        """Load the row of a task, without its data."""
        return rows(self.model, [task_id]).get(task_id)

    def step_of(self, task: Task | None, task_id: str) -> BoundStep[Any]:
        """Return the named step, or the current step of the task."""
        if self.step is not None:
            return self.step
        if task is None:
            raise TaskNotFoundError(f"there is no {self.model.__name__} {task_id!r}", task_id=task_id)
        if task.state == self.model.cancelled and task.cancelled is not None:
            return step_named(self.model, self.model.tracker.step_named_by(task.cancelled.step))
        if task.state.status is None:
            raise ValueError(f"{self.model.__name__} {task_id!r} is {name_of(task.state)}: no step declares its state")
        return step_named(self.model, task.state.step)


@dataclass(frozen=True, slots=True)
class Asked:
    """Selects tasks to change by their properties. With `dry_run`, they are only listed."""

    since: datetime | None = None
    until: datetime | None = None
    error_contains: str | None = None
    limit: int | None = None
    dry_run: bool = False

    def found_in(
        self, model: type[Task], words: Sequence[str], statuses: Sequence[Status]
    ) -> tuple[BoundStep[Any], Iterator[str]]:
        """Return the named step and the ids of its matching tasks, in the named state or in all these `statuses`.

        The ids are read from the index while tasks change. Tasks that enter the state in the meantime are left alone.
        """
        name, *more = words
        if more:
            raise typer.BadParameter("name a step or a state, and no task: options select the tasks", param_hint="TASK")
        if name.rpartition(".")[2] not in list(Status):
            states = [getattr(step_named(model, name), status) for status in statuses]
        else:
            states = [state_named(model, name)]
            if states[0].status not in statuses:
                raise typer.BadParameter(f"nothing changes for tasks that are {name}", param_hint="TASK")
        check_window(self.since, self.until)
        return step_named(model, states[0].step), islice(self._ids(states), self.limit)

    def _ids(self, states: Sequence[State[Any]]) -> Iterator[str]:
        until = min(filter(None, (self.until, clock.now())))
        for state in states:
            what, cursor = Filter(state, self.since, until, self.error_contains or ""), None
            while True:
                found = find(what, cursor, limit=_READ_AT_ONCE)
                yield from (entry.task_id for entry in found.entries)
                if (cursor := found.cursor) is None:
                    break


NOTHING_ASKED = Asked()
"""No selection: the tasks are named by id."""
