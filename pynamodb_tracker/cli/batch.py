"""A batch as the commands run it: one function on the tasks of a step, watched, and stopped in order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from pynamodb_tracker import batch, clock
from pynamodb_tracker.bound_step import BoundStep
from pynamodb_tracker.cli.grouping import Groups
from pynamodb_tracker.cli.stop import Stop
from pynamodb_tracker.context import ExecutionContext
from pynamodb_tracker.failure import message_of
from pynamodb_tracker.pace import Pace
from pynamodb_tracker.report import Report
from pynamodb_tracker.state import State

__all__ = ["Batch", "Selection"]


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

    def due(self) -> Report:
        """Return the tasks that there are to run, without running one."""
        report = self.step.run_all(print, **self._options(), limit=self.limit, dry_run=True)
        if self.ignored:
            report.due += islice(self.ids_of_ignored(clock.now()), self.left(len(report.due)))
        return report

    def count(self) -> int:
        """Return how many tasks there are at most; those that are not due yet are counted, too."""
        states = [*(self.only or (self.step.pending, self.step.failed)), *([self.step.ignored] if self.ignored else [])]
        number = sum(state.count(since=self.since, until=self.until) for state in states)
        return number if self.limit is None else min(number, self.limit)

    def run(self, function: Callable[[Any], object], progress: Callable[[Report], object], **settings: Any) -> Report:
        """Run the function on all but the ignored ones."""
        return self.step.run_all(function, **self._options(), limit=self.limit, progress=progress, **settings)

    def left(self, done: int) -> int | None:
        """Return how many more the limit allows."""
        return None if self.limit is None else max(self.limit - done, 0)

    def ids_of_ignored(self, before: datetime) -> Iterator[str]:
        """Yield what was ignored before, read as it is needed: what this batch itself ignores is not run again."""
        if self.since is not None and self.since >= before:
            return iter(())
        like, until = (self.error_like or "").casefold(), before if self.until is None else min(self.until, before)
        found = self.step.ignored.query(since=self.since, until=until, with_data=False)
        return (task.task_id for task in found if like in (task.last_error or "").casefold())

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
    reports: list[Report] = field(default_factory=list)
    groups: Groups = field(default_factory=Groups)
    running: set[str] = field(default_factory=set)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def run(self, stop: Stop) -> None:
        """Run all of it; what the function prints goes to stderr, for stdout is the command's own."""
        noted, began = partial(self._noted, stop), clock.now()
        with redirect_stdout(sys.stderr):
            function = partial(self._watched, stop)
            self.selection.run(function, noted, threads=self.threads, rate=self.rate, heartbeat=self.heartbeat)
            if self.selection.ignored and not stop:
                self._run_ignored(function, noted, began)

    def _run_ignored(self, function: Callable[[Any], None], noted: Callable[[Report], None], before: datetime) -> None:
        """Claim ignored ones from where they are: one that this batch does not reach stays ignored."""
        step = self.selection.step
        start: Callable[[str], Any] = partial(step.start, also_from=(step.ignored,), heartbeat=self.heartbeat)
        ids = islice(self.selection.ids_of_ignored(before), self.selection.left(self.done))
        batch.Batch(step.codes, start, function, Pace(self.rate), progress=noted).run(ids, self.threads)

    def _watched(self, stop: Stop, ctx: ExecutionContext[Any]) -> None:
        """Run one task; one that has begun after the order to stop is given back, and its attempt does not count."""
        if stop:
            raise KeyboardInterrupt
        task_id = ctx.task.task_id
        self.running.add(task_id)
        try:
            self._call(ctx)
        except Exception as error:
            told = " ".join(f"{type(error).__name__}: {message_of(error)}".split()).removesuffix(":")
            with self._guard:
                self.groups.add("", task_id, told, clock.now())
            raise
        finally:
            self.running.discard(task_id)

    def _call(self, ctx: ExecutionContext[Any]) -> None:
        """Call the function; where that would end the program, as a script does with its errors, the task fails."""
        try:
            self.function(ctx)
        except SystemExit as error:
            raise RuntimeError(f"the function called sys.exit({error})") from error

    def _noted(self, stop: Stop, report: Report) -> None:
        if not any(each is report for each in self.reports):
            self.reports.append(report)
        self.show(self)
        if stop:
            raise KeyboardInterrupt

    def number(self, outcome: str) -> int:
        """Return how many tasks ended like that: succeeded, failed, ignored or refused."""
        return sum(len(getattr(report, outcome)) for report in self.reports)

    @property
    def done(self) -> int:
        """How many tasks there were so far."""
        return sum(map(self.number, ("succeeded", "failed", "ignored", "refused")))
