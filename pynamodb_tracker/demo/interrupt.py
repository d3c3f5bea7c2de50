"""Ctrl-C, made certain: where Python would lose a KeyboardInterrupt, it is sent once more."""

from __future__ import annotations

import _thread
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

__all__ = ["never_lost"]

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
