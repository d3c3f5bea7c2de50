"""What the main thread of a worker is told, by signals and by other threads, in one line.

A signal's handler may run in the middle of anything that the main thread does, so it must not take a lock that the main
thread may hold, as `Event.set` would; https://docs.python.org/3/library/queue.html#queue.SimpleQueue.put is made for
that.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from types import FrameType

__all__ = ["Mailbox", "Message"]

_GLANCE = 0.5
"""Seconds after which handlers get their turn also where a signal does not interrupt a wait, as on Windows."""


class Message(Enum):
    """What there is to be told."""

    STOP = auto()
    """Stop in order."""
    INTERRUPT = auto()
    """The same from a keyboard: the second one means at once."""
    TELL = auto()
    """Print what is being done."""
    ENDED = auto()
    """Something has ended: look whether all has."""


class Mailbox:
    """Messages in the order in which they came."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def put(self, message: Message) -> None:
        """Leave a message; from any thread, or from a signal's handler."""
        self._messages.put(message)

    def get(self, deadline: float | None) -> Message | None:
        """Return the next message as soon as there is one; None after that time of the monotonic clock."""
        while True:
            left = _GLANCE if deadline is None else min(_GLANCE, deadline - time.monotonic())
            try:
                return self._messages.get(timeout=max(0.0, left))
            except queue.Empty:
                if deadline is not None and time.monotonic() >= deadline:
                    return None

    @contextmanager
    def listening(self, messages: dict[str, Message | None]) -> Iterator[None]:
        """Take signals as messages, None to ignore one, in the main thread alone: nobody else can listen.

        A signal that is ignored stays so, as Ctrl-C is in the background of a shell, and is one that the system lacks.
        """
        before = {}
        if threading.current_thread() is threading.main_thread():
            for name, message in messages.items():
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, self._handler(message))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handler(self, message: Message | None) -> Callable[[int, FrameType | None], None] | signal.Handlers:
        if message is None:
            return signal.SIG_IGN
        return lambda _number, _frame: self.put(message)
