"""The line from a process of a worker to its parent."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from multiprocessing.connection import Connection

__all__ = ["Line", "parent"]


class Line:
    """One end of a pipe, on which any thread may speak."""

    def __init__(self) -> None:
        self._pipe: Connection | None = None
        self._steps: list[object] = []
        self._guard = threading.Lock()

    def open(self, pipe: Connection, steps: Iterable[object]) -> None:
        """Speak on this pipe from now on, for the worker of these steps."""
        self._pipe, self._steps = pipe, list(steps)

    def is_of(self, steps: Iterable[object]) -> bool:
        """Tell whether this process was started by the worker of these steps."""
        return self._pipe is not None and self._steps == list(steps)

    def say(self, what: object) -> None:
        """Say it, if there is a parent, and it is still there."""
        with self._guard, contextlib.suppress(OSError):
            if self._pipe is not None:
                self._pipe.send(what)


parent = Line()
"""Open in a process that a worker has started."""
