"""What a batch tries next: the oldest first, and where others are at work, each worker at a place of its own.

Workers that all begin with the oldest task try the same ones, and all but one are refused. So a worker that meets
another one leaves that place: it reads what is left, begins somewhere in it at random, and goes on from there until it
meets somebody again. That is one refusal for a stretch of tasks, however many workers there are; and while nobody is
met, the place moves back to the oldest.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from itertools import islice

__all__ = ["Feed"]

_WIDEST = 500
"""How many of the oldest tasks workers spread over: as many as one request to the index reads."""

_CROWD = 4
"""Threads from which on workers spread over more: each takes as much room as a worker of its own would."""

_WIDER = 4
"""How many times more at most: each time that workers meet costs so many requests."""

_STRETCH = 50
"""How many tasks are tried between two looks at what is left."""


class Feed:
    """The ids of the tasks that a batch tries, each once."""

    def __init__(self, read: Callable[[], Iterator[str]], *, threads: int = 1) -> None:
        """`read` begins to read what is due, the oldest first; that many threads try it."""
        self._read = read
        self._widest = _WIDEST * min(_WIDER, threads // _CROWD + 1)
        self._seen: set[str] = set()
        self._met = threading.Event()

    def met(self) -> None:
        """Note that another worker had one of these tasks first."""
        self._met.set()

    def __iter__(self) -> Iterator[str]:
        """Yield ids until nothing is left that was not tried."""
        spread = 0
        while True:
            self._met.clear()
            any_left = False
            for task_id in self._stretch(spread):
                any_left = True
                self._seen.add(task_id)
                yield task_id
                if self._met.is_set():
                    break
            if not (any_left and (spread or self._met.is_set())):
                return
            spread = self._widest if self._met.is_set() else spread // 2

    def _stretch(self, spread: int) -> Iterator[str]:
        """Return what is left, from the oldest on; or a part of it, from somewhere among the oldest `spread` on."""
        left = (task_id for task_id in self._read() if task_id not in self._seen)
        if not spread:
            return left
        oldest = list(islice(left, spread))
        begin = random.randrange(len(oldest)) if oldest else 0  # noqa: S311 - spreads load, guards nothing
        return islice(iter(oldest[begin:] + oldest[:begin]), _STRETCH)
