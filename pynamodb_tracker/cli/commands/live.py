"""`top`, `workers` and `schedules`: what is due, fails, runs and repeats, over all use cases, as the page shows it."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from select import select
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pynamodb_tracker import clock
from pynamodb_tracker.cli import command, terminal
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.tasks import held_back, waiting
from pynamodb_tracker.cli.terminal import styled
from pynamodb_tracker.presentation.history import Change, History
from pynamodb_tracker.presentation.overview import Number, Overview, look
from pynamodb_tracker.presentation.running import MOST, WorkerView, find_running
from pynamodb_tracker.presentation.schedules import MOST as MOST_ROWS
from pynamodb_tracker.presentation.schedules import Schedule, find_schedules
from pynamodb_tracker.presentation.task_facts import last_run_as_json, location, name_of, rule_of
from pynamodb_tracker.presentation.text import age, between, count, escaped, stamp
from pynamodb_tracker.presentation.why_failed import Errors, find_errors
from pynamodb_tracker.status import Status
from pynamodb_tracker.task.task import Task

_INTERVAL = timedelta(seconds=10)
_ERRORS = 5
_TITLES = ("step", "pending", "in progress", "failed", "gave up", "due for", "locks")


def workers(
    worker: Annotated[
        str | None,
        typer.Argument(metavar="[WORKER]", help="Only workers whose names begin so, such as those of a host."),
    ] = None,
    *,
    as_json: opt.Json = False,
    name: opt.App,
    use_case_name: opt.UseCase = None,
) -> None:
    """Show who runs tasks now, over all steps and use cases: how many, since when, and whose locks have expired.

    It reads the rows of up to 1,000 tasks in progress, those whose locks expire first, at one read unit each. A worker
    that runs nothing now is not shown.

    Exits with 1 if a lock has expired.
    """
    with command.use_cases(name, use_case_name) as models:
        found = find_running(models, worker)
        if as_json:
            terminal.say_json_array(map(_worker_as_json, found.workers))
        elif not found.workers:
            terminal.say(f"no task is in progress{f' at {escaped(worker)}' if worker else ''}")
        else:
            titles = ("worker", "tasks", "oldest", "lock", "steps")
            terminal.print_table(titles, map(_worker_row, found.workers))
        if not found.is_all:
            terminal.warn(f"only {count(MOST)} whose locks expire first were looked at")
    if found.expired:
        raise typer.Exit(command.FOUND)


def _worker_row(each: WorkerView) -> list[terminal.Cell]:
    lock = [] if each.expires is None else [f"expires {between(each.expires)}"]
    lock += [f"{each.expired} expired"] if each.expired else []
    steps = (f"{state.model.__name__}.{state.step} {number}" for state, number in each.steps.items())
    return [
        styled(each.worker or "unknown", "bold"),
        f"{each.tasks:,}",
        "?" if each.oldest is None else age(clock.now() - each.oldest),
        styled(", ".join(lock), "red" if each.expired else ""),
        ", ".join(steps),
    ]


def _worker_as_json(each: WorkerView) -> dict[str, Any]:
    names = {f"{state.use_case_id}.{state.step}": number for state, number in each.steps.items()}
    tasks = [{"use_case": state.use_case_id, "step": state.step, "task_id": key} for state, key, _ in each.examples]
    times = {"oldest": each.oldest and stamp(each.oldest), "lock_expires": each.expires and stamp(each.expires)}
    found = {"worker": each.worker, "tasks": each.tasks, "expired": each.expired}
    return {**found, "steps": names, **times, "examples": tasks}


def schedules(*, as_json: opt.Json = False, name: opt.App, use_case_name: opt.UseCase = None) -> None:
    """Show the tasks that repeat: by which rule, how the last round ended and what it created, and what comes next.

    The index does not tell which tasks repeat, so it reads the rows of up to 500 tasks of a use case, at up to a read
    unit each: of those that are pending or failed at the first step, and then of the others.

    Exits with 1 if a last round has not succeeded, or if a task that repeats is ignored.
    """
    with command.use_cases(name, use_case_name) as models:
        looked_at = {model: find_schedules(model) for model in models}
        found = [each for schedules in looked_at.values() for each in schedules.found]
        if as_json:
            terminal.say_json_array(map(_schedule_as_json, found))
        elif not found:
            terminal.say("no task repeats")
        else:
            titles = ("task", "use case", "rule", "last round", "next")
            terminal.print_table(titles, map(_schedule_row, found))
        for model, schedules in looked_at.items():
            if not schedules.is_all:
                terminal.warn(f"only among the first {count(MOST_ROWS)} of {model.__name__}: it has more")
    if any(each.needs_look for each in found):
        raise typer.Exit(command.FOUND)


def _schedule_row(each: Schedule) -> list[terminal.Cell]:
    is_bad = each.last_run is not None and each.last_run.outcome != "succeeded"
    return [
        styled(each.task.task_id, "bold"),
        each.task.use_case_id,
        each.rule,
        styled(each.last or "none yet", "red" if is_bad else ""),
        styled(each.next, "red" if each.task.state.status is Status.IGNORED else ""),
    ]


def _schedule_as_json(each: Schedule) -> dict[str, Any]:
    task = each.task
    about = {"task_id": task.task_id, "use_case": task.use_case_id, "state": name_of(task.state), "rule": each.rule}
    due = {"due_time": each.due_time and stamp(each.due_time), "next": each.next}
    return {**about, "repeat": rule_of(task), "last_run": last_run_as_json(task), **due}


def top(
    *,
    every: Annotated[
        timedelta | None, typer.Option(parser=opt.duration, metavar="TIME", help="How often; 10s by default.")
    ] = None,
    name: opt.App,
    use_case_name: opt.UseCase = None,
) -> None:
    """Show all use cases live: what is pending, how late it is, what fails and why, and whether it keeps up; q quits.

    Each state is counted up to 1,000 tasks, and errors are those of the 400 tasks of each state with the latest due
    time, as on the page. In a pipe, it prints that once.
    """
    pause = (every or _INTERVAL).total_seconds()
    with command.use_cases(name, use_case_name) as models:
        on, histories = terminal.console(), {model: History() for model in models}
        if not on.is_terminal:
            on.print(_all_of(histories), soft_wrap=True)
            return
        _watch(on, partial(_all_of, histories), pause)


def _watch(on: Console, look_again: Any, pause: float) -> None:
    from rich.live import Live  # noqa: PLC0415 - slow to import

    with _keys() as is_quit, Live(console=on, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        while True:
            live.update(look_again(), refresh=True)
            if is_quit(pause):
                return


@contextmanager
def _keys() -> Iterator[Any]:
    """Yield what waits for some seconds, and returns whether q was pressed meanwhile."""

    def only_wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    def is_quit(seconds: float) -> bool:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if select([sys.stdin], [], [], left)[0] and os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b""):
                return True
        return False

    try:
        import termios  # noqa: PLC0415 - not on Windows
        import tty  # noqa: PLC0415 - the same

        before = termios.tcgetattr(sys.stdin)
    except (AttributeError, ImportError, OSError, ValueError):  # stdin is no terminal: only Ctrl-C quits
        yield only_wait
        return
    except Exception as error:
        if type(error).__name__ != "error":  # of termios
            raise
        yield only_wait
        return
    try:
        tty.setcbreak(sys.stdin)
        yield is_quit
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _all_of(histories: Mapping[type[Task], History]) -> RenderableType:
    parts: list[RenderableType] = []
    for model, history in histories.items():
        steps = command.steps_of(model)
        errors = find_errors(steps)
        view = look(steps, errors)
        if (exact := view.exact) is not None:
            history.add(clock.now(), exact)
        parts += [
            _title(model, view, history.change),
            *held_back(view.pauses or (), view.limits),
            _table(view),
            *_newest(errors),
            Text(),
        ]
    return Group(*parts[:-1])


def _title(model: type[Task], view: Overview, change: Change | None) -> Text:
    parts = [] if view.done is None else [f"{view.done} done"]
    if view.flow is not None and view.flow.entries:
        parts.append(f"{view.flow.a_minute:.3g} a minute")
    if change is not None:
        trend = "" if change.empty_in is None else f", empty in about {age(change.empty_in)}"
        parts.append(f"{count(change.left)} left, {change.a_minute:+.3g} a minute{trend}")
    text = ", ".join(parts)
    return Text.assemble((model.__name__, "bold"), f" in {escaped(location(model))}", f": {text}" if text else "")


def _table(view: Overview) -> Table:
    late = [[f"{status} {age(since)}" for status, since in row.late.items()] for row in view.steps]
    longest = max((len(f"{each},") for parts in late for each in parts), default=None)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in _TITLES:
        is_folded = title in ("due for", "locks")  # in a narrow terminal
        is_number = not is_folded and title != "step"
        least = longest if title == "due for" else None
        table.add_column(title, justify="right" if is_number else "left", no_wrap=not is_folded, min_width=least)
    for row, parts in zip(view.steps, late, strict=True):
        cells = [_number(number, terminal.COLOURS[state.status]) for state, number in row.numbers.items()]
        cells[0].append(waiting(row.waiting))
        expired = "" if row.abandoned is None else f"expired {age(row.abandoned)} ago"
        table.add_row(row.step.name, *cells, styled(", ".join(parts)), styled(expired, "red"))
    return table


def _number(number: Number, style: str) -> Text:
    return styled(str(number), style if number.tasks else "dim")


def _newest(errors: Errors) -> Sequence[Text]:
    groups = sorted(errors.groups, key=lambda group: group.newest, reverse=True)[:_ERRORS]
    return [
        Text.assemble(
            (f"  {group.tasks:,} ", "red"),
            f"{name_of(group.state)}, {between(group.newest)}",
            (", new" if group.since else "", "bold red"),
            f": {escaped(group.error)}",
            no_wrap=True,
            overflow="ellipsis",
        )
        for group in groups
    ]
