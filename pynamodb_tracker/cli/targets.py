"""The tasks that a command changes, and how it changes each."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, repeat
from typing import Any, Self

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli.command import FOUND, CannotRunError, ids_in, is_step, state_named, step_named
from pynamodb_tracker.cli.terminal import say, say_id, warn
from pynamodb_tracker.exceptions import TaskNotFoundError, TrackerError
from pynamodb_tracker.model.arguments import check_task_id, did_you_mean
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation.errors import for_people
from pynamodb_tracker.presentation.listing import Filter, find
from pynamodb_tracker.presentation.task_facts import name_of, steps_of
from pynamodb_tracker.presentation.text import count, escaped
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.bulk import in_threads_together, with_rows

THREADS = 25  # tasks that are changed at the same time, as many as a request has room for
_READ_AT_ONCE = 250


@dataclass(frozen=True, slots=True)
class Targets:
    """Task ids, where `-` stands for stdin, and the step that they must be at, if one was named."""

    model: type[Task]
    step: BoundStep[Any] | None
    ids: Sequence[str]

    @classmethod
    def named(cls, model: type[Task], words: Sequence[str]) -> Self:
        """Parse `[STEP] TASK...`. The first word is a step if the use case has it."""
        first, *more = words
        if is_step(model, first):
            if not more:
                raise typer.BadParameter(f"{first} is a step: name tasks, too", param_hint="TASK")
            return cls(model, step_named(model, first), more)
        targets, known = cls(model, None, words), {step.name for step in steps_of(model)}
        if more and (hint := did_you_mean(first, known)) and first != "-" and targets.task(first) is None:
            raise CannotRunError(f"{model.__name__} does not have a step or a task {first!r}{hint}")
        return targets

    def task(self, task_id: str) -> Task | None:
        return rows(self.model, [task_id]).get(task_id)

    def step_of(self, task: Task | None, task_id: str) -> BoundStep[Any]:
        if self.step is not None:
            return self.step
        if task is None:
            raise TaskNotFoundError(f"{self.model.__name__} {task_id!r} does not exist", task_id=task_id)
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
        """Return the step and its matching tasks in the named state, or in all `statuses`, but no later ones."""
        name, *more = words
        if more:
            raise typer.BadParameter("name a step or a state only: options select the tasks", param_hint="TASK")
        if name.rpartition(".")[2] not in list(Status):
            states = [getattr(step_named(model, name), status) for status in statuses]
        else:
            states = [state_named(model, name)]
            if states[0].status not in statuses:
                raise typer.BadParameter(f"nothing changes for tasks that are {name}", param_hint="TASK")
        return step_named(model, states[0].step), islice(self._find_ids(states), self.limit)

    def _find_ids(self, states: Sequence[State[Any]]) -> Iterator[str]:
        until = min(filter(None, (self.until, clock.now())))
        for state in states:
            what, cursor = Filter(state, self.since, until, self.error_contains or ""), None
            while True:
                found = find(what, cursor, limit=_READ_AT_ONCE)
                yield from (entry.task_id for entry in found.entries)
                if (cursor := found.cursor) is None:
                    break


NOTHING_ASKED = Asked()


class Unchanged(str):
    """The result for a task that did not change, which does not count as changed."""

    __slots__ = ()


def change_targets(
    model: type[Task],
    words: Sequence[str],
    change: Callable[..., str | None],
    note: Callable[[int], object],
    asked: Asked = NOTHING_ASKED,
    *,
    statuses: Sequence[Status] = (),
    given: Iterable[tuple[Any, ...]] = repeat(()),
    members: Iterable[tuple[Any, ...]] = (),
) -> None:
    """Change each task at the named step, or else at its own step. Without a step, a missing task is refused.

    If `asked` selects tasks, those are changed or, with `dry_run`, listed. `change` takes the step, the row, the task
    id, and the next values of `given`. Then it changes the `members` of groups, which are known only after the other
    tasks.
    """
    threads = THREADS
    if asked != NOTHING_ASKED:
        step, ids = asked.found_in(model, words, statuses)
        if asked.dry_run:
            warn(f"dry run: {count(sum(1 for _ in map(say_id, ids)))} would be changed")
            return
        targets, tasks = Targets(model, step, ()), with_rows(model, ids)
    else:
        targets = Targets.named(model, words)
        tasks = with_rows(model, iter(targets.ids))
        if "-" in targets.ids:  # a person who types them may take a while
            tasks = ((task_id, None) for task_id in ids_in(targets.ids))
        else:
            threads = min(len(targets.ids), THREADS)

    def change_one(task_id: str, found: Task | None, *more: object) -> str | None:
        is_read = found is not None or asked != NOTHING_ASKED
        task = found if is_read else targets.task(check_task_id(task_id))
        return change(targets.step_of(task, task_id), task, task_id, *more)

    with_given = ((*task, *more) for task, more in zip(tasks, given, strict=False))
    change_each(with_given, change_one, threads, note, members)


def change_each(
    tasks: Iterable[tuple[Any, ...]],
    change: Callable[..., str | None],
    threads: int,
    note: Callable[[int], object],
    members: Iterable[tuple[Any, ...]] = (),
) -> None:
    """Change each task, and print the results in order. A refused task does not stop the others.

    `change` takes a task's values, which begin with its id, and returns None if there is nothing to print. Then it
    takes the values of `members`, which begin with id and row. Members of one group are changed one after another.
    `note` takes the number of changed tasks.
    """
    waiting: dict[int, str | Exception | None] = {}
    changed, refused, following, guard = 0, list[Exception](), 0, threading.Lock()

    def print_result(number: int) -> None:
        result = waiting.pop(number)
        if isinstance(result, str):
            say(result)
        elif result is not None:
            warn(for_people(result))
            refused.append(result)

    def change_one(numbered: tuple[tuple[Any, ...], int]) -> None:
        nonlocal changed, following
        task, number = numbered
        try:
            said = change(*task)
            is_changed = said is not None and not isinstance(said, Unchanged)
            result: str | Exception | None = said and f"{escaped(task[0])}: {said}"
        except (TrackerError, ValueError) as error:
            result, is_changed = error, False
        with guard:
            waiting[number] = result
            changed += is_changed
            while following in waiting:
                following += 1
                print_result(following - 1)

    try:
        numbers = iter(range(sys.maxsize))
        in_threads_together(change_one, zip(tasks, numbers, strict=False), threads)
        in_threads_together(change_one, zip(members, numbers, strict=False), threads, lambda each: each[0][1].group)
    finally:
        for number in sorted(waiting):  # after a task that was not changed because of an interrupt
            print_result(number)
        note(changed)
    if not following:
        warn("nothing to change: no tasks found")
    if refused:
        raise typer.Exit(FOUND)
