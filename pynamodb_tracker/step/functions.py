"""The function of a step: which one is bound to it, and which one a call is to run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from pynamodb_tracker.arguments import check_function, check_parameters, shown
from pynamodb_tracker.exceptions import DefinitionError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.row import TaskRow

T = TypeVar("T", bound=TaskRow)
R = TypeVar("R")
F = TypeVar("F")


class Bindable(Protocol[F]):
    """A bound step, as far as it is about its function."""

    model: Any
    name: str
    function: F | None


def bind(step: Bindable[Callable[[ExecutionContext[T]], object]], function: Callable[[ExecutionContext[T]], R]) -> None:
    """Bind a function to a step; DefinitionError if another one is bound to it."""
    check_parameters(function, "ctx")
    if step.function is not None and not is_same_function(step.function, function):
        other = _other_name(step.function, function)
        raise DefinitionError(
            f"{_name_of(step)} does {function_name(step.function)}, and cannot do {other} as well: a step has one "
            "function"
        )
    step.function = function


def function_of(
    step: Bindable[Callable[[ExecutionContext[T]], object]], given: Callable[[ExecutionContext[T]], R] | None
) -> Callable[[ExecutionContext[T]], R | object]:
    """Return the function to run: the one given, or the one bound; if both are there, they must be the same one."""
    bound = step.function
    if given is None:
        if bound is None:
            name = _name_of(step)
            raise TypeError(
                f"no function is bound to {name}: bind one with @{name}.does, and import its module, or give it"
            )
        return bound
    check_function(given)
    if not (bound is None or is_same_function(bound, given)):
        name, other = _name_of(step), _other_name(bound, given)
        raise ValueError(
            f"{name} does {function_name(bound)}, not {other}: leave the function out. To run something else for once, "
            f"write with {name}.start(...). In a test, replace the one that is bound: "
            f'monkeypatch.setattr({name}, "function", stub)'
        )
    return given


def is_same_function(one: object, other: object) -> bool:
    """Return whether two functions are one, or a reload, a notebook or `python -m` has defined the same one again.

    A function without a name of its own, such as a lambda or a partial, is the same as itself only, and so is a method.
    So are two that one function has made, such as a decorator without `functools.wraps`: they have one name.
    """
    if one is other or inspect.ismethod(one):
        return one == other
    name = getattr(one, "__qualname__", "<lambda>")
    if name.endswith("<lambda>") or name != getattr(other, "__qualname__", None):
        return False
    codes: list[Any] = [getattr(inspect.unwrap(each), "__code__", None) for each in (one, other)]  # type: ignore[arg-type]
    if codes[0] is codes[1] and "<locals>" in getattr(codes[0], "co_qualname", ""):
        return False
    files = [getattr(getattr(each, "__code__", None), "co_filename", None) for each in (one, other)]
    return getattr(one, "__module__", None) == getattr(other, "__module__", ...) or None is not files[0] == files[1]


def _name_of(step: Bindable[Any]) -> str:
    return f"{step.model.__name__}.{step.name}"


def function_name(function: object) -> str:
    """Return a function as an error names it, `shop.labels.print_label`."""
    name = getattr(function, "__qualname__", None)
    return f"{getattr(function, '__module__', None)}.{name}" if isinstance(name, str) else shown(function)


def _other_name(bound: object, other: object) -> str:
    name = function_name(other)
    return name if name != function_name(bound) else "another function of that name"
