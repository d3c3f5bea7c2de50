"""Options and arguments that several commands share, and the times, durations and rates that people write in them."""

import getpass
import os
import re
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.arguments import shown
from pynamodb_tracker.cli import completion
from pynamodb_tracker.presentation import times

T = TypeVar("T")

_SECONDS = {"h": 3600, "m": 60, "s": 1}
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?")
_SLOWEST, _FASTEST = 0.001, 1_000_000
"""Limits of a rate, in starts per second."""
_MOST = 1_000_000_000
"""The largest number of tasks that an option takes."""


def length(text: str) -> timedelta:
    """Return a duration of zero or more, such as `30d`, `12h`, `45m`, `2w` or `1h30m`."""
    return _read(times.length, text)


def duration(text: str) -> timedelta:
    """Return a duration above zero."""
    return _read(times.duration, text)


def moment(text: str) -> datetime:
    """Return the time a duration ago, or the time itself; one without a zone is in UTC."""
    return _read(times.moment, text)


def later(text: str) -> datetime:
    """Return the time after a duration, or the time itself; one without a zone is in UTC."""
    return _read(times.later, text)


def end_of_pause(text: str) -> datetime:
    """Return the same, if it is in the future, and NEVER for `resumed`."""
    end = _read(times.end_of_pause, text)
    if end <= clock.now():
        raise typer.BadParameter(f"{text!r} is in the past: write when the pause ends")
    return end


def _read(read: Callable[[str], T], text: str) -> T:
    """Return the value of an option; typer would replace the message of a ValueError."""
    try:
        return read(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def reason(text: str) -> str:
    """Return a reason that says something."""
    if not text.strip():
        raise typer.BadParameter("give a reason, for people who look at it later")
    return text


def rate(text: str) -> float:
    """Return a rate in starts per second."""
    found = _RATE.fullmatch(text)
    if not found:
        raise typer.BadParameter(f"{text!r} is not a rate: write it as 50/s, 10/m or 100/h")
    a_second = float(found[1]) / _SECONDS[found[2] or "s"]
    if not _SLOWEST <= a_second <= _FASTEST:
        raise typer.BadParameter(f"{text!r} is not between 4/h and {_FASTEST}/s")
    return a_second


def number(text: str) -> int:
    """Return a number of tasks."""
    try:
        found = int(text)
    except ValueError:
        raise typer.BadParameter(f"{shown(text)} is not a whole number") from None
    if not 1 <= found <= _MOST:
        raise typer.BadParameter(f"it must be from 1 to {_MOST:,}")
    return found


def usage_of(argument: Any) -> str:
    """Return an argument as a usage line has it: `STEP`, `[STEP]`, `TASK...` or `[TASK...]`."""
    name: str = argument.metavar
    if argument.nargs != 1:
        name = f"{name[:-1]}...]" if name.startswith("[") and name.endswith("]") else f"{name}..."
    return name if argument.required or name.startswith("[") else f"[{name}]"


def person() -> str:
    """Return who runs the command, as `user@host`."""
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container may run as a user without a name
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "somebody"
    return f"{user}@{socket.gethostname()}"


def flag(name: str, text: str) -> Any:
    """Return an option that takes no value."""
    return typer.Option(name, metavar="", help=text)


By = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        default_factory=person,
        show_default=False,
        help="Who decides, you as user@host by default; it is kept with the task's errors, or the pause.",
    ),
]
App = Annotated[
    str,
    typer.Option(
        "--app",
        envvar="PYNAMODB_TRACKER_APP",
        metavar="MODULE:CLASS",
        help="The table's class, or one of its use cases, as Python imports it from the current directory.",
    ),
]
UseCase = Annotated[
    str | None,
    typer.Option(
        "--use-case",
        metavar="NAME",
        autocompletion=completion.use_cases,
        help="The use case, if --app names a table that has several.",
    ),
]
Json = Annotated[bool, flag("--json", "Print JSON instead of text.")]
Since = Annotated[
    datetime | None,
    typer.Option(
        parser=moment,
        metavar="TIME",
        help="Only tasks that entered their state since then: 30d, 12h, 2026-01-31.",
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="TIME", help="Only tasks that entered their state before then."),
]
MOST_LISTED = 50
"""How many tasks are listed if nothing else is asked for."""

Limit = Annotated[
    int | None,
    typer.Option(parser=number, metavar="N", help=f"Show at most this many tasks; {MOST_LISTED} by default."),
]
All = Annotated[bool, flag("--all", "Show all tasks, without a limit.")]
ErrorContains = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only tasks whose last error contains this text.")
]
Rate = Annotated[
    float | None, typer.Option(parser=rate, metavar="N/UNIT", help="Start at most this many tasks: 50/s, 10/m.")
]
Threads = Annotated[int, typer.Option(min=1, max=256, metavar="N", help="How many tasks to work on at the same time.")]
Heartbeat = Annotated[bool, flag("--heartbeat", "Keep extending a task's lock while its function runs.")]
PORT = 8642
"""The port of the page, if no other is named."""

Port = Annotated[int, typer.Option(min=0, max=65_535, metavar="N", help="The port of the page; 0 takes a free one.")]
Step = Annotated[
    str, typer.Argument(metavar="STEP", autocompletion=completion.steps, help="The step, by its name in the class.")
]
StepOrAll = Annotated[
    str | None,
    typer.Argument(metavar="STEP", autocompletion=completion.steps, help="Only this step; all steps by default."),
]
StateOrWaiting = Annotated[
    str | None,
    typer.Argument(
        metavar="STEP.STATUS",
        autocompletion=completion.states,
        help="The state, as in ship.failed; optional with --waiting.",
    ),
]
Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="[STEP] TASK",
        autocompletion=completion.steps,
        help="Task ids, after the step that they must be at, if you like; - reads ids from stdin.",
    ),
]
Tasks = Annotated[list[str], typer.Argument(metavar="TASK", help="Task ids; - reads ids from stdin, one per line.")]
