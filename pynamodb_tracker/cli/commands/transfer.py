"""`load` and `export`: tasks from and to files."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import filterfalse
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli import command
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import CannotRunError, refusing
from pynamodb_tracker.cli.interrupts import StoppedError, StopRequest, last_output, run_stoppable, safe_stderr
from pynamodb_tracker.cli.task_files import File, Format, Line, LineReader, open_tasks, state_to_load
from pynamodb_tracker.cli.tasks import Damaged
from pynamodb_tracker.cli.terminal import Progress, flush, progress, say, warn, write
from pynamodb_tracker.exceptions import LockLostError, TaskAlreadyExistsError, TaskNotFoundError, TrackerError
from pynamodb_tracker.model import hydration
from pynamodb_tracker.model.arguments import check_task_id
from pynamodb_tracker.model.row import damages_of, has_expired
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation import task_facts as facts
from pynamodb_tracker.presentation.errors import one_line
from pynamodb_tracker.presentation.text import count, stamp
from pynamodb_tracker.step.state import all_tasks
from pynamodb_tracker.task.loading import load_task
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.bulk import in_threads_together
from pynamodb_tracker.work.threads import in_threads


@opt.for_use_case
def load(
    model: type[Task],
    file: Annotated[str, opt.argument("FILE", "CSV with a header, or JSON lines. Use - to read stdin.")],
    *,
    state: Annotated[
        str | None,
        opt.value(
            "STEP.STATUS",
            "The state for lines without one. Default: pending at the first step.",
            autocompletion=opt.complete_states,
        ),
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", metavar="csv|jsonl", help="The format, if it cannot be guessed.")
    ] = None,
    keep_going: Annotated[bool, opt.flag("--keep-going", "Report each bad line, and load the others.")] = False,
    skip_existing: Annotated[bool, opt.flag("--skip-existing", "Skip existing tasks without an error.")] = False,
    dry_run: Annotated[bool, opt.flag("--dry-run", "Check the lines, but not for existing tasks.")] = False,
    threads: opt.Threads = 8,
) -> None:
    """Create a task for each line of a file.

    A line needs a task_id. It may have a state such as ship.pending, a due_time, data, attributes of the class, a
    group, a trace, and a repeat rule such as "cron 0 2 * * * in Europe/Berlin" or "every 1h". Empty CSV fields are
    ignored.

    wait_for names a signal that the task waits for, and until limits the wait. In an export, these are awaited_signals
    and due_time, and signals contains signals that were sent already.

    A task keeps its round: checkpoints, skipped_steps, missed_signals, postpone_count, first_failure and cancelled. A
    task that was exported in progress is created as pending. Groups keep the order of their lines.

    Exits with 1 if a line was bad. If a load was interrupted, run it again with --skip-existing.
    """
    with open_tasks(file, form) as source:
        reader = LineReader(model, source.form, None if state is None else state_to_load(model, state))
        reader.check_columns(source)
        load = _Load(source, reader, StopRequest(), threads, keep_going, skip_existing, dry_run)
        ended = None
        try:
            with safe_stderr(load.stop.set), progress("load", source.size) as shown:
                load.progress = shown
                run_stoppable(load)
                shown.end()
        except _BadLineError:
            warn("stopped at the first bad line: add --keep-going to load the others")
        except StoppedError as stopped:
            ended = stopped.exit_code
        finally:
            with last_output():
                say(("stopped: " if ended else "") + load.numbers())
        if ended or load.bad:
            raise typer.Exit(ended or command.FOUND)


class _BadLineError(Exception):
    """A bad line stops the load."""


@dataclass(slots=True)
class _Load:
    source: File
    reader: LineReader
    stop: StopRequest
    threads: int
    keep_going: bool
    skip_existing: bool
    dry_run: bool
    created: int = 0
    existing: int = 0
    bad: int = 0
    progress: Progress = field(default_factory=Progress)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        if self.dry_run:
            with _no_requests(self.reader.model):
                in_threads(self._load, self._read_lines(), self.threads)
        else:
            in_threads_together(self._load, self._read_lines(), self.threads, lambda line: line.values.get("group"))

    def numbers(self) -> str:
        existing = f", {self.existing:,} already existed" if self.existing else ""
        bad = f", {count(self.bad, 'bad line')}" if self.bad else ""
        return f"{count(self.created)} {'to create' if self.dry_run else 'created'}{existing}{bad}"

    def report_waiting(self) -> None:
        warn("stopping: waiting for requests in progress (Ctrl-C again does not wait)")

    def report_left(self) -> None:
        warn(f"stopped at once: {self.numbers()}")
        self.progress.leave()

    def _read_lines(self) -> Iterator[Line]:
        for line in self.source.lines():
            if self.stop.is_set():
                raise KeyboardInterrupt
            yield line

    def _load(self, line: Line) -> None:
        problem, existing = line.problem, False
        if not problem:
            try:
                load_task(self.reader.model, **self.reader.arguments(line.values))
            except TaskAlreadyExistsError as error:
                existing = self.skip_existing
                problem = "" if existing else f"{one_line(error)} (--skip-existing skips such lines)"
            except (CannotRunError, TrackerError, TypeError, ValueError) as error:
                problem = one_line(error)
        with self._guard:
            if problem and self.bad and not self.keep_going:
                return  # it was in progress when the first bad line stopped the load
            self.bad += bool(problem)
            self.existing += existing
            self.created += not problem and not existing
            if problem:
                warn(f"{self.source.name}:{line.number}: {problem}")
                if not self.keep_going:
                    raise _BadLineError
            self.progress.show(self.source.position or 0, self.numbers())


@contextmanager
def _no_requests(model: type[Task]) -> Iterator[None]:
    """Let `create` check tasks as if the table was empty, without sending requests."""
    events = model.tracker.connection().connection.client.meta.events

    def respond(**_request: object) -> tuple[SimpleNamespace, dict[str, Any]]:
        return SimpleNamespace(status_code=200), {"Items": []}

    events.register_first("before-call.dynamodb", respond)
    try:
        yield
    finally:
        events.unregister("before-call.dynamodb", respond)


@opt.for_use_case
def export(
    model: type[Task],
    state: Annotated[
        str | None,
        opt.argument(
            "STEP.STATUS", "Only this state, as in ship.failed. Use - to read task ids from stdin.", opt.complete_states
        ),
    ] = None,
    *,
    since: opt.Since = None,
    until: opt.Until = None,
) -> bool:
    """Write tasks to stdout as JSON lines with their id, state and attributes, for load or for other programs.

    Attempts, errors, times and group orders are not exported. A loaded task has all its attempts again, but does not
    repeat finished parts. A repeating task is due at its rule's next occurrence.

    load refuses lines with blockers (how many tasks it waits for) or queued (a request to run again). Without a state,
    export reads the whole table.
    """
    number, damaged = 0, Damaged(own_too=True)
    if (since or until) and state in (None, "-"):
        raise typer.BadParameter("only with a state, as in ship.failed", param_hint="--since and --until")
    if state is None:
        found: Iterator[Task] = filterfalse(has_expired, all_tasks(model))
    elif state == "-":
        found = _load_tasks(model, command.ids_in(["-"]), damaged)
    else:
        found = command.state_named(model, state).query(since=since, until=until)
    try:
        for task in found:
            if (line := _build_line(model, task, damaged)) is not None:
                write(exact_json.dumps(line) + "\n")
                number += 1
    except KeyboardInterrupt:
        warn(f"stopped after {count(number)}")
        raise typer.Exit(command.INTERRUPTED) from None
    flush()
    warn(f"{count(number)} of {model.__name__}")
    return damaged.is_any


def _load_tasks(model: type[Task], ids: Iterator[str], damaged: Damaged) -> Iterator[Task]:
    for task_id in dict.fromkeys(ids):
        with refusing(ValueError):
            found = hydration.rows(model, [check_task_id(task_id)])
        if not found:
            damaged.report(task_id, {"task": ValueError("it does not exist")})
        yield from found.values()


def _build_line(model: type[Task], task: Task, damaged: Damaged) -> dict[str, Any] | None:
    """Return the line for `load`, or None for a task that is damaged or gone."""
    unread = damages_of(task)
    try:
        attributes = {} if unread else facts.attributes_of(task, unread)
    except LockLostError:  # its data was written again after the row was read
        try:
            task = model.get_task(task.task_id)
        except TaskNotFoundError:
            return None
        attributes = facts.attributes_of(task, unread)
    if unread:
        damaged.report(task.task_id, unread)
        return None
    starts: datetime | None = task.turn_due_time
    waits = not task.tracker.ends_at(task.state.code) and task.due_time > max(clock.now(), task.update_time)
    due = task.due_time if waits and task.due_time not in (task.lock_expire_time, clock.NEVER) else None
    if starts is not None and starts > clock.now():
        due = starts
    if task.awaited_signals:
        due = task.wait_until
    optional = {
        "due_time": None if due is None else stamp(due),
        "group": None if task.state == model.cancelled else task.group,
        "repeat": facts.rule_of(task),
        "trace": task.trace,
        "urgent": task.urgent,
        "blockers": (task.blockers or 0) - (starts is not None) or None,
        "queued": facts.asked_again(task),
        **facts.signals_of(task),
        **facts.round_of_task(task),
    }
    given = {name: value for name, value in optional.items() if value is not None}
    return {"task_id": task.task_id, "state": facts.name_of(task.state), **given, **attributes}
