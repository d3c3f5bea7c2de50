"""`run` and `retry`: one function on the tasks of a step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

import typer

from pynamodb_tracker.cli.batch_report import nothing, numbers, print_end
from pynamodb_tracker.cli.exits import FOUND
from pynamodb_tracker.cli.importer import load_function
from pynamodb_tracker.cli.lookup import check_window, step_named, use_case
from pynamodb_tracker.cli.options import (
    AppOption,
    ErrorOption,
    FunctionArgument,
    HeartbeatOption,
    JsonOption,
    RateOption,
    SinceOption,
    StepArgument,
    ThreadsOption,
    UntilOption,
    UseCaseOption,
)
from pynamodb_tracker.cli.terminal import interrupts
from pynamodb_tracker.cli.terminal.echo import count, escaped, say, say_json, warn
from pynamodb_tracker.cli.terminal.output import kept_stderr, last_words
from pynamodb_tracker.cli.terminal.progress import Progress, progress
from pynamodb_tracker.cli.watched_batch import Batch, Selection

__all__ = ["retry", "run"]

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Run nothing: print the ids of what would be run.")
]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Run no more than that.")]


@dataclass(frozen=True, slots=True)
class _Settings:
    """How a batch is run, and how it is told."""

    function: str
    threads: int
    rate: float | None
    heartbeat: bool
    dry_run: bool
    as_json: bool


def run(
    step: StepArgument,
    function: FunctionArgument,
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    error_like: ErrorOption = None,
    limit: LimitOption = None,
    rate: RateOption = None,
    threads: ThreadsOption = 4,
    heartbeat: HeartbeatOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a function on all that a step has to do now: pending and failed tasks that are due, and abandoned ones.

    Each task is run once. Ctrl-C starts nothing more and waits for what runs; a second Ctrl-C does not wait.

    Exits with 1 if a task failed, was ignored or was refused.
    """
    settings = _Settings(function, threads, rate, heartbeat, dry_run, as_json)
    with use_case(name, use_case_name) as model:
        selected = Selection(step_named(model, step), (), since, until, limit, error_like)
        _do("run", selected, settings)


def retry(
    step: StepArgument,
    function: FunctionArgument,
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    error_like: ErrorOption = None,
    reopen_ignored: Annotated[
        bool,
        typer.Option("--reopen-ignored", metavar="", help="Take ignored ones, too, each with a fresh set of attempts."),
    ] = False,
    limit: LimitOption = None,
    rate: RateOption = None,
    threads: ThreadsOption = 4,
    heartbeat: HeartbeatOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a function on the failed tasks of a step that are due.

    Each task is run once. Ctrl-C starts nothing more and waits for what runs; a second Ctrl-C does not wait.

    Exits with 1 if a task failed again, was ignored or was refused.
    """
    settings = _Settings(function, threads, rate, heartbeat, dry_run, as_json)
    with use_case(name, use_case_name) as model:
        of = step_named(model, step)
        _do("retry", Selection(of, (of.failed,), since, until, limit, error_like, reopen_ignored), settings)


def _do(verb: str, selected: Selection, settings: _Settings) -> None:
    """Run a batch and tell what became of it."""
    check_window(selected.since, selected.until)
    function = load_function(settings.function)
    if settings.dry_run:
        _print_due(selected, as_json=settings.as_json)
        return
    expected = None if selected.error_like else selected.count()
    order, began, ended = interrupts.Stop(), time.monotonic(), None
    with kept_stderr(order.note_unread), progress(f"{verb} {selected.step.name}", expected) as shown:
        batch = Batch(
            selected,
            function,
            settings.threads,
            settings.rate,
            settings.heartbeat,
            lambda batch: shown.show(batch.done, numbers(batch)),
        )
        try:
            interrupts.run(
                batch.run, order, at_first=lambda: _tell_wait(batch), at_second=lambda: _tell_left(batch, shown)
            )
            shown.end()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - leaves again, once it is told what was done
            ended = error
    with last_words():
        print_end(batch, time.monotonic() - began, stopped=ended is not None, as_json=settings.as_json)
    _exit(batch, ended)


def _exit(batch: Batch, ended: BaseException | None) -> None:
    """Exit as the batch ended."""
    if isinstance(ended, interrupts.StoppedError):
        raise typer.Exit(ended.exit_code)
    if ended is not None:
        raise ended
    if batch.done > batch.number("succeeded") + batch.taken:
        raise typer.Exit(FOUND)


def _print_due(selected: Selection, *, as_json: bool) -> None:
    due = selected.due()
    if as_json:
        say_json({"due": due})
        return
    for task_id in due:
        say(escaped(task_id))
    warn(f"{count(len(due))} would be run; nothing was" if due else nothing(selected))


def _tell_wait(batch: Batch) -> None:
    running = len(batch.running)
    warn(
        f"stopping: waiting for {count(running)} under way; Ctrl-C again leaves them locked" if running else "stopping"
    )


def _tell_left(batch: Batch, shown: Progress) -> None:
    left = ", ".join(sorted(batch.running)) or "none"
    warn(f"left at once: these stay in progress until their locks end, and are then taken over: {left}")
    shown.leave()
