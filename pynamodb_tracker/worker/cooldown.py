"""Which tasks a worker leaves alone for now: those that it runs, and those that it has just tried."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta

from pynamodb_tracker import clock

__all__ = ["LAG", "Rest"]

LAG = timedelta(seconds=1)
"""How long the index may not have heard of what was done: a task that was tried is left alone for so long."""

_REFUSED = timedelta(seconds=10)
"""About how long one that was refused is left alone; each time twice as long, where a request about it fails."""

_LONGEST = timedelta(hours=1)

_RUNNING = datetime.max.replace(tzinfo=UTC)


class Rest:
    """The tasks of a step that are left alone, and until when."""

    def __init__(self, *, eager: bool = False) -> None:
        self._eager = eager
        self._until: dict[str, datetime] = {}
        self._broken: dict[str, int] = {}
        """How often in a row a request about a task has failed, where that is about the task."""
        self._guard = threading.Lock()

    def run(self, task_id: str) -> None:
        """Leave a task alone until it has ended."""
        with self._guard:
            self._until[task_id] = _RUNNING

    def tried(self, task_id: str, *, failed: bool) -> None:
        """Leave one alone that was run; one that failed may be due at once, which counts where nobody looks again."""
        with self._guard:
            self._broken.pop(task_id, None)
            if failed and self._eager:
                del self._until[task_id]
            else:
                self._until[task_id] = clock.now() + LAG

    def refused(self, task_id: str) -> None:
        """Leave one alone that another worker had first, say."""
        with self._guard:
            self._until[task_id] = clock.now() + _drawn(_REFUSED)

    def broken(self, task_id: str) -> None:
        """Leave one alone that cannot be started, for longer each time: others behind it are to have their turn."""
        with self._guard:
            times = self._broken[task_id] = self._broken.get(task_id, 0) + 1
            self._until[task_id] = clock.now() + _drawn(min(_REFUSED * 2 ** min(times, 20), _LONGEST / 2))

    def is_over(self, task_id: str) -> bool:
        """Tell whether a task may be tried; a clock that was put back makes no rest longer."""
        now, until = clock.now(), self._until.get(task_id)
        return until is None or until <= now or now + _LONGEST < until < _RUNNING

    def forget(self, now: datetime) -> None:
        """Forget what is over; the tasks that cannot be started stay known for a while."""
        with self._guard:
            until, begin = self._until, now - _LONGEST
            self._broken = {task_id: times for task_id, times in self._broken.items() if until[task_id] > begin}
            self._until = {each: time for each, time in until.items() if time > now or each in self._broken}


def _drawn(rest: timedelta) -> timedelta:
    return rest * random.uniform(0.5, 1.5)  # noqa: S311 - spreads load, guards nothing
