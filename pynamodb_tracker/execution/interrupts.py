"""What stops a block from elsewhere: a signal, another thread, or the cancellation of its asyncio task."""

from __future__ import annotations

import sys

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.exceptions import TrackerError


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception came from elsewhere: a signal, a timeout, another thread."""
    return not issubclass(type(error), (PynamoDBException, TrackerError))


def is_cancellation(error: BaseException, *, earlier: int = 0) -> bool:
    """Return whether this asyncio task was cancelled from outside, rather than that the block raised CancelledError.

    `asyncio.timeout` and `TaskGroup` within the block take back the requests with which they cancel it. `earlier` is
    the number of requests before the block.
    """
    asyncio = sys.modules.get("asyncio")  # unless it was imported, no task can be cancelled
    if asyncio is None or not issubclass(type(error), asyncio.CancelledError):
        return False
    return cancel_requests() > earlier


def cancel_requests() -> int:
    """Return how often this asyncio task is asked to cancel at the moment; 0 outside of one."""
    import asyncio  # noqa: PLC0415 - few programs have an event loop

    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop is running in this thread
        return 0
    return 0 if task is None else task.cancelling()
