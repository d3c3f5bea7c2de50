"""`run` and `retry`: call a function for the tasks of a step, with progress, a stop by Ctrl-C, and a report."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Annotated, Any

import typer
from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.batch.batch import Report, TaskAttempt, was_taken
from pynamodb_tracker.batch.candidates import Feed
from pynamodb_tracker.batch.thread_pool import in_threads
from pynamodb_tracker.cli import command, terminal
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.interrupts import StoppedError, StopRequest, last_output, run_stoppable, safe_stderr
from pynamodb_tracker.cli.tasks import ErrorGroups
from pynamodb_tracker.cli.terminal import count, say, warn
from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_temporary
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.failure import message_of
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

DryRun = Annotated[bool, opt.flag("--dry-run", "Print the ids of the tasks that would be run, and run nothing.")]
Function = Annotated[
    str, typer.Argument(metavar="MODULE:FUNCTION", help="The function to call for each task, with its context.")
]
Limit = Annotated[int | None, typer.Option(parser=opt.number, metavar="N", help="Run at most this many tasks.")]


def run(
    step: opt.Step,
    function: Function,
    *,
    name: opt.App,
    use_case_name: opt.UseCase = None,
    since: opt.Since = None,
    until: opt.Until = None,
    error_like: opt.ErrorLike = None,
    limit: Limit = None,
    rate: opt.Rate = None,
    threads: opt.Threads = 4,
    heartbeat: opt.Heartbeat = False,
    dry_run: DryRun = False,
    as_json: opt.Json = False,
) -> None:
    """Call a function for every task that is due in a step: pending, failed and abandoned tasks.

    Each task is run once. Ctrl-C starts no more tasks and waits for running ones; a second Ctrl-C does not wait.

    Exits with 1 if a task failed, was ignored or was refused.
    """
    with command.use_case(name, use_case_name) as model:
        command.check_window(since, until)
        selection = Selection(command.step_named(model, step), (), since, until, limit, error_like)
        batch = WatchedBatch(selection, command.load_function(function), StopRequest(), threads, rate, heartbeat)
        _print_due(selection, as_json=as_json) if dry_run else _run("run", batch, as_json=as_json)


def retry(
    step: opt.Step,
    function: Function,
    *,
    name: opt.App,
    use_case_name: opt.UseCase = None,
    since: opt.Since = None,
    until: opt.Until = None,
    error_like: opt.ErrorLike = None,
    reopen_ignored: Annotated[
        bool, opt.flag("--reopen-ignored", "Also run ignored tasks, with all their attempts again.")
    ] = False,
    limit: Limit = None,
    rate: opt.Rate = None,
    threads: opt.Threads = 4,
    heartbeat: opt.Heartbeat = False,
    dry_run: DryRun = False,
    as_json: opt.Json = False,
) -> None:
    """Call a function for the failed tasks of a step that are due.

    Each task is run once. Ctrl-C starts no more tasks and waits for running ones; a second Ctrl-C does not wait.

    Exits with 1 if a task failed again, was ignored or was refused.
    """
    with command.use_case(name, use_case_name) as model:
        command.check_window(since, until)
        of = command.step_named(model, step)
        selection = Selection(of, (of.failed,), since, until, limit, error_like, reopen_ignored)
        batch = WatchedBatch(selection, command.load_function(function), StopRequest(), threads, rate, heartbeat)
        _print_due(selection, as_json=as_json) if dry_run else _run("retry", batch, as_json=as_json)


def _print_due(selection: Selection, *, as_json: bool) -> None:
    due = selection.due()
    if as_json:
        terminal.say_json({"due": due})
        return
    for task_id in due:
        say(terminal.escaped(task_id))
    warn(f"dry run: {count(len(due))} would be run" if due else selection.why_empty())


def _run(verb: str, batch: WatchedBatch, *, as_json: bool) -> None:
    """Run a batch, print what became of it, and exit."""
    selection, ended = batch.selection, None
    expected = None if selection.error_like else selection.count()
    with safe_stderr(batch.stop.event.set), terminal.progress(f"{verb} {selection.step.name}", expected) as shown:
        batch.progress = shown
        try:
            run_stoppable(batch)
            shown.end()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - raised again after the report
            ended = error
    with last_output():
        if as_json:
            batch.print_json(stopped=ended is not None)
        else:
            batch.print_report(stopped=ended is not None)
    if isinstance(ended, StoppedError):
        raise typer.Exit(ended.exit_code)
    if ended is not None:
        raise ended
    if batch.done > batch.number("succeeded") + batch.taken:
        raise typer.Exit(command.FOUND)


_SHOWN_REFUSALS = 5
"""Refused tasks that the report names."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a step that a batch is about; with `ignored`, ignored ones are reopened and run, too."""

    step: BoundStep[Any]
    only: tuple[State[Any], ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    error_like: str | None = None
    ignored: bool = False

    def due(self) -> list[str]:
        """Return the ids of the tasks that would be run now."""
        due = list(self.step.due_ids(**self._options(), limit=self.limit))
        if self.ignored:
            due += islice(self.ignored_ids(clock.now()), self.remaining(len(due)))
        return due

    def count(self) -> int:
        """Return how many tasks there are at most: those that are not due yet are counted, too."""
        states = [*(self.only or (self.step.pending, self.step.failed)), *([self.step.ignored] if self.ignored else [])]
        number = self._count(states)
        return number if self.limit is None else min(number, self.limit)

    def _count(self, states: Iterable[State[Any]]) -> int:
        return sum(state.count(since=self.since, until=self.until) for state in states)

    def feed(self, threads: int) -> Feed:
        """Return the ids of all tasks but the ignored ones, the oldest first."""
        return self.step._definition.feed(**self._options(), threads=threads)

    def remaining(self, done: int) -> int | None:
        """Return how many more tasks the limit allows."""
        return None if self.limit is None else max(self.limit - done, 0)

    def ignored_ids(self, before: datetime) -> Iterator[str]:
        """Yield tasks that were ignored before then, so that what this batch itself ignores is not run again."""
        if self.since is not None and self.since >= before:
            return iter(())
        until = before if self.until is None else min(self.until, before)
        return (
            task.task_id
            for task in self._matching(self.step.ignored.query(since=self.since, until=until, with_data=False))
        )

    def why_empty(self) -> str:
        """Return why there was nothing to run: tasks that are not due yet, if any."""
        states = self.only or (self.step.pending, self.step.failed)
        limit = None if self.error_like else 1
        due: list[datetime] = [
            task.due_time
            for state in states
            for task in self._matching(state.query(since=self.since, until=self.until, limit=limit, with_data=False))
        ]
        waiting = len(due) if self.error_like else self._count(states)
        reason = f"nothing to run at {self.step.name}"
        if not waiting:
            return f"{reason}: no matching task is due"
        when = f" (the first one {terminal.between(min(due))})" if due else ""
        such = f" with {self.error_like!r} in the error" if self.error_like else ""
        return f"{reason}: {count(waiting)}{such} not due yet{when}; reopen makes failed tasks due at once"

    def _matching(self, tasks: Iterable[Task]) -> Iterator[Task]:
        like = (self.error_like or "").casefold()
        return (task for task in tasks if like in (task.last_error or "").casefold())

    def _options(self) -> dict[str, Any]:
        return {"only": self.only, "since": self.since, "until": self.until, "error_like": self.error_like}


@dataclass(slots=True)
class WatchedBatch:
    """A batch in progress: the outcomes of its tasks, why they failed, and which are running."""

    selection: Selection
    function: Callable[[Any], object]
    stop: StopRequest
    threads: int = 4
    rate: float | None = None
    heartbeat: bool = False
    progress: terminal.Progress = field(default_factory=terminal.Progress)
    report: Report = field(default_factory=Report)
    groups: ErrorGroups = field(default_factory=ErrorGroups)
    running: set[str] = field(default_factory=set)
    taken: int = 0
    """Tasks that other workers had first, which is nobody's failure."""
    released: int = 0
    """Tasks that were claimed, and released because of the stop."""
    _began: float = field(default_factory=time.monotonic)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Run all of it; what the function prints goes to stderr, because stdout is for the report."""
        step, began = self.selection.step, clock.now()
        with redirect_stdout(sys.stderr):
            feed = self.selection.feed(self.threads)
            self._run(feed, partial(step.start, heartbeat=self.heartbeat), feed.note_taken)
            if self.selection.ignored and not self.stop:
                # Each is claimed from ignored, not reopened first: one that this batch does not reach stays ignored.
                start = partial(step.start, also_from=(step.ignored,), heartbeat=self.heartbeat)
                self._run(self.selection.ignored_ids(began), start, bool)

    def _run(self, ids: Iterable[str], start: Callable[[str], Any], note_taken: Callable[[], object]) -> None:
        def run_one(task_id: str) -> None:
            if self.stop:  # a task that is claimed and released would be pending, whatever it was before
                raise KeyboardInterrupt
            attempt: TaskAttempt[Any] = TaskAttempt(
                self.selection.step._definition.codes, task_id, stopped=self.stop.event
            )
            attempt.execute(start, self._call)
            if attempt.unexpected_error is not None:
                raise attempt.unexpected_error
            if attempt.was_taken:
                note_taken()
            self._note(attempt)

        in_threads(
            run_one,
            islice(ids, self.selection.remaining(self.done)),
            self.threads,
            rate=self.rate,
            stopped=self.stop.event,
        )

    def _note(self, attempt: TaskAttempt[Any]) -> None:
        with self._guard:
            attempt.add_to(self.report)
            self.released += attempt.outcome == "released"
            self.taken += attempt.was_taken
            self.progress.show(self.done, self.numbers())
        if self.stop:
            raise KeyboardInterrupt
        if isinstance(attempt.error, Exception) and attempt.outcome == "refused" and _concerns_all(attempt.error):
            raise attempt.error

    def _call(self, ctx: ExecutionContext[Any]) -> None:
        """Call the function; one that calls sys.exit, as scripts do, fails its task, not the batch."""
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
        """Return how many tasks have that outcome: succeeded, failed, ignored or refused."""
        return len(getattr(self.report, outcome))

    @property
    def refused(self) -> dict[str, Exception]:
        """Why tasks were not run, or their outcome not recorded; without those that others had first."""
        return {task_id: error for task_id, error in self.report.refused.items() if not was_taken(error)}

    @property
    def done(self) -> int:
        """How many tasks have an outcome."""
        return sum(self._counted().values()) + self.number("refused")

    def _counted(self) -> dict[str, int]:
        return {outcome: self.number(outcome) for outcome in ("succeeded", "failed", "ignored")}

    # What it prints.

    def numbers(self) -> str:
        """Return how many tasks have each outcome, without zeros."""
        counted = self._counted() | {"taken by others": self.taken, "refused": self.number("refused") - self.taken}
        return ", ".join(f"{number:,} {outcome}" for outcome, number in counted.items() if number) or "nothing yet"

    def report_waiting(self) -> None:
        """Print what is waited for after the first Ctrl-C."""
        running = len(self.running)
        what = f": waiting for {count(running)} to finish; Ctrl-C again leaves them locked" if running else ""
        warn(f"stopping{what}")

    def report_left(self) -> None:
        """Print which tasks the second Ctrl-C leaves locked."""
        left = ", ".join(sorted(self.running)) or "none"
        warn(f"stopped at once: these tasks stay in progress until their locks expire, and are then taken over: {left}")
        self.progress.leave()

    def print_json(self, *, stopped: bool) -> None:
        """Print the report as JSON."""
        refused = {
            task_id: f"{type(error).__name__}: {command.one_line(error)}" for task_id, error in self.refused.items()
        }
        others = {"taken": self.taken, "refused": refused, "released": self.released}
        terminal.say_json({**self._counted(), **others, "seconds": round(self._seconds(), 1), "stopped": stopped})

    def print_report(self, *, stopped: bool) -> None:
        """Print the outcomes, why some tasks failed, and what was refused."""
        if not self.done and not stopped:
            say(self.selection.why_empty())
            return
        took = self._seconds()
        speed = f", {self.done / took:,.0f}/s" if self.done > took > 1 else ""
        lead = "stopped; " if stopped else ""
        say(f"{lead}{self.selection.step.name}: {self.numbers()} in {terminal.age(timedelta(seconds=took))}{speed}")
        groups = ([f"{group.tasks:,}", group.example, group.error] for group in self.groups.sorted())
        terminal.print_table(("tasks", "example", "error"), groups)
        kinds = Counter(type(error).__name__ for error in self.refused.values())
        for kind, number in kinds.most_common():
            say(f"{number:,} refused: {kind}")
        for task_id, error in list(self.refused.items())[:_SHOWN_REFUSALS]:
            say(terminal.escaped(f"  {task_id}: {command.one_line(error)}"))
        if self.released:
            are, them = ("it is", "it") if self.released == 1 else ("they are", "them")
            say(f"{count(self.released)} released; {are} pending now: run takes {them}")

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def _concerns_all(error: Exception) -> bool:
    """Return whether what refused one task will refuse all: expired credentials, a deleted table."""
    is_ours = isinstance(error, PynamoDBException) and not is_temporary(error)
    return is_ours and not (isinstance(error, PynamoDBConnectionError) and is_invalid(error))
