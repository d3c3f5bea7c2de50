"""What stops a block from elsewhere: a signal, another thread, or the cancellation of its asyncio task."""

from __future__ import annotations

import sys
from itertools import pairwise
from traceback import walk_tb
from types import FrameType

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.exceptions import TrackerError

_STOPS = ("SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGBREAK")
"""What terminals, containers, service managers and deployments stop a program with; not each system has all of them."""


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception came from elsewhere: a signal, a timeout, another thread."""
    return not issubclass(type(error), (PynamoDBException, TrackerError))


def is_stop(error: BaseException) -> bool:
    """Return whether the program is being stopped: KeyboardInterrupt, or SystemExit raised by a signal handler.

    Any other SystemExit is the block's own: released each time, it would be run again and again. A durable function of
    Lambda that suspends is stopped, too, and invoked again.
    """
    kind = type(error)
    if not issubclass(kind, SystemExit):
        durable = sys.modules.get("aws_durable_execution_sdk_python.exceptions")
        return issubclass(kind, (KeyboardInterrupt, getattr(durable, "SuspendExecution", ())))
    signal = sys.modules.get("signal")  # unless it was imported, no function is installed
    if signal is None:
        return False
    numbers = [getattr(signal, name) for name in _STOPS if hasattr(signal, name)]
    handlers = [getattr(signal.getsignal(number), "__code__", None) for number in numbers]
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return any(frame.f_code in handlers for frame in frames) or any(
        _got_signal(frame, interrupted, numbers) for interrupted, frame in pairwise(frames)
    )


def _got_signal(frame: FrameType, interrupted: FrameType, numbers: list[int]) -> bool:
    """Return whether a frame has what a signal handler gets, the number and the interrupted frame, one after the other.

    It may be installed no longer, or within a partial or a callable object, which have no code.
    """
    pairs = pairwise(frame.f_locals.values())
    return any(type(number) is int and number in numbers and got is interrupted for number, got in pairs)


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
