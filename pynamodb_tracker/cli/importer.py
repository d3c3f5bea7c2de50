"""The application that a command is about: `module:name`, imported as `python -m` would import it."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from pynamodb_tracker.arguments import check_function, did_you_mean
from pynamodb_tracker.task.task import Task

__all__ = ["AppError", "load", "load_function"]


class AppError(Exception):
    """A `module:name` is not what is asked for; the message says on one line what is wrong with it."""


def load(name: str) -> type[Task]:
    """Import a module and return its class of tasks: a table's class with a Meta, or a use case.

    The current directory is on the path, as with `python -m`. What is wrong with the name, or with the module, is an
    AppError.
    """
    module_name, colon, class_name = name.partition(":")
    if not (colon and class_name and _is_module_name(module_name)):
        raise AppError(f"{name!r} names no class of tasks: write module:Class{_proposal(name)}")
    module = _imported(module_name)
    found = getattr(module, class_name, None)
    if found is None:
        hint = did_you_mean(class_name, [key for key, value in vars(module).items() if _is_task(value)])
        raise AppError(f"the module {module_name!r} has no {class_name!r}{hint}")
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise AppError(f"{name} is no class of tasks: name a class that is derived from Task, the table or a use case")
    if not found.tracker.has_table:
        raise AppError(f"{name} has no table: name a class with class Meta: table_name = ..., or a use case of one")
    return found


def load_function(name: str) -> Callable[..., Any]:
    """Import a module and return its function of the context, `module:function`, as `load` does a class."""
    module_name, colon, function_name = name.partition(":")
    if not (colon and function_name and _is_module_name(module_name)):
        raise AppError(f"{name!r} names no function: write module:function")
    module = _imported(module_name)
    found = getattr(module, function_name, None)
    if found is None:
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise AppError(f"the module {module_name!r} has no {function_name!r}{did_you_mean(function_name, known)}")
    if isinstance(found, type):
        raise AppError(f"{name} is a class: name a function of the context")
    try:
        check_function(found)
    except TypeError as error:
        raise AppError(f"{name}: {error}") from error
    _check_takes_context(name, found)
    function: Callable[..., Any] = found
    return function


def _check_takes_context(name: str, function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some that are written in C nobody knows what they take
        return
    try:
        signature.bind(object())
    except TypeError as error:
        raise AppError(f"{name} is called with the context alone, and takes {signature}: {error}") from error


def _is_module_name(name: str) -> bool:
    return all(part.isidentifier() for part in name.split(".")) and not name.endswith(".py")


def _proposal(name: str) -> str:
    """Return what may be meant: a path of a file, or a class behind a dot."""
    path, _, class_name = name.partition(":")
    parts = path.removesuffix(".py").replace("\\", "/").replace("/", ".").strip(".").split(".")
    if not class_name and len(parts) > 1 and parts[-1][:1].isupper():
        class_name = parts.pop()
    module_name = ".".join(parts)
    return f", as {module_name}:{class_name or 'AppTask'}" if _is_module_name(module_name) else ""


def _is_task(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Task) and value.tracker.has_table


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)
    try:
        with redirect_stdout(sys.stderr):  # stdout is the command's own: somebody parses it
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise AppError(f"{error}: it is neither in {here} nor installed") from error
        raise AppError(_told(name, error)) from error
    except (Exception, SystemExit) as error:
        raise AppError(_told(name, error)) from error


def _told(name: str, error: BaseException) -> str:
    """Return what stopped an import, and the line of the module that was being imported at that time."""
    lines = [
        f" at {frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.name == "<module>"
    ]
    said = " ".join(str(error).split())  # a SyntaxError says by itself where it is
    return f"the module {name!r} cannot be imported: {type(error).__name__}{''.join(lines[-1:])}: {said}"
