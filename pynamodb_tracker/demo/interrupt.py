"""Ctrl-C, made certain: where Python would lose a KeyboardInterrupt, it is sent once more."""

from __future__ import annotations

import _thread
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

__all__ = ["interrupts_held_back", "never_lost"]

_AGAIN = 0.05
"""Seconds until it is sent again, when what swallowed it is over."""


@contextmanager
def never_lost() -> Iterator[None]:
    """Send a KeyboardInterrupt again that Python could only print.

    Python cannot raise out of a destructor, nor out of a generator that is thrown away: a Ctrl-C that happens to come
    there is printed, and the program goes on.
    """
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            again = Timer(_AGAIN, _thread.interrupt_main)
            again.daemon = True
            again.start()
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Let the processes that are started meanwhile not hear Ctrl-C, which a terminal sends to them, too.

    One that comes meanwhile is heard afterwards: a process inherits what is held back.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows, such a moment swallows it
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        return
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
