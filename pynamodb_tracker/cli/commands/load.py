"""`load`: creates the tasks of a file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from pynamodb_tracker.batch.thread_pool import in_threads
from pynamodb_tracker.cli.exits import FOUND, CannotRunError, one_line
from pynamodb_tracker.cli.files.task_files import File, Form, Line, opened
from pynamodb_tracker.cli.files.task_lines import Creation, to_begin_in
from pynamodb_tracker.cli.lookup import use_case
from pynamodb_tracker.cli.options import AppOption, ThreadsOption, UseCaseOption
from pynamodb_tracker.cli.terminal import interrupts
from pynamodb_tracker.cli.terminal.echo import count, say, warn
from pynamodb_tracker.cli.terminal.output import kept_stderr, last_words
from pynamodb_tracker.cli.terminal.progress import Progress, progress
from pynamodb_tracker.exceptions import TaskAlreadyExistsError, TrackerError
from pynamodb_tracker.task.task import Task

__all__ = ["load"]


class _BadLineError(Exception):
    """A line is wrong, and has been told; the rest is left."""


def load(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV with a header, or JSON lines; - is stdin.")],
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STEP.STATE", help="Where tasks begin whose line does not say it.", show_default="the first step"
        ),
    ] = None,
    form: Annotated[Form | None, typer.Option("--format", help="Instead of guessing it.")] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", metavar="", help="Report each bad line, and load the others.")
    ] = False,
    skip_existing: Annotated[
        bool,
        typer.Option(
            "--skip-existing", metavar="", help="Tasks that are there already are fine, and left as they are."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", metavar="", help="Check the lines, create nothing, and look for none that is there."),
    ] = False,
    threads: ThreadsOption = 8,
) -> None:
    """Create a task for each line of a file.

    A line has a task_id, and may have a state as in ship.pending, a due_time, data and the attributes of the class;
    empty CSV fields are no value. What was in progress when it was exported begins as pending.

    Exits with 1 if a line was bad. Run again with --skip-existing, it goes on where it was stopped.
    """
    with use_case(name, use_case_name) as model, opened(file, form) as source:
        creation = Creation(model, source.form, None if state is None else to_begin_in(model, state))
        creation.check_columns(source)
        load = _Load(model, source, creation, keep_going=keep_going, skip_existing=skip_existing, dry_run=dry_run)
        order, ended = interrupts.Stop(), None
        try:
            with kept_stderr(order.note_unread), progress("load", source.size) as shown:
                load.shown = shown
                interrupts.run(
                    lambda order: load.run(order, threads),
                    order,
                    at_first=lambda: warn("stopping: waiting for what is under way; Ctrl-C again does not wait"),
                    at_second=lambda: _tell_left(load, shown),
                )
                shown.end()
        except _BadLineError:
            warn("stopped at the first bad line: --keep-going goes on after one")
        except interrupts.StoppedError as stopped:
            ended = stopped.exit_code
        finally:
            with last_words():
                say(("stopped; " if ended else "") + load.told())
        if ended or load.bad:
            raise typer.Exit(ended or FOUND)


def _tell_left(load: _Load, shown: Progress) -> None:
    warn(f"left at once; {load.told()}")
    shown.leave()


@dataclass(slots=True)
class _Load:
    """A load under way."""

    model: type[Task]
    source: File
    creation: Creation
    keep_going: bool
    skip_existing: bool
    dry_run: bool
    created: int = 0
    existing: int = 0
    bad: int = 0
    shown: Progress | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def run(self, order: interrupts.Stop, threads: int) -> None:
        """Create the tasks."""
        with _nothing_sent(self.model) if self.dry_run else nullcontext():
            in_threads(self._load, self._lines(order), threads)

    def told(self) -> str:
        """Return how far it is."""
        existing = f", {self.existing:,} there already" if self.existing else ""
        bad = f", {count(self.bad, 'bad line')}" if self.bad else ""
        return f"{count(self.created)} {'to create' if self.dry_run else 'created'}{existing}{bad}"

    def _lines(self, order: interrupts.Stop) -> Iterator[Line]:
        for line in self.source.lines():
            if order:
                raise KeyboardInterrupt
            yield line

    def _load(self, line: Line) -> None:
        problem = line.problem
        existing = False
        if not problem:
            try:
                arguments = self.creation.arguments(line.values)
                self.model.create(**arguments)
            except TaskAlreadyExistsError as error:
                existing = self.skip_existing
                problem = "" if existing else f"{one_line(error)} (--skip-existing goes on at such a line)"
            except (CannotRunError, TrackerError, TypeError, ValueError) as error:
                problem = one_line(error)
        with self._guard:
            self._note(line, problem, existing=existing)

    def _note(self, line: Line, problem: str, *, existing: bool) -> None:
        if problem and self.bad and not self.keep_going:
            return  # under way when the first bad line ended it
        self.bad += bool(problem)
        self.existing += existing
        self.created += not problem and not existing
        if problem:
            warn(f"{self.source.name}:{line.number}: {problem}")
            if not self.keep_going:
                raise _BadLineError
        if self.shown is not None:
            self.shown.show(self.source.position or 0, self.told())


@contextmanager
def _nothing_sent(model: type[Task]) -> Iterator[None]:
    """Let a create do all but speak to the server, so that it refuses what it would refuse."""
    events, answer = model.tracker.connection().connection.client.meta.events, SimpleNamespace(status_code=200)

    def answered(**_request: object) -> tuple[SimpleNamespace, dict[str, Any]]:
        return answer, {}

    events.register_first("before-call.dynamodb", answered)
    try:
        yield
    finally:
        events.unregister("before-call.dynamodb", answered)
