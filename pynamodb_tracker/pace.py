"""How fast a batch goes: starts are spread evenly, however many threads there are."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from pynamodb_tracker import clock

__all__ = ["Pace"]


class Pace:
    """A bound on starts in a second; without one nobody waits."""

    def __init__(self, rate: float | None) -> None:
        self._interval = None if rate is None else timedelta(seconds=1 / rate)
        self._next: datetime | None = None
        self._guard = threading.Lock()

    def wait(self) -> None:
        """Wait for the next turn."""
        if self._interval is None:
            return
        with self._guard:
            now = clock.now()
            turn = now if self._next is None else max(now, self._next)
            self._next = turn + self._interval
        if turn > now:
            clock.sleep((turn - now).total_seconds())
