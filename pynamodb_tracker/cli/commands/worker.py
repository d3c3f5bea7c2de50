"""`worker`: runs functions on due tasks until it is stopped."""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cache, partial
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.cli import command
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import CannotRunError, UseCases, load_function
from pynamodb_tracker.cli.interrupts import SafeStream, last_output, stdout_to_stderr
from pynamodb_tracker.cli.terminal import say, say_json, warn
from pynamodb_tracker.dynamodb.error_codes import is_temporary
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.presentation.errors import one_line
from pynamodb_tracker.presentation.task_facts import steps_of
from pynamodb_tracker.presentation.text import age, escaped
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.functions import for_threads
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.worker.shutdown import AT_ONCE, handle_signals
from pynamodb_tracker.worker.worker import Worker

Tallies = Mapping[BoundStep[Any], Tally]


@dataclass(frozen=True, slots=True)
class _FunctionByName:
    """A function that worker processes import by name or, without a name, as the one bound to the step.

    A process also imports the other functions, `among` which this one is, and logs like this process.
    """

    function: Callable[[Any], object]
    step: BoundStep[Any]
    name: str | None
    app: str
    among: tuple[str | None, ...]
    on_start: str | None

    def __call__(self, ctx: object) -> object:
        return self.function(ctx)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _load_in_process, (self.step, self.name, self.app, self.among, self.on_start)


@opt.for_use_cases
def worker(
    among: UseCases,
    assigned: Annotated[
        list[str] | None,
        opt.argument(
            "STEP[=MODULE:FUNCTION]",
            "A step, with a function if none is bound to it. Write USE_CASE.STEP if several use cases have the step. "
            "Default: all steps with bound functions.",
            opt.complete_steps,
        ),
    ] = None,
    *,
    threads: opt.Threads = 4,
    processes: Annotated[
        int, opt.value("N", "How many processes to start, each with this many --threads.", min=1, max=256)
    ] = 1,
    heartbeat: opt.Heartbeat = False,
    rate: opt.Rate = None,
    grace: Annotated[
        timedelta | None,
        opt.value("TIME", "How long running tasks may take to finish after a stop. Default: 30s.", opt.length),
    ] = None,
    max_poll_interval: Annotated[
        timedelta | None, opt.value("TIME", "Longest time between polls when idle. Default: 2s.", opt.duration)
    ] = None,
    until_idle: Annotated[bool, opt.flag("--until-idle", "Exit once no task is due.")] = False,
    on_start: Annotated[
        str | None,
        opt.value("MODULE:FUNCTION", "Call this in each process before its first task, for example to register hooks."),
    ] = None,
    health_file: Annotated[
        Path | None,
        opt.value("FILE", "Touch this file every five seconds, so that a container's probe can check its age."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Run functions for due and abandoned tasks of steps until stopped.

    After SIGTERM or Ctrl-C, it starts no more tasks, waits up to the grace time for running ones, and then releases
    them. A second Ctrl-C stops it at once. On kill -USR1, it prints its current work.

    Exits with 0 when it was stopped or is idle, even if tasks failed, with 2 if it cannot run, and with 130 after a
    second Ctrl-C.
    """
    options: dict[str, Any] = {"threads": threads, "processes": processes, "heartbeat": heartbeat, "rate": rate}
    times = {"grace": grace, "max_poll_interval": max_poll_interval}
    options |= {key: value for key, value in times.items() if value is not None}
    functions = _find_functions(among, assigned or [], on_start)
    with command.refusing(ValueError):
        bound = [model for model in among.models if any(step.model is model for step in functions)]
        built = Worker(functions if assigned else bound, **options)
    _check_index(next(iter(functions)))
    steps = ", ".join(map(_name_of, functions))
    how_to_stop = "Ctrl-C or SIGTERM stops the worker gracefully, a second Ctrl-C at once"
    warn(f"{steps} on {command.location(among.models[0])}: {how_to_stop}")
    began = time.monotonic()
    begin = partial(_begin, on_start) if on_start is not None and processes == 1 else None
    tallies = _run(built, processes, begin, until_idle=until_idle, health_file=health_file)
    with last_output():
        _print(tallies, time.monotonic() - began, as_json=as_json)


def _find_functions(
    among: UseCases, assigned: Sequence[str], on_start: str | None
) -> dict[BoundStep[Any], _FunctionByName]:
    if on_start is not None:
        try:
            load_function(on_start, with_context=False)
        except CannotRunError as error:
            raise CannotRunError(f"--on-start: {error}") from error
    names = _parse_assigned(among, assigned)
    if not names:
        steps = [step for model in among.models for step in steps_of(model)]
        names = {step: None for step in steps if step.function is not None}
        if not names:
            raise CannotRunError(
                f"no step of {', '.join(model.__name__ for model in among.models)} has a function: name one, "
                f"{steps[0].name}=MODULE:FUNCTION, or bind one with @{_name_of(steps[0])}.does"
            )
    all_names, functions = tuple(names.values()), {}
    for step, name in names.items():
        found = command.function_for(step, name, written=f"{step.name}=MODULE:FUNCTION")
        functions[step] = _FunctionByName(found, step, name, among.app, all_names, on_start)
        if step.function is not None:
            step.function = functions[step]  # a worker refuses any function but the bound one
    return functions


def _parse_assigned(among: UseCases, assigned: Sequence[str]) -> dict[BoundStep[Any], str | None]:
    """Return the named steps with the names of their functions, or with None for the bound ones."""
    names: dict[BoundStep[Any], str | None] = {}
    for text in assigned:
        step_name, equals, function = text.partition("=")
        if ":" in step_name or (equals and not (step_name and function)):
            written = f"STEP={text}" if ":" in step_name else f"{step_name or 'STEP'}={function or 'MODULE:FUNCTION'}"
            raise CannotRunError(f"{text!r} does not assign a function to a step: write {written}")
        step = among.step(step_name)
        if step in names and names[step] == (function or None):
            raise CannotRunError(f"{_name_of(step)} is named twice")
        if step in names:
            raise CannotRunError(f"{_name_of(step)} has two functions, {names[step]} and {function}: name one")
        names[step] = function or None
    return names


def _check_index(step: BoundStep[Any]) -> None:
    """Raise a permanent error, such as a missing table, before the command says that the worker runs."""
    try:
        step._definition.check_index()
    except PynamoDBException as error:
        if not is_temporary(error):
            raise


def _begin(on_start: str) -> None:
    try:
        load_function(on_start, with_context=False)()
    except (Exception, SystemExit) as error:
        raise CannotRunError(f"{on_start} raised {type(error).__name__}: {one_line(error)}") from error


_begin_once = cache(_begin)


def _run(
    built: Worker, processes: int, begin: Callable[[], None] | None, *, until_idle: bool, health_file: Path | None
) -> Tallies:
    """Run the worker. A closed terminal stops it, too, unless SIGHUP is ignored, as with nohup."""
    try:
        with stdout_to_stderr(built.stop), handle_signals({"SIGHUP": lambda *_: built.stop()}):
            if begin is not None:
                begin()  # it may configure logging
            with _logging_to_stderr():
                return built.run(until_idle=until_idle, health_file=health_file)
    except KeyboardInterrupt as error:
        if error.args == (AT_ONCE,):
            warn("stopped at once: running tasks stay in progress until their locks expire, and are then taken over")
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(command.INTERRUPTED)  # a normal exit would wait for threads that functions have started
        raise
    except SystemExit as error:
        warn(f"a function called sys.exit({error}): the worker stopped gracefully")
        raise
    except OSError as error:
        if health_file is None or error.filename != str(health_file):
            raise
        raise CannotRunError(f"cannot write the health file {health_file}: {error.strerror}") from error
    except RuntimeError as error:
        if processes == 1:
            raise
        raise CannotRunError(str(error)) from error  # a process could not start, and has printed why


def _print(tallies: Tallies, took: float, *, as_json: bool) -> None:
    if as_json:
        steps = [
            {"use_case": step.model.tracker.use_case.name, "step": step.name, **asdict(tally)}
            for step, tally in tallies.items()
        ]
        say_json({"steps": steps, "seconds": round(took, 1)})
        return
    for step, tally in tallies.items():
        known = asdict(tally).items()
        numbers = ", ".join(name if number is True else f"{number:,} {name}" for name, number in known if number)
        say(f"{_name_of(step)}: {numbers or 'nothing to do'} in {age(timedelta(seconds=took))}")


def _name_of(step: BoundStep[Any]) -> str:
    return f"{step.model.__name__}.{step.name}"


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(escaped, super().format(record).split("\n")))


def _log_to_stderr() -> logging.Handler | None:
    """Log to stderr, and return the handler, unless the program has configured logging."""
    if log.hasHandlers():
        return None
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    log.addHandler(handler)
    log.setLevel(log.level or logging.INFO)
    return handler


@contextmanager
def _logging_to_stderr() -> Iterator[None]:
    level, handler = log.level, _log_to_stderr()
    try:
        yield
    finally:
        if handler is not None:
            log.removeHandler(handler)
            log.setLevel(level)


def _load_in_process(
    step: BoundStep[Any], name: str | None, app: str, among: Sequence[str | None], on_start: str | None
) -> Callable[..., Any]:
    """Load a function in a worker process. Log after all modules and `on_start`, which may configure logging."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # otherwise, output of functions reaches a pipe late or never
    for stream_name in ("stdout", "stderr"):  # a write error must not fail tasks: the parent process notices it
        if (stream := getattr(sys, stream_name)) is not None:
            setattr(sys, stream_name, SafeStream(stream, bool))
    command.load_class(app)
    functions = {each: load_function(each) for each in among if each is not None}
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the parent process handles it
    if on_start is not None:
        _begin_once(on_start)
    _log_to_stderr()
    return command.function_for(step, None) if name is None else for_threads(functions[name])
