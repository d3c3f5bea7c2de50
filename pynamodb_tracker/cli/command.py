"""Finds the class, function, step or state of a command, and reports errors."""

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO, cast
from urllib.parse import urlsplit

import typer
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.cli.interrupts import discard
from pynamodb_tracker.cli.terminal import StdoutError, flush, warn
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.arguments import check_function, did_you_mean
from pynamodb_tracker.model.schema import UseCase
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import task_facts
from pynamodb_tracker.presentation.errors import one_line
from pynamodb_tracker.presentation.task_facts import UNKNOWN, steps_of
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.functions import for_threads, function_name, is_same_function
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

# Exit codes, and errors that end a command.

FOUND, CANNOT_RUN, INTERRUPTED = 1, 2, 130


class CannotRunError(Exception):
    """A command cannot run. The message is one line with the reason and advice."""


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kinds as error:
        raise CannotRunError(str(error)) from None


@contextmanager
def exit_on_error(model: type[Task] | None = None) -> Iterator[None]:
    """Report an error on one line of stderr, and exit with 1 for a refusal or 2 if the command cannot run."""
    try:
        try:
            if model is not None:
                _check_endpoint(model)
            yield
        finally:
            flush()
    except (CannotRunError, TrackerError) as error:
        warn(str(error))
        raise typer.Exit(FOUND if isinstance(error, TrackerError) else CANNOT_RUN) from None
    except BrokenPipeError:  # typer exits quietly: the reader has seen enough
        raise
    except StdoutError as error:
        with suppress(OSError):
            discard(sys.stdout)
        with suppress(OSError):
            warn(f"cannot write to stdout: {error.strerror}")
        raise typer.Exit(CANNOT_RUN) from None
    except (PynamoDBException, BotoCoreError, ClientError, OSError) as error:  # OSError: a missing credentials file
        text = one_line(error)
        if model is not None and not text.startswith(f"table {model.Meta.table_name}"):
            text = f"{location(model)}: {text}"
        warn(text)
        raise typer.Exit(CANNOT_RUN) from None


def _check_endpoint(model: type[Task]) -> None:
    try:
        host = urlsplit(model.tracker.connection().connection.client.meta.endpoint_url)
        _ = host.port
    except ValueError as error:
        raise CannotRunError(
            f"table {model.Meta.table_name}: {one_line(error)}: check Meta.host and AWS_ENDPOINT_URL_DYNAMODB"
        ) from None


def stdin() -> TextIO:
    if sys.stdin is None:
        raise CannotRunError("stdin is closed: redirect a file to it, as in < FILE")
    return sys.stdin


def ids_in(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if word == "-":
            yield from (line.rstrip("\r\n") for line in stdin() if line.strip())
        else:
            yield word


def location(model: type[Task]) -> str:
    return f"table {task_facts.location(model)}"


# Classes and functions of the user's modules.


def load_class(name: str) -> type[Task]:
    """Import `module:Class`, as with `python -m`. Raise CannotRunError unless it is a table or a use case."""
    found = _load(name, f"a task class: write module:Class{_suggest(name)}", _is_task_class)
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise CannotRunError(f"{name} is not a task class: name a class derived from Task, the table or a use case")
    if not found.tracker.has_table:
        raise CannotRunError(f"{name} lacks a table: name a class with class Meta: table_name = ..., or its use case")
    return found


def load_function(name: str, *, with_context: bool = True) -> Callable[..., Any]:
    """Import `module:function`. It takes only the context or, without `with_context`, no argument."""
    found = _load(name, "a function: write module:function", callable)
    if isinstance(found, type):
        raise CannotRunError(f"{name} is a class: name a function{' of the context' if with_context else ''}")
    try:
        check_function(found, may_be_async=with_context)
    except TypeError as error:
        raise CannotRunError(f"{name}: {error}") from error
    function: Callable[..., Any] = found
    with suppress(TypeError, ValueError):  # functions written in C may lack a signature
        signature = inspect.signature(function)
        try:
            signature.bind(*[object()] * with_context)
        except TypeError as error:
            takes = "the context only" if with_context else "no argument"
            raise CannotRunError(f"{name} is called with {takes}, but takes {signature}: {error}") from error
    return function


def _load(name: str, expected: str, is_known: Callable[[object], bool]) -> Any:
    module_name, colon, own_name = name.partition(":")
    if not (colon and own_name and _is_module_name(module_name)):
        raise CannotRunError(f"{name!r} does not name {expected}")
    module = _import(module_name)
    found = getattr(module, own_name, None)
    if found is None:
        known = [key for key, value in vars(module).items() if is_known(value) and not key.startswith("_")]
        raise CannotRunError(f"the module {module_name!r} does not define {own_name!r}{did_you_mean(own_name, known)}")
    return found


def function_and_tasks(step: BoundStep[Any], words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Split the words into a function name, if they start with one, and task ids."""
    first = words[0] if words else ""
    is_name = _is_module_name(first) and step.function is None  # half a name: the error says what to write
    is_name = is_name or (first.count(":") == 1 and all(map(_is_module_name, first.split(":"))))
    return (first, words[1:]) if is_name else (None, words)


def function_for(step: BoundStep[Any], name: str | None, *, written: str = "MODULE:FUNCTION") -> Callable[..., Any]:
    """Return the named or the bound function, which must be the same. `written` is how a command names one."""
    full_name = f"{step.model.__name__}.{step.name}"
    if name is None:
        if step.function is None:
            raise CannotRunError(
                f"no function is bound to {full_name}: name one, {written}, or bind one with @{full_name}.does "
                "in a module that --app imports"
            )
        return for_threads(step.function)
    try:
        function = load_function(name)
    except CannotRunError as error:
        hint = f". {full_name} has a function: pass ids like this on stdin"
        raise CannotRunError(f"{error}{hint if step.function else ''}") from error
    bound = step.function  # the import above may have bound it
    if not (bound is None or is_same_function(bound, function)):
        raise CannotRunError(f"{full_name} does {function_name(bound)}, not {name}: leave the function out")
    for other in steps_of(step.model) if bound is None else ():
        if other.function is not None and is_same_function(other.function, function):
            raise CannotRunError(
                f"{name} is bound to {other.model.__name__}.{other.name}. If {full_name} does the same, bind it with "
                f"@{full_name}.does, too"
            )
    return for_threads(function)


def _is_module_name(name: str) -> bool:
    return all(part.isidentifier() for part in name.split(".")) and not name.endswith(".py")


def _suggest(name: str) -> str:
    """Return the likely name for a file path, or for a class after a dot."""
    path, _, class_name = name.partition(":")
    parts = path.removesuffix(".py").replace("\\", "/").replace("/", ".").strip(".").split(".")
    if not class_name and len(parts) > 1 and parts[-1][:1].isupper():
        class_name = parts.pop()
    module_name = ".".join(parts)
    return f", as in {module_name}:{class_name or 'AppTask'}" if _is_module_name(module_name) else ""


def _is_task_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Task) and value.tracker.has_table


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)
    try:
        with redirect_stdout(sys.stderr):  # stdout is for the command's own output, which programs parse
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise CannotRunError(f"{error}: it is neither in {here} nor installed") from error
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]
        at = "".join(f" at {frame.filename}:{frame.lineno}" for frame in frames[-1:])
        what = f"{type(error).__name__}{at}: {' '.join(str(error).split())}"  # a SyntaxError names its line itself
        raise CannotRunError(f"the module {name!r} cannot be imported: {what}") from error


# Tables and their use cases.


@contextmanager
def table_class(app: str) -> Iterator[type[Task]]:
    """Yield the class that `--app` names. Exit on an error in the block."""
    with exit_on_error():
        model = load_class(app)
    with exit_on_error(model):
        yield model


@dataclass(frozen=True, slots=True)
class UseCases:
    app: str
    name: str | None
    models: Sequence[type[Task]]

    def __str__(self) -> str:
        return " or ".join(model.__name__ for model in self.models)

    @property
    def are_several(self) -> bool:
        return len(self.models) > 1

    @property
    def only(self) -> type[Task]:
        if self.are_several:
            options = use_case_options(model.tracker.use_case.name for model in self.models)
            number = len(self.models)
            raise CannotRunError(f"{self.app} has {number} use cases, and this command takes one: add {options}")
        return self.models[0]

    def step(self, name: str) -> BoundStep[Any]:
        """Return a step: `ship` if only one use case has it, or `order.ship`."""
        use_case_name, _, step = name.rpartition(".")
        known = {model.tracker.use_case.name: model for model in self.models}
        if use_case_name:
            found = [model for key, model in known.items() if use_case_name in (key, model.__name__)]
            if not found:
                hint = did_you_mean(use_case_name, known) or f". --app and --use-case select {', '.join(known)}"
                raise CannotRunError(f"{name}: unknown use case {use_case_name!r}{hint}")
        else:
            found = [model for model in self.models if step in {each.name for each in steps_of(model)}]
        if len(found) > 1:
            choices = ", ".join(f"{model.tracker.use_case.name}.{step}" for model in found)
            raise CannotRunError(f"{len(found)} use cases have a step {step!r}: write one of {choices}")
        if not found and self.are_several:
            steps = {f"{key}.{each.name}": each.name for key, model in known.items() for each in steps_of(model)}
            hint = did_you_mean(step, steps.values()) or f". The steps are {', '.join(steps)}"
            raise CannotRunError(f"none of {len(self.models)} use cases has a step {step!r}{hint}")
        return step_named(found[0] if found else self.models[0], step)

    def steps(self, name: str | None) -> dict[type[Task], list[BoundStep[Any]]]:
        if name is None:
            return {model: steps_of(model) for model in self.models}
        step = self.step(name)
        return {step.model: [step]}

    def state(self, name: str) -> State[Any]:
        """Return a state: `ship.failed` if only one use case has the step, or `order.ship.failed`."""
        step, _, status = name.rpartition(".")
        if not self.are_several or step in ("", UNKNOWN):
            return state_named(self.only, name)
        of = self.step(step)
        return state_named(of.model, f"{of.name}.{status}")


def use_case_options(names: Iterable[str]) -> str:
    return " or ".join(f"--use-case {name}" for name in names)


@contextmanager
def use_cases(app: str, name: str | None) -> Iterator[UseCases]:
    """Yield the named use case or all use cases of the table. Exit on an error in the block."""
    with exit_on_error():
        models = known_use_cases(app, name)
    with exit_on_error(models[0]):
        yield UseCases(app, name, models)


def known_use_cases(app: str, name: str | None) -> list[type[Task]]:
    """Return the named use case, or all imported use cases of the table."""
    model = load_class(app)
    if name is None and isinstance(vars(model).get("use_case_id"), UseCase):
        return [model]
    known = cast("dict[str, type[Task]]", dict(sorted(model.tracker.table.use_cases.items())))
    if not known:
        raise CannotRunError(f"no use case of the table {app} is imported: name one with --app")
    if name is None:
        return list(known.values())
    found = [each for key, each in known.items() if name in (key, each.__name__)]
    if not found:
        hint = did_you_mean(name, known) or f". It has {', '.join(known)}"
        raise CannotRunError(f"{app} does not have a use case {name!r}{hint}")
    return found[:1]


# Steps and states.


def step_named(model: type[Task], name: str) -> BoundStep[Any]:
    """Return a step by its name, `ship`, `order.ship` or `Order.ship`."""
    known, name = {step.name: step for step in steps_of(model)}, _strip_use_case(model, name)
    if name not in known:
        hint = did_you_mean(name, known) or f". Its steps are {', '.join(known)}"
        raise CannotRunError(f"{model.__name__} has no step {name!r}{hint}")
    return known[name]


def is_step(model: type[Task], name: str) -> bool:
    return _strip_use_case(model, name) in {step.name for step in steps_of(model)}


def _strip_use_case(model: type[Task], name: str) -> str:
    use_case_name, _, step = name.rpartition(".")
    return step if use_case_name in (model.tracker.use_case.name, model.__name__) else name


def state_named(model: type[Task], name: str) -> State[Any]:
    """Return a state by its name, `ship.failed` or `cancelled`."""
    if name == str(model.cancelled):
        return model.cancelled
    step, _, status = name.rpartition(".")
    if step == UNKNOWN and status.isdecimal() and step not in {each.name for each in steps_of(model)}:
        return State(model, "", None, int(status))
    if not step:
        raise CannotRunError(f"{name!r} is not a state: write STEP.STATUS, as in {steps_of(model)[0].name}.failed")
    bound = step_named(model, step)
    if status not in list(Status):
        hint = did_you_mean(status, map(str, Status)) or f". The statuses of a step are {', '.join(Status)}"
        raise CannotRunError(f"{step} does not have a status {status!r}{hint}")
    state: State[Any] = getattr(bound, status)
    return state


def check_window(since: datetime | None, until: datetime | None) -> None:
    if since is not None and until is not None and since >= until:
        raise CannotRunError(f"the window is empty: --since {since} is not before --until {until}")
