"""`worker`: keeps running functions on what steps have to do, until it is told to stop."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.cli.exits import INTERRUPTED, CannotRunError, where
from pynamodb_tracker.cli.importer import load, load_function
from pynamodb_tracker.cli.lookup import step_among, use_cases
from pynamodb_tracker.cli.options import (
    AppOption,
    HeartbeatOption,
    JsonOption,
    RateOption,
    ThreadsOption,
    UseCaseOption,
)
from pynamodb_tracker.cli.terminal.echo import say, say_json, warn
from pynamodb_tracker.cli.terminal.output import last_words, log_lines, log_to_stderr, own_stdout
from pynamodb_tracker.cli.terminal.stdio import Stream
from pynamodb_tracker.cli.times import age, duration, length
from pynamodb_tracker.dynamodb.error_codes import is_passing
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.worker import Tally, Worker
from pynamodb_tracker.worker.shutdown import AT_ONCE

__all__ = ["worker"]

Tallies = Mapping[BoundStep[Any], Tally]

_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)


@dataclass(frozen=True, slots=True)
class _Named:
    """A function that other processes find by its name, as this one did: they import all, and log as this one does."""

    function: Callable[[Any], object]
    name: str
    app: str
    among: tuple[str, ...]

    def __call__(self, ctx: object) -> object:
        return self.function(ctx)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _in_a_process, (self.name, self.app, self.among)


def worker(
    assigned: Annotated[
        list[str],
        typer.Argument(
            metavar="STEP=MODULE:FUNCTION",
            help="A step, and what does it; USE_CASE.STEP where several use cases have such a step.",
        ),
    ],
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    threads: ThreadsOption = 4,
    processes: Annotated[
        int, typer.Option(min=1, max=256, metavar="N", help="Work in that many processes, each with so many threads.")
    ] = 1,
    heartbeat: HeartbeatOption = False,
    rate: RateOption = None,
    grace: Annotated[
        timedelta | None,
        typer.Option(
            parser=length, metavar="TIME", show_default="30s", help="How long what runs may go on at the end."
        ),
    ] = None,
    longest_pause: Annotated[
        timedelta | None,
        typer.Option(parser=duration, metavar="TIME", show_default="30s", help="Look for new tasks at least as often."),
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", metavar="", help="End when there is nothing to do now.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Keep running functions on what steps have to do: on tasks as they become due, and on abandoned ones.

    SIGTERM or Ctrl-C ends it: it starts nothing more, gives what runs the grace time to end, and gives back what then
    still runs. A second Ctrl-C does not wait. kill -USR1 makes it print what it is doing.

    Exits with 0 when it was told to stop, or is idle, whatever became of the tasks; with 2 if it cannot run; with 130
    after a second Ctrl-C.
    """
    times = {"grace": grace, "longest_pause": longest_pause}
    options: dict[str, Any] = {"threads": threads, "processes": processes, "heartbeat": heartbeat, "rate": rate}
    options |= {key: value for key, value in times.items() if value is not None}
    with use_cases(name, use_case_name) as models:
        functions = _functions(models, name, assigned)
        try:
            built = Worker(functions, **options)
        except ValueError as error:
            raise CannotRunError(str(error)) from None
        _look_first(functions)
        warn(
            f"{', '.join(map(_shown, functions))} on {where(models[0])}: Ctrl-C or SIGTERM stops the worker in order, "
            "a second Ctrl-C at once"
        )
        began = time.monotonic()
        tallies = _run(built, processes, until_idle=until_idle)
        with last_words():
            _print(tallies, time.monotonic() - began, as_json=as_json)


def _functions(models: Sequence[type[Task]], app: str, assigned: Sequence[str]) -> dict[BoundStep[Any], _Named]:
    """Return the function of each step, as the arguments say."""
    names: dict[BoundStep[Any], str] = {}
    for text in assigned:
        step_name, _, function = text.rpartition("=")
        if not (step_name and function):
            written = f"STEP={function}" if ":" in function else f"{step_name or function}=MODULE:FUNCTION"
            raise CannotRunError(f"{text!r} is no step with its function: write {written}")
        step = step_among(models, step_name)
        if step in names:
            raise CannotRunError(
                f"{_shown(step)} is there twice, {names[step]} and {function}: a step has one function"
            )
        names[step] = function
    among = tuple(names.values())
    return {step: _Named(load_function(function), function, app, among) for step, function in names.items()}


def _look_first(functions: Mapping[BoundStep[Any], object]) -> None:
    """Raise what would keep the worker from its work, before anything is said to begin."""
    try:
        next(iter(functions)).next_due()
    except PynamoDBException as error:
        if not is_passing(error):
            raise


def _run(built: Worker, processes: int, *, until_idle: bool) -> Tallies:
    """Let the worker work to its end."""
    try:
        with own_stdout(built.stop), log_lines(), _hanging_up(built.stop):
            return built.run(until_idle=until_idle)
    except KeyboardInterrupt as order:
        if order.args == (AT_ONCE,):
            _leave()
        raise
    except SystemExit as error:
        warn(f"a function called sys.exit({error}): the worker has ended in order")
        raise
    except RuntimeError as error:
        if processes == 1:
            raise
        raise CannotRunError(str(error)) from error  # a process that could not begin; it printed why


def _leave() -> NoReturn:
    """End at once: an exit as usual waits for threads that functions have started."""
    warn("left at once: what was running stays in progress until its lock ends, and is then taken over")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _print(tallies: Tallies, took: float, *, as_json: bool) -> None:
    """Print what became of the tasks of each step."""
    if as_json:
        steps = [
            {"use_case": step.model.tracker.use_case.name, "step": step.name, **asdict(tally)}
            for step, tally in tallies.items()
        ]
        say_json({"steps": steps, "seconds": round(took, 1)})
        return
    for step, tally in tallies.items():
        told = ", ".join(f"{number:,} {outcome}" for outcome, number in asdict(tally).items() if number)
        say(f"{_shown(step)}: {told or 'nothing to do'} in {age(timedelta(seconds=took))}")


def _shown(step: BoundStep[Any]) -> str:
    return f"{step.model.__name__}.{step.name}"


def _in_a_process(name: str, app: str, among: Sequence[str]) -> Callable[..., Any]:
    """Return a function in a process of the worker, once all modules have had their chance to configure logging."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # else a pipe has what functions print much later, or never
    _keep_streams()
    load(app)
    functions = {each: load_function(each) for each in among}
    log_to_stderr()
    if _HANGUP is not None:
        signal.signal(_HANGUP, signal.SIG_IGN)  # the first process hears of it, and says what to do
    return functions[name]


def _keep_streams() -> None:
    """Fail no task of this process because nobody reads what is printed; the first process hears of it, and stops."""
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is not None:
            setattr(sys, name, Stream(stream, bool))


@contextmanager
def _hanging_up(stop: Callable[[], None]) -> Iterator[None]:
    """Let a closed terminal stop it in order; not where that is ignored, as by nohup."""
    if _HANGUP is None or signal.getsignal(_HANGUP) == signal.SIG_IGN:
        yield
        return
    before = signal.signal(_HANGUP, lambda _number, _frame: stop())
    try:
        yield
    finally:
        signal.signal(_HANGUP, before)
