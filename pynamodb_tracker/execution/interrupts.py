"""Recognizes exceptions from outside of a block: from signals, other threads, and cancellations of asyncio tasks."""

import sys
from itertools import pairwise
from traceback import walk_tb
from types import FrameType

_STOPS = ("SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGBREAK")
"""The signals that stop a program, some of them only on some systems."""


def is_stop(error: BaseException) -> bool:
    """Return whether the program is being stopped: KeyboardInterrupt, or SystemExit from a signal handler.

    A SystemExit of the block itself is a failure, or it would repeat forever. A durable Lambda function also stops when
    it suspends.
    """
    kind = type(error)
    if not issubclass(kind, SystemExit):
        durable = sys.modules.get("aws_durable_execution_sdk_python.exceptions")
        return issubclass(kind, (KeyboardInterrupt, getattr(durable, "SuspendExecution", ())))
    signal = sys.modules.get("signal")  # otherwise no handler is installed
    if signal is None:
        return False
    numbers = [getattr(signal, name) for name in _STOPS if hasattr(signal, name)]
    handlers = [getattr(signal.getsignal(number), "__code__", None) for number in numbers]
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return any(frame.f_code in handlers for frame in frames) or any(
        _got_signal(frame, interrupted, numbers) for interrupted, frame in pairwise(frames)
    )


def _got_signal(frame: FrameType, interrupted: FrameType, numbers: list[int]) -> bool:
    """Return whether a frame has a signal handler's arguments: a number and the interrupted frame.

    This also finds handlers that were removed, and handlers without code, such as a partial.
    """
    pairs = pairwise(frame.f_locals.values())
    return any(type(number) is int and number in numbers and got is interrupted for number, got in pairs)


def is_cancellation(error: BaseException, *, earlier: int = 0) -> bool:
    """Return whether this asyncio task was cancelled from outside, with more requests than `earlier`, before the block.

    `asyncio.timeout` and `TaskGroup` in the block take back their own requests.
    """
    asyncio = sys.modules.get("asyncio")  # otherwise no task can be cancelled
    if asyncio is None or not issubclass(type(error), asyncio.CancelledError):
        return False
    return cancel_requests() > earlier


def cancel_requests() -> int:
    """Return how many cancellations of this asyncio task were requested, or 0 outside of one."""
    import asyncio  # noqa: PLC0415 - few programs have an event loop

    try:
        task = asyncio.current_task()
    except RuntimeError:  # this thread runs no event loop
        return 0
    return 0 if task is None else task.cancelling()
