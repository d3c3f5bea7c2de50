"""Stops a program: handles its signals, and sends messages to its main thread."""

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum, auto
from types import FrameType
from typing import Any, TypeVar

from pynamodb_tracker.work.executor import GLANCE

M = TypeVar("M")

Handler = Callable[[int, FrameType | None], object] | signal.Handlers  # gets the signal number and the frame

# Marks a KeyboardInterrupt that no function raised. A subclass would change the exit code.
AT_ONCE = "second interrupt: the worker leaves at once, and running tasks stay locked until their locks expire"


@contextmanager
def handle_signals(handlers: Mapping[str, Handler]) -> Iterator[None]:
    """Handle signals, given by name, within the block, and then restore the old handlers.

    Do nothing outside the main thread, where Python does not allow it. Skip signals that this system lacks or ignores,
    as Ctrl-C in a shell's background. A handler that the block sets itself stays.
    """
    before: _Before = {}
    if threading.current_thread() is threading.main_thread():
        for name, handler in handlers.items():
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = (signal.signal(number, handler), handler)
    _handled.append(before)
    try:
        yield
    finally:
        if before in _handled:  # not in a forked process, which has its old handlers again
            _handled.remove(before)
        _restore(before)


_Before = dict[int, tuple[Any, Handler]]  # each signal's old and new handler

_handled: list[_Before] = []  # the changes by blocks of `handle_signals`, in order


def _restore(before: _Before) -> None:
    for number, (handler_before, handler) in before.items():
        if signal.getsignal(number) is handler:
            signal.signal(number, handler_before)


_masks = threading.local()


def _block_before_fork() -> None:
    """Block the handled signals in this thread: a child must not get one before its old handlers."""
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {number for before in _handled for number in before})


def _unblock_after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _handle_as_before_in_child() -> None:
    """Give a forked process its old handlers, because nobody there reads the messages."""
    for before in reversed(_handled):
        _restore(before)
    _handled.clear()
    _unblock_after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(
        before=_block_before_fork, after_in_parent=_unblock_after_fork, after_in_child=_handle_as_before_in_child
    )


@contextmanager
def block_signals(*names: str) -> Iterator[None]:
    """Block signals in this thread during the block, and in new processes until they call `unblock_signals`."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    numbers = {getattr(signal, name) for name in names if hasattr(signal, name)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals() -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, [])


class MessageQueue(queue.SimpleQueue[M]):
    """Messages to a thread from other threads and from signal handlers, in order.

    A handler may interrupt the main thread anywhere, so it must not take locks, as `Event.set` would. `SimpleQueue.put`
    is safe: https://docs.python.org/3/library/queue.html#queue.SimpleQueue.put
    """

    def wait(self, deadline: float | None = None) -> M | None:
        """Return the next message, or None at the deadline, a value of `time.monotonic()`."""
        while True:
            left = GLANCE if deadline is None else min(GLANCE, deadline - time.monotonic())
            try:
                return self.get(timeout=max(0.0, left))
            except queue.Empty:
                if deadline is not None and time.monotonic() >= deadline:
                    return None


class Message(Enum):
    STOP = auto()
    INTERRUPT = auto()  # Ctrl-C: the first one stops gracefully, the second one at once
    PRINT_STATUS = auto()
    ENDED = auto()  # a thread or a process has ended, or has lost its lock


Messages = MessageQueue[Message]


def message_handlers(messages: Messages, **signals: Message) -> dict[str, Handler]:
    return {name: lambda *_, message=message: messages.put(message) for name, message in signals.items()}


def print_to_stderr(text: str) -> None:
    """Print to stderr, unless it is closed or its reader is gone."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()
