"""A batch as the commands run it: one function on the tasks of a step, watched, and stopped in order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.batch.batch import TaskAttempt, was_taken
from pynamodb_tracker.batch.candidates import Feed
from pynamodb_tracker.batch.thread_pool import in_threads
from pynamodb_tracker.cli.error_groups import Groups
from pynamodb_tracker.cli.terminal.interrupts import Stop
from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_passing
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.failure import message_of
from pynamodb_tracker.report import Report
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.step.tolerant import leniently
from pynamodb_tracker.task.task import Task

__all__ = ["Batch", "Selection"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Tasks that cannot be run yet."""

    tasks: int
    first: datetime | None
    """When the first of them is due."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tasks of a step a batch is about."""

    step: BoundStep[Any]
    only: tuple[State[Any], ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    error_like: str | None = None
    ignored: bool = False
    """Whether ignored ones are reopened and run, too."""

    def due(self) -> list[str]:
        """Return the tasks that there are to run, without running one."""
        due = list(self.step.due_ids(**self._options(), limit=self.limit))
        if self.ignored:
            due += islice(self.ids_of_ignored(clock.now()), self.left(len(due)))
        return due

    def count(self) -> int:
        """Return how many tasks there are at most; those that are not due yet are counted, too."""
        states = [*(self.only or (self.step.pending, self.step.failed)), *([self.step.ignored] if self.ignored else [])]
        number = sum(state.count(since=self.since, until=self.until) for state in states)
        return number if self.limit is None else min(number, self.limit)

    def feed(self, threads: int) -> Feed:
        """Return the ids of all but the ignored ones, the oldest first, for so many threads."""
        return self.step.feed(**self._options(), threads=threads)

    def waiting(self) -> Waiting:
        """Return what there would be to run later, but for the ignored ones and those that somebody works on."""
        states = self.only or (self.step.pending, self.step.failed)
        limit = None if self.error_like else 1
        found = {
            state: self._like(leniently(state, since=self.since, until=self.until, limit=limit)) for state in states
        }
        due: dict[State[Any], list[datetime | None]] = {
            state: [task.due_time for task in tasks] for state, tasks in found.items()
        }
        first = min((time for times in due.values() for time in times if time is not None), default=None)
        if self.error_like:
            return Waiting(sum(map(len, due.values())), first)
        return Waiting(sum(state.count(since=self.since, until=self.until) for state in states), first)

    def left(self, done: int) -> int | None:
        """Return how many more the limit allows."""
        return None if self.limit is None else max(self.limit - done, 0)

    def ids_of_ignored(self, before: datetime) -> Iterator[str]:
        """Yield what was ignored before, read as it is needed: what this batch itself ignores is not run again."""
        if self.since is not None and self.since >= before:
            return iter(())
        until = before if self.until is None else min(self.until, before)
        return (task.task_id for task in self._like(leniently(self.step.ignored, since=self.since, until=until)))

    def _like(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Yield the tasks with the text in their error."""
        like = (self.error_like or "").casefold()
        return (task for task in tasks if like in (task.last_error or "").casefold())

    def _options(self) -> dict[str, Any]:
        return {"only": self.only, "since": self.since, "until": self.until, "error_like": self.error_like}


@dataclass(slots=True)
class Batch:
    """A batch under way: what became of its tasks, why they failed, and what is running."""

    selection: Selection
    function: Callable[[Any], object]
    threads: int
    rate: float | None
    heartbeat: bool
    show: Callable[[Batch], object]
    report: Report = field(default_factory=Report)
    groups: Groups = field(default_factory=Groups)
    running: set[str] = field(default_factory=set)
    taken: int = 0
    """Tasks that other workers had first: that is no failure of either."""
    given_back: int = 0
    """Tasks that were claimed and not run."""
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def run(self, stop: Stop) -> None:
        """Run all of it; what the function prints goes to stderr, for stdout is the command's own."""
        step, began = self.selection.step, clock.now()
        with redirect_stdout(sys.stderr):
            feed = self.selection.feed(self.threads)
            self._run(stop, partial(step.start, heartbeat=self.heartbeat), feed, feed)
            if self.selection.ignored and not stop:
                # From where they are: one that this batch does not reach stays ignored.
                start = partial(step.start, also_from=(step.ignored,), heartbeat=self.heartbeat)
                self._run(stop, start, self.selection.ids_of_ignored(began))

    def _run(self, stop: Stop, start: Callable[[str], Any], ids: Iterable[str], feed: Feed | None = None) -> None:
        """Run tasks, as many as the limit still allows; `feed` is told of tasks that other workers had first."""

        def run(task_id: str) -> None:
            if stop:  # a task that was claimed and given back would be pending, and not where it was
                raise KeyboardInterrupt
            attempt: TaskAttempt[Any] = TaskAttempt(self.selection.step.codes, task_id, stopped=stop.event)
            attempt.execute(start, self._call)
            if (error := attempt.unexpected_error) is not None:
                raise error
            if attempt.was_taken and feed is not None:
                feed.note_taken()
            with self._guard:
                self._note(attempt)
            if stop:
                raise KeyboardInterrupt
            if isinstance(attempt.error, Exception) and attempt.outcome == "refused" and _is_of_all(attempt.error):
                raise attempt.error

        in_threads(run, islice(ids, self.selection.left(self.done)), self.threads, rate=self.rate)

    def _note(self, attempt: TaskAttempt[Any]) -> None:
        attempt.add_to(self.report)
        self.given_back += attempt.outcome == "released"
        self.taken += attempt.was_taken
        self.show(self)

    def _call(self, ctx: ExecutionContext[Any]) -> None:
        """Call the function; where that would end the program, as a script does with its errors, the task fails."""
        task_id = ctx.task.task_id
        self.running.add(task_id)
        try:
            try:
                self.function(ctx)
            except SystemExit as error:
                raise RuntimeError(f"the function called sys.exit({error})") from error
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {message_of(error)}".split()).removesuffix(":")
            with self._guard:
                self.groups.add("", task_id, message, clock.now())
            raise
        finally:
            self.running.discard(task_id)

    def number(self, outcome: str) -> int:
        """Return how many tasks ended like that: succeeded, failed or ignored."""
        return len(getattr(self.report, outcome))

    @property
    def refused(self) -> dict[str, Exception]:
        """Why tasks could not be run, or not be recorded; without those that others had first."""
        return {task_id: error for task_id, error in self.report.refused.items() if not was_taken(error)}

    @property
    def done(self) -> int:
        """How many tasks there were so far."""
        return sum(map(self.number, ("succeeded", "failed", "ignored", "refused")))


def _is_of_all(error: Exception) -> bool:
    """Tell whether what refused one task will refuse each: credentials that have ended, a table that is gone."""
    is_ours = isinstance(error, PynamoDBException) and not is_passing(error)
    return is_ours and not (isinstance(error, PynamoDBConnectionError) and is_invalid(error))
