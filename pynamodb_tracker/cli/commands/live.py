"""`now`, `top`, `workers`, `schedules` and `group`: what is due, fails, runs, repeats and waits, as on the page."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
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
from pynamodb_tracker.control.records import MOST_SCHEDULES
from pynamodb_tracker.model.row import is_beyond_limit
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.as_json import plain
from pynamodb_tracker.presentation.history import Change, History
from pynamodb_tracker.presentation.now import Now, StepRow, find_now
from pynamodb_tracker.presentation.overview import Overview, look
from pynamodb_tracker.presentation.running import MOST, WorkerView, find_running
from pynamodb_tracker.presentation.schedules import Schedule, find_schedules
from pynamodb_tracker.presentation.sentence import Sentence
from pynamodb_tracker.presentation.task_facts import last_run_as_json, location, name_of, rule_of
from pynamodb_tracker.presentation.text import age, between, count, escaped, stamp, took_in_words
from pynamodb_tracker.presentation.why_failed import Errors, find_errors
from pynamodb_tracker.status import Status
from pynamodb_tracker.task.task import Task

_ERRORS = 5
_STEP_TITLES = ("step", "due now", "waits for", "running", "failed", "gave up", "fails", "took", "trend")
_COLOURS_OF_NEEDS = {"failures": "red", "nobody_runs": "red", "groups": "", "paused": "yellow"}
_TITLES = ("step", "pending", "running", "failed", "gave up", "due for")


def now(*, as_json: opt.Json = False, name: opt.App, use_case_name: opt.UseCase = None) -> None:
    """Show what needs you now in all use cases, the worst first, with the commands to run, as the page does.

    Below it are the steps, the schedules, and the last 20 commands of people. It reads up to 1,000 tasks per state, or
    2,000 failed ones. Beyond that, numbers are at least that.

    Exits with 1 if something needs you, or cannot be read.
    """
    with command.use_cases(name, use_case_name) as models:
        found = find_now(models)
        if as_json:
            terminal.say_json(plain(found))
        else:
            on, options = terminal.console(), ["--app", name]
            for line in _now_lines(found, options):
                terminal.say(line, on)
            terminal.say("")
            terminal.print_table(_STEP_TITLES, map(_step_row, (row for of in found.use_cases for row in of.steps)))
            if found.schedules:
                terminal.say("")
                terminal.print_table(
                    ("schedule", "use case", "rule", "last round", "next"), map(_schedule_row, found.schedules)
                )
            if found.commands:
                terminal.say("")
            for model, each in found.commands:
                tasks = f"{each.tasks:,} at " if each.tasks > 1 else ""
                reason = f": {each.reason}" if each.reason else ""
                text = f"{each.by} {each.did} {tasks}{model.__name__} {each.about}{reason}"
                terminal.say(f"{_local(each.time)}  {escaped(text)}", on)
    if not found.is_quiet:
        raise typer.Exit(command.FOUND)


def _now_lines(found: Now, options: Sequence[str]) -> Iterator[Text]:
    yield Text.assemble(("What needs you: ", "bold"), found.summary)
    for each in found.unseen:
        yield Text(f"not seen: {escaped(each)}", "red")
    for need in found.needs:
        yield Text()
        yield _said(need.title, _COLOURS_OF_NEEDS.get(need.kind, ""))
        yield Text("  ").append(_said(need.detail, "dim"))
        for action in need.actions:
            verb, *words = map(terminal.quoted, action.command)
            of = ["--use-case", need.model.tracker.use_case.name] if "--use-case" not in words else []
            yield Text(f"  pynamodb-tracker {' '.join([verb, *map(terminal.quoted, [*options, *of]), *words])}")


def _said(words: Sentence, style: str) -> Text:
    parts = [(escaped(part.text if part.time is None else _local(part.time)), part.kind) for part in words]
    return Text.assemble(*((text, "bold" if kind == "strong" else "") for text, kind in parts), style=style)


def _local(time: datetime) -> str:
    """Return a time in the zone of this machine, with the date unless it is today's."""
    here = time.astimezone()
    return f"{here:%H:%M}" if clock.now().astimezone().date() == here.date() else f"{here:%Y-%m-%d %H:%M}"


def _step_row(row: StepRow) -> list[terminal.Cell]:
    passing = row.passing
    late = "" if row.oldest is None else f" (for {age(row.oldest)})"
    waits = ", ".join(f"{number.at_least} {kind}" for kind, number in row.waits.items())
    rate = "" if row.failure_rate is None else f"{row.failure_rate:.0%}"
    took = ""
    if passing is not None and passing.median is not None and passing.percentile_95 is not None:
        took = f"{took_in_words(passing.median)}, 95%: {took_in_words(passing.percentile_95)}"
    growth = "" if row.growth is None else f"{row.growth:+.0f}/h" + (": grows" if row.is_growing else "")
    return [
        styled(f"{row.step.model.__name__}.{row.step.name}" + (" (paused)" if row.pause else ""), "bold"),
        styled(f"{row.due.at_least}{late}", "" if row.due.tasks else "dim"),
        waits,
        styled(
            row.running.at_least + (f" ({row.expired} expired)" if row.expired else ""), "red" if row.expired else ""
        ),
        styled(row.failed.at_least, "red" if row.failed.tasks else "dim"),
        styled(row.gave_up.at_least, "magenta" if row.gave_up.tasks else "dim"),
        rate,
        took,
        styled(growth, "red" if row.is_growing else ""),
    ]


def workers(
    worker: Annotated[
        str | None, opt.argument("[WORKER]", "Only workers with names that begin like this, such as a host.")
    ] = None,
    *,
    as_json: opt.Json = False,
    name: opt.App,
    use_case_name: opt.UseCase = None,
) -> None:
    """Show which workers run tasks now, in all use cases: how many, since when, and whether locks have expired.

    It reads the rows of up to 1,000 tasks in progress, in the order in which their locks expire, at one read unit each.
    Idle workers are not listed.

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
    """Show the tasks that repeat: the rule, how the last round ended and what it created, and what comes next.

    It reads the list of a use case's schedules, and their rows, up to 200.

    Exits with 1 if a last round did not succeed, or if a task that repeats is ignored.
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
                terminal.warn(f"{model.__name__}: only {MOST_SCHEDULES} schedules are listed, there may be more")
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


def group(
    group_name: Annotated[str, opt.argument("GROUP", "The name of the group.")],
    *,
    repair: Annotated[
        bool, opt.flag("--repair", "Hand on the turn if the task that has it has ended, or is gone.")
    ] = False,
    name: opt.App,
    use_case_name: opt.UseCase = None,
    as_json: opt.Json = False,
) -> None:
    """Show which task of a group has the turn, what its tasks share, and which wait for their turn, in order.

    A group needs a repair only if its task with the turn was deleted or changed without this library.

    Exits with 1 if the group needs a repair.
    """
    with command.use_case(name, use_case_name) as model:
        with command.refusing(ValueError):
            of: Any = model.group(group_name)
        if repair:
            of.repair()
        turn, waiting = of.turn, of.waiting()
        has_it = None if turn is None else next(iter(model.get_many([turn])), None)
        is_over = has_it is None or has_it.tracker.ends_at(has_it.state.code)
        is_stuck = bool(waiting) if turn is None else is_over or (has_it is not None and is_beyond_limit(has_it))
        state = "idle" if turn is None else "gone" if has_it is None else name_of(has_it.state)
        if as_json:
            found = {"group": group_name, "turn": turn, "state": state, "data": of.data, "waiting": waiting}
            terminal.say_json(found | {"needs_repair": is_stuck})
        else:
            who = "nobody has the turn" if turn is None else f"{escaped(turn)} has the turn, {state}"
            terminal.say(f"{escaped(group_name)} of {model.__name__}: {who}")
            if data := of.data:
                terminal.say(f"  data   {escaped(exact_json.dumps(data, ensure_ascii=False))}")
            for task_id in waiting:
                terminal.say(f"  waits  {escaped(task_id)}")
            if is_stuck:
                terminal.warn("the task with the turn has ended, is gone or is parked beyond its limit: add --repair")
    if is_stuck:
        raise typer.Exit(command.FOUND)


def top(
    *,
    every: Annotated[timedelta | None, opt.value("TIME", "How often; 10s by default.", opt.duration)] = None,
    name: opt.App,
    use_case_name: opt.UseCase = None,
) -> None:
    """Show all use cases live: what is pending or late, what fails and why, and whether workers keep up; q quits.

    The worst use case and the largest errors come first. If there is no room, the arrow keys show the rest. As on the
    page, each state is counted up to 1,000 tasks, and errors come from the 400 tasks per state with the latest due
    times. In a pipe, it prints them once.
    """
    with command.use_cases(name, use_case_name) as models:
        on, histories = terminal.console(), {model: History() for model in models}
        if not on.is_terminal:
            on.print(Group(*_all_of(histories)), soft_wrap=True)
            return
        from rich.live import Live  # noqa: PLC0415 - slow to import

        first, seconds = 0, (every or timedelta(seconds=10)).total_seconds()
        with _keys() as pressed, Live(console=on, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
            while True:
                parts, ends = _all_of(histories), time.monotonic() + seconds
                while (left := ends - time.monotonic()) > 0:
                    live.update(_fitting(parts, first, on), refresh=True)
                    if (key := pressed(left)) in _QUIT:
                        return
                    first = min(max(first + _STEPS.get(key or b"?", 0), 0), len(parts) - 1)


def _fitting(parts: Sequence[Group], first: int, on: Console) -> Group:
    """Return the parts from the first one on that a screen has room for, and how many there are above and below."""
    room, shown = on.height - 1, list[Group]()
    for part in parts[first:]:
        room -= len(on.render_lines(part, pad=False))
        if shown and room < 0:
            break
        shown.append(part)
    below = len(parts) - first - len(shown)
    rest = [
        f"{number} more use case{'' if number == 1 else 's'}: {key}"
        for number, key in ((first, "↑"), (below, "↓"))
        if number
    ]
    return Group(*([Text(", ".join(rest), "reverse")] if rest else []), *shown)


_QUIT = (b"q", b"Q", b"")
_STEPS = {b"\x1b[A": -1, b"\x1b[B": 1, b"k": -1, b"j": 1}
"""Use cases to go back or forward, by key."""


@contextmanager
def _keys() -> Iterator[Callable[[float], bytes | None]]:
    """Yield a function that waits for some seconds, or until a key is pressed, which it returns."""

    def only_wait(seconds: float) -> None:
        time.sleep(seconds)

    def pressed(seconds: float) -> bytes | None:
        return os.read(sys.stdin.fileno(), 8) if select([sys.stdin], [], [], seconds)[0] else None

    try:
        import termios  # noqa: PLC0415 - not on Windows
        import tty  # noqa: PLC0415 - the same

        before = termios.tcgetattr(sys.stdin)
    except Exception as error:  # stdin is not a terminal: only Ctrl-C quits
        expected = isinstance(error, AttributeError | ImportError | OSError | ValueError)
        if not (expected or type(error).__name__ == "error"):  # termios.error
            raise
        yield only_wait
        return
    try:
        tty.setcbreak(sys.stdin)
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _all_of(histories: Mapping[type[Task], History]) -> list[Group]:
    """Return a part for each use case, the worst first."""
    parts: list[tuple[tuple[bool, int, timedelta], Group]] = []
    for model, history in histories.items():
        steps = command.steps_of(model)
        errors = find_errors(steps)
        view = look(steps, errors)
        now = clock.now()
        if (exact := view.exact) is not None:
            history.add(now, exact)
        change = history.change(now, None if view.flow is None else view.flow.a_minute)
        head = (_title(model, view, change), *held_back(view.pauses or (), view.required, view.limits))
        of_model: list[RenderableType] = [*head, _table(view), *_largest(errors), Text()]
        parts.append((_badness(view), Group(*of_model)))
    return [part for _, part in sorted(parts, key=lambda each: each[0], reverse=True)]


def _badness(view: Overview) -> tuple[bool, int, timedelta]:
    """Return how much a use case needs a person: expired locks, then failures, then what is late."""
    bad = view.total(Status.FAILED).tasks + view.total(Status.IGNORED).tasks
    return view.abandoned is not None, bad, max(view.late.values(), default=timedelta(0))


def _title(model: type[Task], view: Overview, change: Change | None) -> Text:
    parts = [] if view.done is None else [f"{view.done} done"]
    if view.flow is not None and view.flow.entries:
        parts.append(f"{view.flow.a_minute:.3g} a minute in the last {age(view.flow.lately)}")
    if change is not None:
        parts += filter(None, (change.words, change.verdict))
    text = ", ".join(parts)
    return Text.assemble((model.__name__, "bold"), f" in {escaped(location(model))}", f": {text}" if text else "")


def _table(view: Overview) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in _TITLES:
        is_folded = title == "due for"  # in a narrow terminal
        is_number = not is_folded and title != "step"
        table.add_column(title, justify="right" if is_number else "left", no_wrap=not is_folded)
    for row in view.steps:
        late = Text(", ").join(Text(f"{status} {age(since)}") for status, since in row.late.items())
        cells = [
            styled(str(number), terminal.COLOURS[state.status] if number.tasks else "dim")
            for state, number in row.numbers.items()
        ]
        cells[0].append(waiting(row.waiting))
        if row.expired:
            late = Text.assemble(late, ", " if late else "", (row.expired, "red"))
        table.add_row(row.step.name, *cells, late)
    return table


def _largest(errors: Errors) -> Sequence[Text]:
    more = len(errors.groups) - _ERRORS
    return [
        Text.assemble(
            (f"  {group.tasks:,} ", "red"),
            "" if group.of is None else f"of the {group.of:,} that were read ",
            f"{name_of(group.state)}, {between(group.newest)}",
            (", new" if group.since else "", "bold red"),
            f": {escaped(group.error)}",
            no_wrap=True,
            overflow="ellipsis",
        )
        for group in errors.groups[:_ERRORS]
    ] + ([Text(f"  {more:,} more: errors lists them", "dim")] if more > 0 else [])
