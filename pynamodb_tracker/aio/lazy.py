"""What the methods that begin with `a` do with those without it; asyncio is imported when one is called."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

R = TypeVar("R")


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
