"""Which task a batch tries next: the oldest first, and where other workers are active, away from them.

Workers that all begin with the oldest task try the same ones, and all but one of them are refused. So once a worker is
refused a task that another worker has, it reads what is left, continues from a random place in it, and stays there
until that happens again. This costs one refusal for a run of tasks, however many workers there are. While no task is
taken by others, the place moves back to the oldest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import islice

from pynamodb_tracker.backoff import RANDOM

_WIDEST = 500
"""How many of the oldest tasks workers spread over: as many as one request to the index reads."""

_THREADS_PER_SHARE = 4
"""Workers with this many threads spread over twice as many tasks, and so on."""

_MOST_SHARES = 4
"""The range is never wider than this many times `_WIDEST`: reading it costs as many requests."""

_RUN_LENGTH = 50
"""How many tasks are tried from one place before the index is read again."""


class Feed:
    """The ids of the tasks that a batch tries, each once."""

    def __init__(self, read: Callable[[], Iterator[str]], *, threads: int = 1) -> None:
        """`read` reads the ids of the tasks that are due, oldest first; `threads` is how many threads try them."""
        self._read = read
        self._widest = _WIDEST * min(_MOST_SHARES, threads // _THREADS_PER_SHARE + 1)
        self._seen: set[str] = set()
        self._was_taken = threading.Event()

    def note_taken(self) -> None:
        """Note that another worker had one of these tasks first."""
        self._was_taken.set()

    def __iter__(self) -> Iterator[str]:
        """Yield ids until every task that is due was tried."""
        spread = 0
        while True:
            self._was_taken.clear()
            any_left = False
            for task_id in self._some(spread):
                any_left = True
                self._seen.add(task_id)
                yield task_id
                if self._was_taken.is_set():
                    break
            if not (any_left and (spread or self._was_taken.is_set())):
                return
            spread = self._widest if self._was_taken.is_set() else spread // 2

    def _some(self, spread: int) -> Iterator[str]:
        """Return all untried ids, oldest first, or a run of them that begins among the oldest `spread`."""
        untried = (task_id for task_id in self._read() if task_id not in self._seen)
        if not spread:
            return untried
        oldest = list(islice(untried, spread))
        begin = RANDOM.randrange(len(oldest)) if oldest else 0
        return islice(iter(oldest[begin:] + oldest[:begin]), _RUN_LENGTH)
