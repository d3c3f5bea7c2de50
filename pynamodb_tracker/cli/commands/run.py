"""`run` and `retry`: call a function for the tasks of a step."""

from typing import Annotated

import typer

from pynamodb_tracker.cli.exits import FOUND
from pynamodb_tracker.cli.interrupts import StoppedError, StopRequest, run_stoppable
from pynamodb_tracker.cli.lookup import check_window, load_function, step_named, use_case
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
from pynamodb_tracker.cli.streams import last_output, safe_stderr
from pynamodb_tracker.cli.terminal import count, escaped, progress, say, say_json, warn
from pynamodb_tracker.cli.watched_batch import Selection, WatchedBatch

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Print the ids of the tasks that would be run, and run nothing.")
]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Run at most this many tasks.")]


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
    """Call a function for every task that is due in a step: pending, failed and abandoned tasks.

    Each task is run once. Ctrl-C starts no more tasks and waits for running ones; a second Ctrl-C does not wait.

    Exits with 1 if a task failed, was ignored or was refused.
    """
    with use_case(name, use_case_name) as model:
        check_window(since, until)
        selection = Selection(step_named(model, step), (), since, until, limit, error_like)
        batch = WatchedBatch(selection, load_function(function), StopRequest(), threads, rate, heartbeat)
        _print_due(selection, as_json=as_json) if dry_run else _run("run", batch, as_json=as_json)


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
        typer.Option("--reopen-ignored", metavar="", help="Also run ignored tasks, with all their attempts again."),
    ] = False,
    limit: LimitOption = None,
    rate: RateOption = None,
    threads: ThreadsOption = 4,
    heartbeat: HeartbeatOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Call a function for the failed tasks of a step that are due.

    Each task is run once. Ctrl-C starts no more tasks and waits for running ones; a second Ctrl-C does not wait.

    Exits with 1 if a task failed again, was ignored or was refused.
    """
    with use_case(name, use_case_name) as model:
        check_window(since, until)
        of = step_named(model, step)
        selection = Selection(of, (of.failed,), since, until, limit, error_like, reopen_ignored)
        batch = WatchedBatch(selection, load_function(function), StopRequest(), threads, rate, heartbeat)
        _print_due(selection, as_json=as_json) if dry_run else _run("retry", batch, as_json=as_json)


def _print_due(selection: Selection, *, as_json: bool) -> None:
    due = selection.due()
    if as_json:
        say_json({"due": due})
        return
    for task_id in due:
        say(escaped(task_id))
    warn(f"dry run: {count(len(due))} would be run" if due else selection.why_empty())


def _run(verb: str, batch: WatchedBatch, *, as_json: bool) -> None:
    """Run a batch, print what became of it, and exit."""
    selection, ended = batch.selection, None
    expected = None if selection.error_like else selection.count()
    with safe_stderr(batch.stop.note_lost_reader), progress(f"{verb} {selection.step.name}", expected) as shown:
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
        raise typer.Exit(FOUND)
