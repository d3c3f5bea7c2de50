"""`now`, `top`, `workers`, `schedules` and `group` show tasks as the page does, and `web` serves the page."""

import ipaddress
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from select import select
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.text import Text

from pynamodb_tracker import clock
from pynamodb_tracker.cli import command, terminal
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import UseCases
from pynamodb_tracker.cli.page_server import LOCAL, PageServer
from pynamodb_tracker.cli.tasks import held_back
from pynamodb_tracker.cli.terminal import styled
from pynamodb_tracker.control.records import MOST_SCHEDULES
from pynamodb_tracker.model.row import is_beyond_limit
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.as_json import plain
from pynamodb_tracker.presentation.now import Now, find_now
from pynamodb_tracker.presentation.running import MOST, WorkerView, find_running
from pynamodb_tracker.presentation.schedules import Schedule, find_schedules
from pynamodb_tracker.presentation.sentence import Sentence
from pynamodb_tracker.presentation.steps import StepRow
from pynamodb_tracker.presentation.task_facts import last_run_as_json, name_of, rule_of
from pynamodb_tracker.presentation.text import age, between, clock_time, count, escaped, stamp, took_in_words
from pynamodb_tracker.task.task import Task

_STEP_TITLES = ("step", "due now", "waits for", "running", "failed", "gave up", "fails", "took", "trend")
_COLOURS_OF_NEEDS = {"failures": "red", "nobody_runs": "red", "groups": "", "paused": "yellow"}
_SCHEDULE_TITLES = ("task", "use case", "rule", "last round", "next")


@opt.for_use_cases
def now(among: UseCases, *, as_json: opt.Json = False) -> bool:
    """Show what needs you now in all use cases, the worst first, with the commands to run.

    Below are the steps, the schedules, and people's last 20 commands. It reads up to 1,000 tasks per state, or 2,000
    failed ones. If there are more, numbers are minimums.

    Exits with 1 if something needs you or cannot be read.
    """
    found = find_now(among.models)
    if as_json:
        terminal.say_json(plain(found))
    else:
        _print_now(found, among.app, terminal.console())
    return not found.is_quiet


def _print_now(found: Now, app: str, on: Console) -> None:
    def say(text: str | Text = "") -> None:
        terminal.say(text, on)

    say(Text.assemble(("What needs you: ", "bold"), found.summary))
    for each in found.unseen:
        say(Text(f"not seen: {escaped(each)}", "red"))
    for need in found.needs:
        say()
        say(_render(need.title, _COLOURS_OF_NEEDS.get(need.kind, "")))
        say(Text("  ").append(_render(need.detail, "dim")))
        for action in (action for action in need.actions if action.command):
            verb, *words = action.command
            of = [] if "--use-case" in words else ["--use-case", need.model.tracker.use_case.name]
            comment = f"  # {escaped(action.label)}" if action.label and action.link is None else ""
            say(f"  pynamodb-tracker {' '.join(map(terminal.quoted, [verb, '--app', app, *of, *words]))}{comment}")
    say()
    for use_case in found.use_cases:
        for line in held_back((), use_case.required, use_case.limits):
            say(line)
    terminal.print_table(_STEP_TITLES, (_step_row(row) for each in found.use_cases for row in each.steps), on)
    if found.schedules:
        say()
        terminal.print_table(_SCHEDULE_TITLES, map(_schedule_row, found.schedules), on)
    if found.commands:
        say()
    for model, did in found.commands:
        tasks = f"{did.tasks:,} at " if did.tasks > 1 else ""
        reason = f": {did.reason}" if did.reason else ""
        text = f"{did.by} {did.did} {tasks}{model.__name__} {did.about}{reason}"
        say(f"{clock_time(did.time, None)}  {escaped(text)}")


def _render(words: Sentence, style: str) -> Text:
    parts = [(escaped(part.text if part.time is None else clock_time(part.time, None)), part.kind) for part in words]
    return Text.assemble(*((text, "bold" if kind == "strong" else "") for text, kind in parts), style=style)


def _step_row(row: StepRow) -> list[terminal.Cell]:
    passing = row.passing
    late = "" if row.oldest is None else f" (for {age(row.oldest)})"
    waits = ", ".join(f"{number.at_least} {kind}" for kind, number in row.waits.items())
    expired = f" ({row.expired} expired)" if row.expired else ""
    rate = "" if row.failure_rate is None else f"{row.failure_rate:.0%}"
    took = ""
    if passing is not None and passing.median is not None and passing.percentile_95 is not None:
        took = f"{took_in_words(passing.median)}, 95%: {took_in_words(passing.percentile_95)}"
    growth = "" if row.growth is None else f"{row.growth:+.0f}/h" + (": grows" if row.is_growing else "")
    return [
        styled(f"{row.step.model.__name__}.{row.step.name}" + (" (paused)" if row.pause else ""), "bold"),
        styled(f"{row.due.at_least}{late}", "" if row.due.tasks else "dim"),
        waits,
        styled(f"{row.running.at_least}{expired}", "red" if expired else ""),
        styled(row.failed.at_least, "red" if row.failed.tasks else "dim"),
        styled(row.gave_up.at_least, "magenta" if row.gave_up.tasks else "dim"),
        rate,
        took,
        styled(growth, "red" if row.is_growing else ""),
    ]


@opt.for_use_cases
def workers(
    among: UseCases,
    worker: Annotated[
        str | None, opt.argument("[WORKER]", "Only workers with names that start with this, such as a host.")
    ] = None,
    *,
    as_json: opt.Json = False,
) -> bool:
    """Show which workers run tasks now in all use cases: how many, since when, and whether locks have expired.

    It reads the 1,000 tasks in progress with the earliest lock expiry, at one read unit each. Idle workers are not
    listed.

    Exits with 1 if a lock has expired.
    """
    found = find_running(among.models, worker)
    if as_json:
        terminal.say_json_array(map(_worker_as_json, found.workers))
    elif not found.workers:
        terminal.say(f"no task is in progress{f' at {escaped(worker)}' if worker else ''}")
    else:
        terminal.print_table(("worker", "tasks", "oldest", "lock", "steps"), map(_worker_row, found.workers))
    if not found.is_all:
        terminal.warn(f"only the {count(MOST)} with the earliest lock expiry were read")
    return bool(found.expired)


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


@opt.for_use_cases
def schedules(among: UseCases, *, as_json: opt.Json = False) -> bool:
    """Show the repeating tasks: the rule, how the last round ended and how many tasks it created, and the next run.

    It reads up to 200 schedules per use case.

    Exits with 1 if a last round did not succeed, or a repeating task is overdue or ignored.
    """
    by_model = {model: find_schedules(model) for model in among.models}
    found = [each for schedules, _ in by_model.values() for each in schedules]
    if as_json:
        terminal.say_json_array(map(_schedule_as_json, found))
    elif not found:
        terminal.say("no task repeats")
    else:
        terminal.print_table(_SCHEDULE_TITLES, map(_schedule_row, found))
    for model, (_, is_all) in by_model.items():
        if not is_all:
            terminal.warn(f"{model.__name__}: only {MOST_SCHEDULES} schedules are listed")
    return any(each.needs_look or each.overdue for each in found)


def _schedule_row(each: Schedule) -> list[terminal.Cell]:
    is_bad = each.last_run is not None and each.last_run.outcome != "succeeded"
    return [
        styled(each.task.task_id, "bold"),
        each.task.use_case_id,
        each.rule,
        styled(each.last or "none yet", "red" if is_bad else ""),
        styled(each.next_in_words, "red" if each.overdue or each.task.state.status is Status.IGNORED else ""),
    ]


def _schedule_as_json(each: Schedule) -> dict[str, Any]:
    task = each.task
    about = {"task_id": task.task_id, "use_case": task.use_case_id, "state": name_of(task.state), "rule": each.rule}
    due = {"due_time": each.due_time and stamp(each.due_time), "next": each.next}
    return {**about, "repeat": rule_of(task), "last_run": last_run_as_json(task), **due}


@opt.for_use_case
def group(
    model: type[Task],
    group_name: Annotated[str, opt.argument("GROUP", "The group's name.")],
    *,
    repair: Annotated[bool, opt.flag("--repair", "Pass on the turn if its task has ended or was deleted.")] = False,
    as_json: opt.Json = False,
) -> bool:
    """Show which task of a group has the turn, the data that its tasks share, and which tasks wait, in order.

    A group needs a repair only if its task with the turn was deleted or changed without this library.

    Exits with 1 if the group needs a repair.
    """
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
            terminal.warn("the task with the turn has ended, was deleted or is parked too long: add --repair")
    return is_stuck


@opt.for_use_cases
def top(
    among: UseCases,
    *,
    every: Annotated[
        timedelta | None, opt.value("TIME", "How often to read the table. Default: 10s.", opt.duration)
    ] = None,
) -> None:
    """Show the picture of "now" live. The arrow keys scroll and q quits. In a pipe, it prints the picture once."""
    on, paper = terminal.console(), terminal.console()
    if not on.is_terminal:
        _print_now(find_now(among.models), among.app, on)
        return
    from rich.live import Live  # noqa: PLC0415 - slow to import

    first, seconds = 0, (every or timedelta(seconds=10)).total_seconds()
    with _keys() as pressed, Live(console=on, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        while True:
            with paper.capture() as capture:
                _print_now(find_now(among.models), among.app, paper)
            lines, ends = Text.from_ansi(capture.get().rstrip()).wrap(on, on.width), time.monotonic() + seconds
            while (left := ends - time.monotonic()) > 0:
                live.update(_cut(list(lines), first, on.height - 1), refresh=True)
                if (key := pressed(left)) in _QUIT:
                    return
                first = min(max(first + _STEPS.get(key or b"?", 0), 0), len(lines) - 1)


def _cut(lines: Sequence[Text], first: int, room: int) -> Group:
    below = len(lines) - first - room
    hidden = [f"{count(number, 'more line')}: {key}" for number, key in ((first, "↑"), (below, "↓")) if number > 0]
    return Group(*([Text(", ".join(hidden), "reverse")] if hidden else []), *lines[first : first + room])


_QUIT = (b"q", b"Q", b"")
_STEPS = {b"\x1b[A": -1, b"\x1b[B": 1, b"k": -1, b"j": 1, b"\x1b[5~": -10, b"\x1b[6~": 10}


@contextmanager
def _keys() -> Iterator[Callable[[float], bytes | None]]:
    """Yield a function that waits this many seconds for a key, and returns it."""

    def pressed(seconds: float) -> bytes | None:
        return os.read(sys.stdin.fileno(), 8) if select([sys.stdin], [], [], seconds)[0] else None

    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty() or os.name == "nt":  # only Ctrl-C quits
        yield time.sleep
        return
    import termios  # noqa: PLC0415 - not on Windows
    import tty  # noqa: PLC0415 - the same

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _with_web(command: Callable[..., None]) -> Callable[..., None]:
    """Report a missing extra before the command imports the app."""

    @wraps(command)
    def run(**given: Any) -> None:
        import pynamodb_tracker.web  # noqa: PLC0415, F401 - an extra

        command(**given)

    return run


@_with_web
@opt.for_use_cases
def web(
    among: UseCases,
    *,
    port: opt.Port = opt.PORT,
    actions: Annotated[bool, opt.flag("--actions", "Let people change tasks and pause steps.")] = False,
    hide: Annotated[
        list[str] | None, opt.value("NAME", "Hide the values of this attribute or key of data. Repeatable.")
    ] = None,
    host: Annotated[str, opt.value("ADDRESS", "The address to listen on. Others need --host-name.")] = LOCAL[0],
    host_name: Annotated[
        list[str] | None, opt.value("NAME", "A name under which browsers reach the page. Repeatable.")
    ] = None,
) -> None:
    """Serve a web page about the tasks.

    Anyone with the printed address can see the page, but only --actions lets people change anything. Changes are logged
    on stderr, one line of JSON per task.

    Only this machine can reach the page. To give other people access, mount it in an app with encryption and a login,
    as the documentation shows.

    Exits with 0 after Ctrl-C or SIGTERM, with 2 if it cannot run.
    """
    if not (host_name or _is_loopback(host)):
        raise typer.BadParameter("name the page for browsers, too: --host-name ops.internal", param_hint="--host")
    server = PageServer(host, port, host_name or ())
    can = "people can change tasks, send signals and pause steps" if actions else "read-only"
    terminal.say(f"{server.address}\n{can} (Ctrl-C quits)")
    terminal.flush()
    server.serve(among.models, actions=actions, hide=hide or ())


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
