"""Binds and chooses the function of a step."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pynamodb_tracker.exceptions import DefinitionError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model import arguments
from pynamodb_tracker.model.row import TaskRow

T = TypeVar("T", bound=TaskRow)
R = TypeVar("R")

if TYPE_CHECKING:
    from pynamodb_tracker.aio.context import AsyncContext

StepFunction = Callable[[ExecutionContext[T]], object] | Callable[["AsyncContext[T]"], Awaitable[object]]


class Bindable(Protocol[T]):
    """A bound step, as far as it concerns its function."""

    model: type[T]
    name: str
    function: StepFunction[T] | None


def bind(step: Bindable[T], function: StepFunction[T] | None) -> None:
    if function is None:
        raise TypeError(f"write @{_name_of(step)}.does above the function, without parentheses")
    arguments.check_parameters(function, "ctx", may_be_async=True)
    if step.function is not None and not is_same_function(step.function, function):
        other = _other_name(step.function, function)
        raise DefinitionError(
            f"{_name_of(step)} does {function_name(step.function)}, and cannot do {other} as well: a step has one "
            "function"
        )
    step.function = function


def function_of(
    step: Bindable[T], given: Callable[[ExecutionContext[T]], R] | None
) -> Callable[[ExecutionContext[T]], R | object]:
    function: Any = _chosen(step, given)
    if arguments.is_async(function):
        name = _name_of(step)
        raise TypeError(
            f"this takes a function that has finished when it returns, not the async {function_name(function)}: await "
            f"{name}.arun(...) or {name}.arun_all(...), or run an AsyncWorker"
        )
    arguments.check_function_of_context(function)
    return function  # type: ignore[no-any-return]  # it is not async


def async_function_of(
    step: Bindable[T], given: Callable[[AsyncContext[T]], Awaitable[R]] | None
) -> Callable[[AsyncContext[T]], Awaitable[R | object]]:
    """Return the given or the bound async function, or raise a TypeError.

    A lambda passes, and so does a decorated async function, because only a call shows what they return.
    """
    function: Any = _chosen(step, given)
    passes = callable(function) and (
        getattr(function, "__name__", "") == "<lambda>" or arguments.is_async(inspect.unwrap(function))
    )
    if not (passes or arguments.is_async(function)):
        arguments.check_function(function, may_be_async=True)  # which has another error for generators
        name = _name_of(step)
        raise TypeError(
            f"this takes an async function of the context, not {function_name(function)}: write async def, or call "
            f"{name}.run(...) or {name}.run_all(...), or run a Worker"
        )
    arguments.check_function_of_context(function, may_be_async=True)
    return function  # type: ignore[no-any-return]  # it is async


def any_function_of(step: Bindable[T], given: StepFunction[T] | None) -> StepFunction[T]:
    function: Any = _chosen(step, given)
    arguments.check_function_of_context(function, may_be_async=True)
    return function  # type: ignore[no-any-return]  # it is one


def for_threads(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for threads, which awaits an async one on the process's event loop."""
    if not arguments.is_async(function):
        return function
    from pynamodb_tracker.aio.loop_thread import awaited  # noqa: PLC0415 - few programs have async functions

    return awaited(function)


def _chosen(step: Bindable[T], given: object) -> object:
    bound = step.function
    if given is None:
        if bound is None:
            name = _name_of(step)
            raise TypeError(
                f"no function is bound to {name}: bind one with @{name}.does, and import its module. Or pass "
                "a function to this call, and to handles as its decorator"
            )
        return bound
    if not (bound is None or not callable(given) or is_same_function(bound, given)):
        name, other = _name_of(step), _other_name(bound, given)
        raise ValueError(
            f"{name} does {function_name(bound)}, not {other}: leave the function out, or use {name}.start(...). "
            f'In a test, replace it: monkeypatch.setattr({name}, "function", stub)'
        )
    return given


def is_same_function(one: object, other: object) -> bool:
    """Return whether two functions are the same one, perhaps defined again by a reload, a notebook or `python -m`.

    A function without its own name equals only itself: a lambda, a partial, a method, or the inner function of a
    decorator without `functools.wraps`.
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


def _name_of(step: Bindable[T]) -> str:
    return f"{step.model.__name__}.{step.name}"


def function_name(function: object) -> str:
    """Return a function's name for errors, such as `shop.labels.print_label`."""
    name = getattr(function, "__qualname__", None)
    return f"{getattr(function, '__module__', None)}.{name}" if isinstance(name, str) else arguments.shown(function)


def _other_name(bound: object, other: object) -> str:
    name = function_name(other)
    return name if name != function_name(bound) else "another function of that name"
