"""The tasks that `run` and `retry` work on: all that are due in a step, or those named by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, ClassVar

from pynamodb_tracker import clock
from pynamodb_tracker.presentation.text import between, count
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.candidates import Candidates
from pynamodb_tracker.work.source import GivenIds, OnceThrough, StepSource
from pynamodb_tracker.work.step_work import StepWork

Function = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class NamedTasks:
    """Tasks that a person named by id. Each is started once."""

    is_named: ClassVar = True
    """If so, it is an error if another worker has one of the tasks."""
    has_total: ClassVar = True
    """Whether `count` returns the number of tasks."""

    step: BoundStep[Any]
    ids: Sequence[str]

    def count(self) -> int:
        """Return how many tasks were named."""
        return len(self.ids)

    def remaining(self, _done: int) -> int | None:
        """Return None: there is no limit."""
        return None

    def passes(self, function: Function, _threads: int, *, heartbeat: bool) -> Iterator[StepSource]:
        """Yield the source of the tasks."""
        start = partial(self.step.start, heartbeat=heartbeat, ignore_concurrency_limit=True)
        yield GivenIds(StepWork(self.step._definition, start, function, is_named=True), self.ids)

    def why_empty(self) -> str:
        """Return the message for an empty stdin."""
        return f"nothing to run at {self.step.name}: stdin names no task"

    def skipped(self, _began: datetime, _expected: int | None, _done: int) -> str:
        """Return no text: every task was tried."""
        return ""


@dataclass(frozen=True, slots=True)
class Selection:
    """The matching tasks of a step. With `ignored`, ignored tasks are reopened and run, too."""

    is_named: ClassVar = False

    step: BoundStep[Any]
    only: tuple[State[Any], ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    error_contains: str | None = None
    ignored: bool = False

    @property
    def has_total(self) -> bool:
        """Whether `count` returns the number of tasks."""
        return not self.error_contains

    def due(self) -> list[str]:
        """Return the ids of the tasks that would be run now."""
        due = list(self.step.due_ids(**self._options(), limit=self.limit))
        if self.ignored:
            due += islice(self._ignored_ids(clock.now()), self.remaining(len(due)))
        return due

    def count(self) -> int:
        """Return how many tasks there are at most. This includes tasks that are not due yet."""
        number = self._count([*self._waiting, *([self.step.ignored] if self.ignored else [])], self.limit)
        return number if self.limit is None else min(number, self.limit)

    def _count(self, states: Iterable[State[Any]], most: int | None = None) -> int:
        return sum(state.count(since=self.since, until=self.until, up_to=most) for state in states)

    def passes(self, function: Function, threads: int, *, heartbeat: bool) -> Iterator[StepSource]:
        """Yield the source of the due tasks, and one of the ignored tasks."""
        of, began, start = self.step._definition, clock.now(), partial(self.step.start, heartbeat=heartbeat)
        yield OnceThrough(StepWork(of, start, function), self.candidates(threads))
        if self.ignored:
            # A task is claimed from ignored, not reopened first. If this batch does not reach it, it stays ignored.
            again = partial(start, also_from=(self.step.ignored,))
            yield GivenIds(StepWork(of, again, function), self._ignored_ids(began))

    def candidates(self, threads: int) -> Candidates:
        """Return the ids of all tasks but the ignored ones, in the order of `run_all`."""
        return self.step._definition.candidates(**self._options(), limit=self.limit, threads=threads)

    def remaining(self, done: int) -> int | None:
        """Return how many more tasks the limit allows."""
        return None if self.limit is None else max(self.limit - done, 0)

    def _ignored_ids(self, before: datetime) -> Iterator[str]:
        """Yield the tasks ignored before this time: a task that this batch ignores is not run again."""
        if self.since is not None and self.since >= before:
            return iter(())
        found = self.step.ignored.query(since=self.since, until=min(self.until or before, before), with_data=False)
        return (task.task_id for task in self._matching(found))

    def why_empty(self) -> str:
        """Return why there was nothing to run, for example because no task is due yet."""
        number = None if self.error_contains else self._count(self._waiting)
        return f"nothing to run at {self.step.name}: {self._not_due(number, self.until) or 'no matching task is due'}"

    def skipped(self, began: datetime, expected: int | None, done: int) -> str:
        """Return how many failed tasks were not due, as text. It is empty if there are none, or if that is unknown.

        `expected` is the result of `count` before the batch began, and `done` is how many tasks have run since.
        """
        if not self.only or self.limit is not None or (self.since is not None and self.since >= began):
            return ""
        return self._not_due(None if expected is None else expected - done, min(self.until or began, began))

    def _not_due(self, number: int | None, until: datetime | None) -> str:
        """Return how many tasks are not due yet, and when the first one will be. It counts them if `number` is None."""
        if number is not None and number <= 0:
            return ""
        window: dict[str, Any] = {"since": self.since, "until": until, "limit": None if self.error_contains else 1}
        found = (state.query(**window, with_data=False) for state in self._waiting)
        due: list[datetime] = [task.due_time for tasks in found for task in self._matching(tasks)]
        number = len(due) if number is None else number
        when = f" (the first one {between(min(due))})" if due else ""
        such = f" with {self.error_contains!r} in the error" if self.error_contains else ""
        return f"{count(number)}{such} not due yet{when}; reopen makes failed tasks due at once" if number else ""

    @property
    def _waiting(self) -> tuple[State[Any], ...]:
        return self.only or (self.step.pending, self.step.failed)

    def _matching(self, tasks: Iterable[Task]) -> Iterator[Task]:
        like = (self.error_contains or "").casefold()
        return (task for task in tasks if like in (task.last_error or "").casefold())

    def _options(self) -> dict[str, Any]:
        return {"only": self.only, "since": self.since, "until": self.until, "error_contains": self.error_contains}
