"""Signals: handlers for a limited time, a message queue for handlers, and child processes that get no signals."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Generic, TypeVar

Message = TypeVar("Message")

Handler = Callable[[int, FrameType | None], object] | signal.Handlers
"""A function of the signal's number and the frame, or signal.SIG_IGN."""

_GLANCE = 0.5
"""Seconds after which a wait is interrupted: on Windows, a signal does not interrupt it, and its handler would wait."""


@contextmanager
def handling(handlers: Mapping[str, Handler]) -> Iterator[None]:
    """Handle signals, given by name, within the block; afterwards they are handled as before.

    Python allows this in the main thread only, so in another thread nothing changes. A signal that is ignored stays
    ignored, as Ctrl-C is in the background of a shell. One that the operating system does not have is skipped. If the
    block sets a handler itself, that stays.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name, handler in handlers.items():
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = (signal.signal(number, handler), handler)
    try:
        yield
    finally:
        for number, (handler_before, handler) in before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, handler_before)


@contextmanager
def blocked(*names: str) -> Iterator[None]:
    """Block signals in this thread, and in the processes that it starts meanwhile, which call `unblock` when ready.

    The thread gets them after the block. Does nothing on Windows.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    numbers = {getattr(signal, name) for name in names if hasattr(signal, name)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock() -> None:
    """Get the signals that were blocked when this process was started."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, [])


class MessageQueue(Generic[Message]):
    """Messages to a thread, from other threads and from signal handlers, in the order in which they were sent.

    A handler may interrupt the main thread anywhere, so it must not take a lock that the main thread may hold, as
    `Event.set` would. `SimpleQueue.put` is safe: https://docs.python.org/3/library/queue.html#queue.SimpleQueue.put
    """

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def put(self, message: Message) -> None:
        """Send a message."""
        self._messages.put(message)

    def get(self, deadline: float | None = None) -> Message | None:
        """Wait for the next message and return it; return None at that time of `time.monotonic()`."""
        while True:
            left = _GLANCE if deadline is None else min(_GLANCE, deadline - time.monotonic())
            try:
                return self._messages.get(timeout=max(0.0, left))
            except queue.Empty:
                if deadline is not None and time.monotonic() >= deadline:
                    return None
