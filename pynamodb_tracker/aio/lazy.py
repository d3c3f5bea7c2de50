"""The methods that begin with `a`, made of those without it; asyncio is imported when one is called."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., object])


def awaited(
    method: Callable[Concatenate[S, P], R], *, stops: bool = False
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return an async method that does what `method` does, and sends its requests in a thread.

    Written `areopen = awaited(reopen)` in the body of the class. If it `stops`, it is one that changes many tasks: once
    it is cancelled, it changes no further one, and CancelledError is raised when the requests have ended. An override
    of the given method is called.
    """
    name, send = method.__name__, in_thread_until_cancelled if stops else in_thread

    async def call(instance: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound: Callable[P, R] = getattr(instance, name)
        return await send(partial(bound, *args, **kwargs))

    return _named(call, method)


def ahead(method: Callable[Concatenate[S, P], Iterator[R]]) -> Callable[Concatenate[S, P], AsyncIterator[R]]:
    """Return a method for `async for`, made of one that returns an iterator: about 100 items are read at a time."""
    name = method.__name__

    def call(instance: S, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
        bound: Callable[P, Iterator[R]] = getattr(instance, name)
        return read_ahead(bound(*args, **kwargs))

    return _named(call, method)


def _named(call: F, method: Callable[..., Any]) -> F:
    """Give a method made of another one its own name, by which it is found when it is unpickled, and the signature."""
    update_wrapper(call, method)
    parts = method.__qualname__.rpartition(".")
    call.__name__ = f"a{method.__name__}"
    call.__qualname__ = f"{parts[0]}{parts[1]}a{parts[2]}"
    return call


async def in_thread(function: Callable[[], R]) -> R:
    """Call a function in a thread of the pool."""
    from pynamodb_tracker.aio import pool  # noqa: PLC0415 - few programs have an event loop

    return await pool.in_thread(function)


async def in_thread_until_cancelled(function: Callable[[], R]) -> R:
    """Do the same with a function that changes many tasks: once this is cancelled, it changes no further one."""
    from pynamodb_tracker.aio import pool  # noqa: PLC0415 - as above

    return await pool.in_thread_until_cancelled(function)


def read_ahead(items: Iterator[R]) -> AsyncIterator[R]:
    """Iterate over what is read lazily, some of it at a time in a thread."""
    from pynamodb_tracker.aio.iteration import ReadAhead  # noqa: PLC0415 - as above

    return ReadAhead(items)
