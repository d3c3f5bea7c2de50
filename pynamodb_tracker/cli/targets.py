"""The tasks that a command names, and the step that each of them is at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from pynamodb_tracker.arguments import did_you_mean
from pynamodb_tracker.cli.command import CannotRunError, step_named, steps_of
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.presentation.task_facts import name_of
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.task.task import Task


@dataclass(frozen=True, slots=True)
class Targets:
    """Ids of tasks, `-` for those on stdin, and the step that all of them are at, if it was named."""

    model: type[Task]
    step: BoundStep[Any] | None
    ids: Sequence[str]

    @classmethod
    def named(cls, model: type[Task], words: Sequence[str]) -> Targets:
        """Return the targets that `[STEP] TASK...` names; the first word is a step if the use case has it."""
        first, *more = words
        known = {step.name for step in steps_of(model)}
        if first in known:
            if not more:
                raise typer.BadParameter(f"{first} is a step: name tasks, too", param_hint="TASK")
            return cls(model, step_named(model, first), more)
        targets = cls(model, None, words)
        if more and did_you_mean(first, known) and first != "-" and targets.task(first) is None:
            raise CannotRunError(f"{model.__name__} has no step and no task {first!r}{did_you_mean(first, known)}")
        return targets

    def task(self, task_id: str) -> Task | None:
        """Return the row of a task, without its data."""
        return rows(self.model, [task_id]).get(task_id)

    def step_of(self, task: Task | None, task_id: str) -> BoundStep[Any]:
        """Return the step that was named, or the one that the task is at."""
        if self.step is not None:
            return self.step
        if task is None:
            raise TaskNotFoundError(f"there is no {self.model.__name__} {task_id!r}", task_id=task_id)
        if task.state.status is None:
            raise ValueError(f"{self.model.__name__} {task_id!r} is {name_of(task.state)}: no step declares its state")
        return step_named(self.model, task.state.step)
