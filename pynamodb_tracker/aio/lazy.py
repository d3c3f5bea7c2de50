"""Makes async methods, named with an `a` in front, from blocking ones. A call imports asyncio.

Methods that read page by page become async iterators that read ahead in a thread.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from pynamodb_tracker.model.row import TaskRow

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., object])

_MOST = 100  # items to read ahead: as many rows as one request reads
_MOST_DATA = 4 * 1024 * 1024  # bytes of off-row data to read ahead, or one task


def awaited(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return an async method that calls `method`, or its override, in a thread."""
    name = method.__name__

    async def call(instance: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound: Callable[P, R] = getattr(instance, name)
        return await in_thread(partial(bound, *args, **kwargs))

    return _name_after(call, method)


def async_version_of(
    method: Callable[Concatenate[Any, P], object],
) -> Callable[[Callable[Concatenate[S, ...], R]], Callable[Concatenate[S, P], Coroutine[Any, Any, R]]]:
    """Like `awaited`, for a class method, of which type checkers would lose the meaning of `Self` there."""

    def decorate(blocking: Callable[Concatenate[S, ...], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
        async def call(owner: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return await in_thread(partial(blocking, owner, *args, **kwargs))

        update_wrapper(call, blocking)
        call.__wrapped__ = getattr(method, "__func__", method)  # type: ignore[attr-defined]  # for its signature
        return call

    return decorate


def ahead(method: Callable[Concatenate[S, P], Iterator[R]]) -> Callable[Concatenate[S, P], AsyncIterator[R]]:
    """Return a method for `async for` from one that returns an iterator. It reads about 100 items at a time."""
    name = method.__name__

    def call(instance: S, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
        bound: Callable[P, Iterator[R]] = getattr(instance, name)
        return _ReadAhead(bound(*args, **kwargs))

    return _name_after(call, method)


def _name_after(call: F, method: Callable[..., Any]) -> F:
    """Give an async method its own name, by which pickle finds it, and the original's signature."""
    update_wrapper(call, method)
    parts = method.__qualname__.rpartition(".")
    call.__name__ = f"a{method.__name__}"
    call.__qualname__ = f"{parts[0]}{parts[1]}a{parts[2]}"
    return call


async def in_thread(function: Callable[[], R]) -> R:
    from pynamodb_tracker.aio import pool  # noqa: PLC0415 - few programs have an event loop

    return await pool.in_thread(function)


class _ReadAhead(AsyncIterator[R]):
    """An async iterator over an iterator that sends requests. You may leave it early."""

    def __init__(self, items: Iterator[R]) -> None:
        self._items = items
        self._read: deque[R] = deque()
        self._error: Exception | None = None  # raised after the items that were read before

    async def __anext__(self) -> R:
        if not self._read:
            if self._error is None:
                await in_thread(self._read_some)
            if not self._read:
                error, self._error = self._error, None
                raise error or StopAsyncIteration
        return self._read.popleft()

    def _read_some(self) -> None:
        data = 0
        try:
            for item in self._items:
                self._read.append(item)
                if isinstance(item, TaskRow):
                    data += len(item._row_state.data_text or "")
                if len(self._read) >= _MOST or data >= _MOST_DATA:
                    return
        except Exception as error:  # noqa: BLE001 - raised later
            self._error = error
