"""`run` and `retry`: call a function for a step's tasks."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Annotated, Any

import typer
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.cli import command, terminal
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import UseCases
from pynamodb_tracker.cli.interrupts import StoppedError, StopRequest, last_output, run_stoppable, safe_stderr
from pynamodb_tracker.cli.terminal import say, warn
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.execution.call import call
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.failure import message_of
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation.commands import note
from pynamodb_tracker.presentation.errors import ErrorGroups, for_people, one_line
from pynamodb_tracker.presentation.text import age, between, count, escaped
from pynamodb_tracker.presentation.waiting import find_pause
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.attempt import Attempt, lost_to_other
from pynamodb_tracker.work.batch import add_to, concerns_all
from pynamodb_tracker.work.bulk import with_rows
from pynamodb_tracker.work.candidates import Candidates
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.executor import ThreadExecutor
from pynamodb_tracker.work.outcomes import Report
from pynamodb_tracker.work.source import GivenIds, OnceThrough, StepSource, StepWork

DryRun = Annotated[bool, opt.flag("--dry-run", "Print the task ids that would be run.")]
_IF_BOUND = "The function to call with each task's context, if none is bound to the step."
Function = Annotated[str | None, opt.argument("MODULE:FUNCTION", _IF_BOUND)]
FunctionAndTasks = Annotated[
    list[str] | None,
    opt.argument(
        "[MODULE:FUNCTION] [TASK]",
        f"{_IF_BOUND} Then the tasks to run, by default all due ones. Use - to read ids from stdin.",
    ),
]
Limit = Annotated[int | None, opt.value("N", "Run at most this many tasks.", opt.number)]


@opt.for_use_cases
def run(
    among: UseCases,
    step: opt.Step,
    words: FunctionAndTasks = None,
    *,
    since: opt.Since = None,
    until: opt.Until = None,
    error_contains: opt.ErrorContains = None,
    limit: Limit = None,
    rate: opt.Rate = None,
    threads: opt.Threads = 4,
    heartbeat: opt.Heartbeat = False,
    dry_run: DryRun = False,
    as_json: opt.Json = False,
) -> bool:
    """Run the tasks of a step that you name, or all due ones, which are pending, failed or abandoned.

    It calls the function bound to the step with @Order.ship.does, or the one that you name. If the first task id looks
    like MODULE:FUNCTION, pass the ids on stdin, as in echo order:17 | pynamodb-tracker run ship -.

    Each task is run once. If you neither name nor select tasks, tasks that become due in the meantime are run, too.
    Tasks given by id run even if their step is paused. Ctrl-C waits for running tasks, and a second Ctrl-C does not.

    Exits with 1 if a task failed, was ignored or was refused.
    """
    of = among.step(step)
    function_name, ids = command.function_and_tasks(of, words or [])
    function = command.function_for(of, function_name)
    selection = Selection(of, (), since, until, limit, error_contains)
    if ids:
        given = {"--since": since, "--until": until, "--error-contains": error_contains, "--limit": limit}
        for option in [key for key, value in (given | {"--dry-run": dry_run or None}).items() if value is not None]:
            raise typer.BadParameter("it selects due tasks, but you named tasks", param_hint=option)
        selection = Selection(of, ids=list(dict.fromkeys(command.ids_in(ids))))
        with suppress(TrackerError, PynamoDBException):  # the tasks run anyway
            if pause := find_pause(of.model, of.name):
                warn(f"{pause} ({_BY_ID})")
    batch = WatchedBatch(selection, function, StopRequest(), threads, rate, heartbeat)
    return _run("run", batch, dry_run=dry_run, as_json=as_json)


@opt.for_use_cases
def retry(
    among: UseCases,
    step: opt.Step,
    function: Function = None,
    *,
    since: opt.Since = None,
    until: opt.Until = None,
    error_contains: opt.ErrorContains = None,
    reopen_ignored: Annotated[
        bool, opt.flag("--reopen-ignored", "Also run ignored tasks, with all their attempts again.")
    ] = False,
    limit: Limit = None,
    rate: opt.Rate = None,
    threads: opt.Threads = 4,
    heartbeat: opt.Heartbeat = False,
    dry_run: DryRun = False,
    as_json: opt.Json = False,
) -> bool:
    """Run the failed tasks of a step that are due.

    With --reopen-ignored, ignored tasks of groups enter them again, in their order, and run here if they have their
    turn. The others stay pending and run later.

    Each task is run once. Ctrl-C waits for running tasks, and a second Ctrl-C does not.

    Exits with 1 if a task failed again, was ignored or was refused.
    """
    of = among.step(step)
    selection = Selection(of, (of.failed,), since, until, limit, error_contains, reopen_ignored)
    batch = WatchedBatch(selection, command.function_for(of, function), StopRequest(), threads, rate, heartbeat)
    return _run("retry", batch, dry_run=dry_run, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Selection:
    """A step's matching tasks, or the tasks with these `ids`. `ignored` adds ignored tasks."""

    step: BoundStep[Any]
    only: tuple[State[Any], ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    error_contains: str | None = None
    ignored: bool = False
    ids: Sequence[str] | None = None
    """Tasks that a person named. Each is started once, and refused if another worker has it."""
    members: list[Task] = field(default_factory=list)  # ignored tasks that have to enter their groups again

    @property
    def is_named(self) -> bool:
        return self.ids is not None

    def due(self) -> list[str]:
        due = list(self.step.due_ids(**self._options(), limit=self.limit))
        if self.ignored:
            due += islice(self._ignored_ids(clock.now()), self.remaining(len(due)))
            due += self.first_members(self.remaining(len(due)))
        return due

    def first_members(self, most: int | None) -> list[str]:
        return [task.task_id for task in sorted(self.members, key=lambda task: task.group_number)[:most]]

    def count(self) -> int | None:
        """Return an upper bound, which includes tasks that are not due yet. Return None if this is too slow."""
        if self.ids is not None:
            return len(self.ids)
        if self.error_contains:
            return None
        number = self._count([*self._states, *([self.step.ignored] if self.ignored else [])], self.limit)
        return number if self.limit is None else min(number, self.limit)

    def _count(self, states: Iterable[State[Any]], most: int | None = None) -> int:
        return sum(state.count(since=self.since, until=self.until, up_to=most) for state in states)

    def passes(self, function: Callable[[Any], object], threads: int, *, heartbeat: bool) -> Iterator[StepSource]:
        """Yield the source of named tasks, or one for due tasks and then one for ignored ones."""
        of, began, start = self.step._definition, clock.now(), partial(self.step.start, heartbeat=heartbeat)
        if self.ids is not None:
            named = partial(start, ignore_concurrency_limit=True)
            yield GivenIds(StepWork(of, named, function, is_named=True), self.ids)
            return
        due = of.candidates(**self._options(), limit=self.limit, threads=threads)
        yield OnceThrough(StepWork(of, start, function), due)
        if self.ignored:
            # Tasks are claimed from ignored, not reopened first: a task that this batch does not reach stays ignored.
            again = partial(start, also_from=(self.step.ignored,))
            yield GivenIds(StepWork(of, again, function), self._ignored_ids(began))

    def remaining(self, done: int) -> int | None:
        return None if self.limit is None else max(self.limit - done, 0)

    def _ignored_ids(self, before: datetime) -> Iterator[str]:
        """Yield tasks ignored before this time, so tasks that this batch ignores are not run again. Keep members."""
        if self.since is not None and self.since >= before:
            return
        found = self.step.ignored.query(since=self.since, until=min(self.until or before, before), with_data=False)
        for task in self._filter(found):
            if task.group:
                self.members.append(task)
            else:
                yield task.task_id

    def why_empty(self) -> str:
        if self.is_named:
            return f"nothing to run at {self.step.name}: stdin contains no task ids"
        number = None if self.error_contains else self._count(self._states)
        why = self._describe_not_due(number, self.until) or "no matching task is due"
        return f"nothing to run at {self.step.name}: {why}"

    def skipped(self, began: datetime, expected: int | None, done: int) -> str:
        """Return how many failed tasks were not due, or an empty text.

        `expected` is the `count` before the batch began, and `done` is how many tasks have run since.
        """
        if not self.only or self.limit is not None or (self.since is not None and self.since >= began):
            return ""
        return self._describe_not_due(None if expected is None else expected - done, min(self.until or began, began))

    def _describe_not_due(self, number: int | None, until: datetime | None) -> str:
        """Return how many tasks are not due yet, counted if `number` is None, and when the first will be."""
        if number is not None and number <= 0:
            return ""
        window: dict[str, Any] = {"since": self.since, "until": until, "limit": None if self.error_contains else 1}
        found = (state.query(**window, with_data=False) for state in self._states)
        due: list[datetime] = [task.due_time for tasks in found for task in self._filter(tasks)]
        number = len(due) if number is None else number
        when = f" (the first one {between(min(due))})" if due else ""
        such = f" with {self.error_contains!r} in the error" if self.error_contains else ""
        return f"{count(number)}{such} not due yet{when}: reopen makes failed tasks due at once" if number else ""

    @property
    def _states(self) -> tuple[State[Any], ...]:
        return self.only or (self.step.pending, self.step.failed)

    def _filter(self, tasks: Iterable[Task]) -> Iterator[Task]:
        like = (self.error_contains or "").casefold()
        return (task for task in tasks if like in (task.last_error or "").casefold())

    def _options(self) -> dict[str, Any]:
        return {"only": self.only, "since": self.since, "until": self.until, "error_contains": self.error_contains}


_SHOWN_REFUSALS = 5
_BY_ID = "tasks given by id run anyway"


@dataclass(slots=True)
class WatchedBatch:
    selection: Selection
    function: Callable[[Any], object]
    stop: StopRequest
    threads: int = 4
    rate: float | None = None
    heartbeat: bool = False
    expected: int | None = None
    began: datetime = field(default_factory=clock.now)
    progress: terminal.Progress = field(default_factory=terminal.Progress)
    report: Report = field(default_factory=Report)
    groups: ErrorGroups[str] = field(default_factory=ErrorGroups)
    running: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)  # tasks that other workers claimed first, unless they were named
    entered: Sequence[str] = ()  # ignored tasks that are in their groups again
    runs_ignored: bool = False
    ran_ignored: int = 0
    pause: object = None  # the pause that kept the step's tasks from running
    _began: float = field(default_factory=time.monotonic)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Run the tasks. The function's output goes to stderr, because stdout is for the report."""
        with redirect_stdout(sys.stderr):
            passes = self.selection.passes(self._call, self.threads, heartbeat=self.heartbeat)
            for number, source in enumerate(passes):
                self.runs_ignored = number > 0
                self._run(source)
                if self.stop.is_set() or self.pause:
                    return
            if self.selection.members:
                self._run_members()

    def _run(self, source: StepSource) -> None:
        dispatcher = Dispatcher([source], limit=self._left, rate=self.rate)
        self.stop.calls(dispatcher.stop)
        try:
            ThreadExecutor(dispatcher, self.threads, self._note).run()
        finally:
            self.pause = self.pause or source.pause

    @property
    def _left(self) -> int | None:
        return self.selection.remaining(sum(self._count_outcomes().values()))

    def _run_members(self) -> None:
        """Let ignored tasks enter their groups again, and run those that get their turn."""
        step = self.selection.step
        entered = step.reopen_many(self.selection.first_members(self._left))
        self.entered = entered.succeeded
        self.report.refused |= entered.refused
        now, rows = clock.now(), with_rows(step.model, iter(self.entered))
        due = [task_id for task_id, row in rows if row is not None and row.due_time <= now]
        work = StepWork(step._definition, partial(step.start, heartbeat=self.heartbeat), self._call)
        self._run(OnceThrough(work, Candidates(lambda *_: iter(due), threads=self.threads)))

    def _note(self, attempt: Attempt) -> None:
        is_no_id = self.selection.is_named and isinstance(attempt.error, ValueError)
        if attempt.unexpected_error is not None and not is_no_id:
            raise attempt.unexpected_error
        if self.selection.is_named and isinstance(attempt.claim_error, Exception):
            self.report.refused[attempt.task_id] = attempt.claim_error
        elif lost_to_other(attempt.claim_error):
            self.taken.add(attempt.task_id)
        else:
            add_to(self.report, attempt)
        self.ran_ignored += self.runs_ignored and attempt.outcome != "refused"
        self.progress.show(self.done, self.numbers())
        if attempt.error is not None and attempt.outcome == "refused" and concerns_all(attempt.error):
            raise attempt.error

    def _call(self, ctx: ExecutionContext[Any]) -> None:
        """Call the function. If it calls sys.exit, as scripts do, its task fails, not the batch."""
        task_id = ctx.task.task_id
        self.running.add(task_id)
        try:
            try:
                call(self.function, ctx)
            except SystemExit as error:
                raise RuntimeError(f"the function called sys.exit({error})") from error
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {message_of(error)}".split()).removesuffix(":")
            with self._guard:
                self.groups.add("", task_id, message, clock.now())
            raise
        finally:
            self.running.discard(task_id)

    @property
    def done(self) -> int:
        return sum(self._count_outcomes().values()) + len(self.report.refused) + len(self.taken)

    def _count_outcomes(self) -> dict[str, int]:
        return {outcome: len(getattr(self.report, outcome)) for outcome in ("succeeded", "failed", "ignored")}

    @property
    def waiting(self) -> list[str]:
        """The tasks that wait for their turns."""
        report = self.report
        ended = {*report.succeeded, *report.failed, *report.ignored, *report.refused, *report.released, *self.taken}
        return [task_id for task_id in self.entered if task_id not in ended]

    def numbers(self) -> str:
        others = {"taken by others": len(self.taken), "refused": len(self.report.refused)}
        counted = self._count_outcomes() | others
        return ", ".join(f"{number:,} {outcome}" for outcome, number in counted.items() if number) or "nothing yet"

    def report_waiting(self) -> None:
        waits = f": waiting for {count(len(self.running))} to finish (Ctrl-C again leaves them locked)"
        warn(f"stopping{waits if self.running else ''}")

    def report_left(self) -> None:
        left = ", ".join(sorted(self.running)) or "none"
        warn(f"stopped at once: these tasks stay in progress until their locks expire, and are then taken over: {left}")
        self.progress.leave()

    def print_json(self, *, stopped: bool) -> None:
        errors = self.report.refused.items()
        refused = {task_id: f"{type(error).__name__}: {one_line(error)}" for task_id, error in errors}
        others = {"taken": len(self.taken), "refused": refused, "released": len(self.report.released)}
        others |= {"waiting": len(waiting)} if (waiting := self.waiting) else {}
        paused = {} if self.pause is None else {"paused": str(self.pause)}
        took = round(time.monotonic() - self._began, 1)
        terminal.say_json({**self._count_outcomes(), **others, **paused, "seconds": took, "stopped": stopped})

    def print_report(self, *, stopped: bool) -> None:
        if self.pause is not None:
            say(escaped(f"{self.pause} ({_BY_ID})"))
        elif not (self.done or self.entered or stopped):
            say(self.selection.why_empty())
        if waiting := self.waiting:
            say(f"{count(len(waiting))} reopened, waiting for {'its turn' if len(waiting) == 1 else 'their turns'}")
        if not self.done and not stopped:
            return
        took = time.monotonic() - self._began
        speed = f", {self.done / took:,.0f}/s" if self.done > took > 1 else ""
        lead = "stopped: " if stopped else ""
        say(f"{lead}{self.selection.step.name}: {self.numbers()} in {age(timedelta(seconds=took))}{speed}")
        groups = ([f"{group.tasks:,}", group.example, group.error] for group in self.groups.sorted())
        terminal.print_table(("tasks", "example", "error"), groups)
        for kind, number in Counter(type(error).__name__ for error in self.report.refused.values()).most_common():
            say(f"{number:,} refused: {kind}")
        for task_id, error in list(self.report.refused.items())[:_SHOWN_REFUSALS]:
            say(escaped(f"  {task_id}: {for_people(error)}"))
        if released := len(self.report.released):
            say(f"{count(released)} released, pending again")
        if stopped and self.expected and (left := self.expected - self.done - released) > 0:
            say(f"{count(left)} not started")
        if not (stopped or self.pause) and (
            skipped := self.selection.skipped(self.began, self.expected, self.done + len(waiting))
        ):
            say(skipped)


def _print_due(selection: Selection, *, as_json: bool) -> None:
    due = selection.due()
    if as_json:
        terminal.say_json({"due": due})
        return
    for task_id in due:
        say(escaped(task_id))
    warn(f"dry run: {count(len(due))} would be run" if due else selection.why_empty())


def _run(verb: str, batch: WatchedBatch, *, dry_run: bool, as_json: bool) -> bool:
    """Run the batch and print its report. Return whether any task did not succeed."""
    selection, ended = batch.selection, None
    if dry_run:
        _print_due(selection, as_json=as_json)
        return False
    batch.expected = selection.count()
    with safe_stderr(batch.stop.set), terminal.progress(f"{verb} {selection.step.name}", batch.expected) as shown:
        batch.progress = shown
        try:
            run_stoppable(batch)
            shown.end()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - raised again after the report
            ended = error
    about, reason = f"{selection.step.name}.{Status.IGNORED}", "retry --reopen-ignored"
    reopened = batch.ran_ignored + len(batch.waiting)
    note(selection.step.model, opt.person(), "reopened", about, reopened, reason=reason)
    with last_output():
        (batch.print_json if as_json else batch.print_report)(stopped=ended is not None)
    if isinstance(ended, StoppedError):
        raise typer.Exit(ended.exit_code)
    if ended is not None:
        raise ended
    return batch.done > len(batch.report.succeeded) + len(batch.taken)
