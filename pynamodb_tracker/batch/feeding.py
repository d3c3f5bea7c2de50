"""What one call tries: the tasks that were due when it began, of each step in turn, and what its own runs make due.

The index shows a task some time after it has become due, so what comes next is taken from the end of the run before it:
the next step of the same task, the next task of its group, the parent of a last child. They are tried behind all others
of their step. Each task is tried once at each step, and what was created after the call began waits for the next call:
so the call ends, even if its tasks create others or repeat all the time.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from pynamodb_tracker import clock
from pynamodb_tracker.status import Codes
from pynamodb_tracker.transitions.lock import new_token
from pynamodb_tracker.transitions.participants import MadeDue


class Source(Protocol):
    """The ids of the tasks of one step, each once."""

    def __iter__(self) -> Iterator[str]:
        """Yield them."""

    def note_answer(self, *, was_taken: bool) -> None:
        """Note that a claim was answered, or is not sent any more, and whether another worker had the task first."""

    def count_in(self, task_id: str) -> bool:
        """Count a task as tried that a run has made due; False if it was tried before, or is not to be tried."""


class Feeding:
    """The tasks that a call tries, for threads or asyncio tasks, which say how each attempt has ended."""

    def __init__(
        self,
        sources: Mapping[Codes, Source],
        *,
        limit: int | None = None,
        goes_on: Callable[[], bool] | None = None,
    ) -> None:
        """At most `limit` tasks are started; none is given once `goes_on`, which is called for each, returns False."""
        self.sources = sources
        self._limit = math.inf if limit is None else limit
        self._goes_on = goes_on
        self._began = new_token()
        """Tasks that have a later token as their `creation` wait for the next call."""
        self._behind = {codes: deque[str]() for codes in sources}
        """What runs of this call have made due, by the step that it is due at."""
        self._changed = threading.Condition()
        self._started = 0
        """Tasks that were given, without those that were refused; `limit` bounds requests that fail, too."""
        self._running = 0
        self._stopped = False

    def __iter__(self) -> Iterator[tuple[Codes, str]]:
        """Yield one task of each step in turn; before it ends, it waits for what running tasks make due."""
        ids = {codes: iter(source) for codes, source in self.sources.items()}
        while True:
            was_empty = True
            for codes, of_step in ids.items():
                if not self._has_room():
                    return
                if codes not in self._behind:
                    continue
                task_id = next(of_step, None)
                if task_id is None and (task_id := self._next_behind(codes)) is None:
                    continue
                if self._goes_on is not None and not self._goes_on():
                    return
                was_empty = False
                with self._changed:
                    self._running += 1
                    self._started += 1
                yield codes, task_id
            if was_empty and not self._is_more_due():
                return

    def note_end(self, made_due: Iterable[MadeDue], *, was_refused: bool = False) -> None:
        """Take note of what an attempt has made due, or will have at a known time, and of whether it was refused."""
        now = clock.now()
        with self._changed:
            self._running -= 1
            if was_refused:
                self._started -= 1
            self._changed.notify()
            for task in made_due:
                codes = next((codes for codes in task.model.tracker.steps if codes.pending == task.status), None)
                if codes in self._behind and task.creation < self._began and task.due_time <= now:
                    self._behind[codes].append(task.task_id)

    def leave_out(self, codes: Codes) -> None:
        """Give no more tasks of this step, and do not count the one that was given, because it is not started."""
        with self._changed:
            self._behind.pop(codes, None)
            self._started -= 1

    def stop(self) -> None:
        """Give no more tasks."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _has_room(self) -> bool:
        """Return whether one more task may start, once that does not depend on those that run."""
        with self._changed:
            self._changed.wait_for(lambda: self._started < self._limit or not self._running or self._stopped)
            return self._started < self._limit and not self._stopped

    def _is_more_due(self) -> bool:
        """Return True as soon as a run has made something due, and False once none of them can."""
        with self._changed:
            self._changed.wait_for(lambda: any(self._behind.values()) or not self._running or self._stopped)
            return any(self._behind.values())

    def _next_behind(self, codes: Codes) -> str | None:
        behind = self._behind.get(codes)
        while behind:
            task_id = behind.popleft()
            if self.sources[codes].count_in(task_id):
                return task_id
        return None
