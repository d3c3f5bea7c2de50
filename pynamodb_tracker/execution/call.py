"""The call of a user's function: the one place that decides whether it has done its work when it returns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def call(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function and return its result; TypeError if the work is still to be done when it returns.

    The function itself does not show that: a lambda, a decorator or a partial may hide a coroutine function.
    """
    result = function(*args, **kwargs)
    if result is not None and issubclass(type(result), (Awaitable, AsyncGenerator, Generator)):
        _refuse(result)
    return result


def _refuse(result: object) -> None:
    """Raise a TypeError that says what to write instead; a coroutine is closed, so that Python does not warn of it."""
    if isinstance(result, Coroutine | Generator):
        result.close()
    if isinstance(result, Generator):
        problem, remedy = "a generator, whose body has not run", "write return for yield, or iterate over it inside"
    elif isinstance(result, AsyncGenerator):
        problem, remedy = "an async generator, whose body has not run", "iterate over it in asyncio.run(...) inside"
    else:
        problem, remedy = "an awaitable, so its work is not done", "call asyncio.run(...) in it"
    raise TypeError(f"the function returned {problem}: {remedy}")
