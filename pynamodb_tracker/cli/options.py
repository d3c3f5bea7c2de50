"""Options and arguments that several commands share, with the parsers of their values."""

import getpass
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr
from datetime import datetime
from functools import wraps
from inspect import Parameter, signature
from io import StringIO
from typing import Annotated, Any, TypeVar

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli.command import FOUND, CannotRunError, UseCases, check_window, known_use_cases, use_cases
from pynamodb_tracker.cli.terminal import warn
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import exact_json, times
from pynamodb_tracker.presentation.task_facts import steps_of
from pynamodb_tracker.step.signal import signals_in
from pynamodb_tracker.task.task import Task

T = TypeVar("T")

_SECONDS = {"h": 3600, "m": 60, "s": 1}
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?")
_SLOWEST, _FASTEST = 0.001, 1_000_000
_MOST = 1_000_000_000


def _parser(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a parser that keeps a ValueError's message, which typer would replace."""

    @wraps(read)
    def parse(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


length, duration = _parser(times.length), _parser(times.duration)
signal_value = _parser(lambda text: (exact_json.read(text),))


def _local_parser(read: Callable[[str, None], datetime]) -> Callable[[str], datetime]:
    """Return a parser of a time in this machine's zone. It prints what the time means if that depends on the zone."""

    @_parser
    def parse(text: str) -> datetime:
        found = read(text, None)
        if times.is_local(text):
            warn(f"{text} is {clock.in_words(found)}")
        return found

    return parse


moment, later, _end_of_pause = map(_local_parser, (times.moment, times.later, times.end_of_pause))


@_parser
def end_of_pause(text: str) -> datetime:
    """Parse a future time like `later`, or `resumed` as NEVER."""
    end = _end_of_pause(text)
    if end <= clock.now():
        raise ValueError(f"{text!r} is in the past: write when the pause ends")
    return end


def reason(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("write a reason for people who look at it later")
    return text


def rate(text: str) -> float:
    found = _RATE.fullmatch(text)
    if not found:
        raise typer.BadParameter(f"{text!r} is not a rate: write it as 50/s, 10/m or 100/h")
    a_second = float(found[1]) / _SECONDS[found[2] or "s"]
    if not _SLOWEST <= a_second <= _FASTEST:
        raise typer.BadParameter(f"{text!r} is not between 4/h and {_FASTEST}/s")
    return a_second


def number(text: str) -> int:
    try:
        found = int(text)
    except ValueError:
        raise typer.BadParameter(f"{shown(text)} is not a whole number") from None
    if not 1 <= found <= _MOST:
        raise typer.BadParameter(f"it must be from 1 to {_MOST:,}")
    return found


def usage_of(argument: Any) -> str:
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
    return typer.Option(name, metavar="", help=text)


def value(metavar: str, text: str, parser: Callable[[str], Any] | None = None, **more: Any) -> Any:
    return typer.Option(parser=parser, metavar=metavar, help=text, **more)


def argument(metavar: str, text: str, complete: Callable[..., list[str]] | None = None) -> Any:
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete)


# Completions for a shell, from the class that `--app` names.


def _completion(names_in: Callable[[type[Task]], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        names = dict.fromkeys(name for model in _find_selected(ctx) for name in names_in(model))
        return [name for name in names if name.startswith(incomplete)]

    return complete


complete_use_cases = _completion(lambda model: [model.tracker.use_case.name])
complete_steps = _completion(lambda model: [step.name for step in steps_of(model)])
complete_states = _completion(lambda model: [f"{step.name}.{each}" for step in steps_of(model) for each in Status])
complete_signals = _completion(lambda model: [each.stored_name for each in signals_in(model)])


def _find_selected(ctx: typer.Context) -> Iterator[type[Task]]:
    """Yield the selected use cases, or none if the class cannot be imported."""
    given: dict[str, Any] = ctx.params
    app = given.get("name") or os.environ.get("PYNAMODB_TRACKER_APP")
    if not app:
        return
    try:
        with redirect_stderr(StringIO()):  # a shell would print it into the line
            yield from known_use_cases(app, given.get("use_case_name"))
    except CannotRunError:
        return


# Options and arguments.

By = Annotated[
    str,
    value(
        "NAME",
        "Your name, which is stored with the task's errors or the pause. Default: user@host.",
        default_factory=person,
        show_default=False,
    ),
]
App = Annotated[
    str,
    typer.Option(
        "--app",
        envvar="PYNAMODB_TRACKER_APP",
        metavar="MODULE:CLASS",
        help="The class of the table or a use case, imported from the current directory.",
    ),
]
UseCaseName = Annotated[
    str | None,
    typer.Option(
        "--use-case", metavar="NAME", autocompletion=complete_use_cases, help="The use case, if the table has several."
    ),
]
Json = Annotated[bool, flag("--json", "Print JSON instead of text.")]
Since = Annotated[
    datetime | None, value("TIME", "Only tasks that entered their state since then: 30d, 12h, 2026-01-31.", moment)
]
Until = Annotated[datetime | None, value("TIME", "Only tasks that entered their state before then.", moment)]
MOST_LISTED = 50

Limit = Annotated[int | None, value("N", f"Show at most this many tasks. Default: {MOST_LISTED}.", number)]
All = Annotated[bool, flag("--all", "Show all tasks, without a limit.")]
ErrorContains = Annotated[str | None, value("TEXT", "Only tasks with this text in their last error.")]
Rate = Annotated[float | None, value("N/UNIT", "Start at most this many tasks: 50/s, 10/m.", rate)]
Threads = Annotated[int, value("N", "How many tasks to run at the same time.", min=1, max=256)]
Heartbeat = Annotated[bool, flag("--heartbeat", "Extend a task's lock while its function runs.")]
PORT = 8642

Port = Annotated[int, value("N", "The page's port. 0 takes a free one.", min=0, max=65_535)]
Step = Annotated[str, argument("STEP", "The step's name in the class.", complete_steps)]
StepOrAll = Annotated[str | None, argument("STEP", "Only this step. Default: all steps.", complete_steps)]
StateOrWaiting = Annotated[
    str | None,
    argument("STEP.STATUS", "The state, as in ship.failed, or cancelled. Optional with --waiting.", complete_states),
]
Targets = Annotated[
    list[str],
    argument(
        "[STEP] TASK",
        "Task ids, or a step and the task ids that must be at it. Use - to read ids from stdin.",
        complete_steps,
    ),
]
TaskId = Annotated[str, argument("TASK", "The task id.")]
Tasks = Annotated[list[str], argument("TASK", "Task ids. Use - to read ids from stdin, one per line.")]


# Commands about use cases.


def for_use_cases(command: Callable[..., bool | None]) -> Callable[..., None]:
    """Add `--app` and `--use-case` to a command, and call it with the use cases that they select.

    Exit on an error, and with 1 if the command returns True.
    """

    @wraps(command)
    def run(*, name: str, use_case_name: str | None, **given: Any) -> None:
        with use_cases(name, use_case_name) as selected:
            check_window(given.get("since"), given.get("until"))
            is_found = command(selected, **given)
        if is_found:
            raise typer.Exit(FOUND)

    declared = signature(command, eval_str=True)
    added = [
        Parameter("name", Parameter.KEYWORD_ONLY, annotation=App),
        Parameter("use_case_name", Parameter.KEYWORD_ONLY, annotation=UseCaseName, default=None),
    ]
    parameters = [*list(declared.parameters.values())[1:], *added]
    vars(run)["__signature__"] = declared.replace(parameters=parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def for_use_case(command: Callable[..., bool | None]) -> Callable[..., None]:
    """Do the same for a command about a single use case."""

    @wraps(command)
    def run(selected: UseCases, **given: Any) -> bool | None:
        return command(selected.only, **given)

    return for_use_cases(run)
