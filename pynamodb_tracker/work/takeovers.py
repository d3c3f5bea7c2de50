"""Decides when abandoned tasks may start, because one of them may have killed its worker, and could kill this one.

- A dead worker's tasks run one at a time. After every eight that have ended, one more runs at the same time.
- A task on its last attempt runs alone: it waits until all others have ended, and none starts beside it.

The dispatcher asks under its lock, and a step's source keeps the task. A new rule of this kind belongs here.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.query.due import LeftBehind
from pynamodb_tracker.work.source import Given, StepSource

_LOOK_AGAIN = timedelta(seconds=5)  # whether another worker took the task that waits to run alone
_ENDED_PER_START = 8  # after so many ends, a dead worker's next task may run beside its others
_MOST_DEAD = 1000  # dead workers to remember


class Takeovers:
    def __init__(self, sources: Sequence[StepSource]) -> None:
        self.at_limit: set[str] = set()  # dead workers of which no more tasks may start now
        self.alone: Given | None = None  # the task that runs alone
        self.next_alone: StepSource | None = None  # its next task waits to run alone
        self.look_again = clock.now()
        self._counts: dict[str, tuple[int, int]] = {}  # how many tasks run, and have ended, by dead worker
        for source in sources:
            source.is_free = self.is_free

    def may_ask(self, source: StepSource, running: int, now: datetime) -> bool:
        if self.alone is not None:
            return False
        if self.next_alone is None:
            return True
        return source is self.next_alone and (not running or now >= self.look_again)

    def may_start(self, given: Given, running: int) -> bool:
        if self.alone is not None or self.next_alone not in (None, given.source):
            return False
        left = given.left
        return left is None or (self.is_free(left) and not (left.is_last and running))

    def is_free(self, task: str) -> bool:
        """Return whether a task that was set aside may start."""
        return not (isinstance(task, LeftBehind) and task.worker in self.at_limit)

    def set_aside(self, source: StepSource, given: Given | None) -> bool:
        """Keep a task that must not start now, if a step has found one. Return whether it begins to wait for others."""
        if given is not None and given.left is not None and not self.is_free(given.left):
            source.aside[given.left] = None
        elif given is not None:
            source.keep_next(given)
        begins = given is not None and source.waits_alone and self.next_alone is None
        if begins or source is self.next_alone:
            self.next_alone = source if source.waits_alone else None
            self.look_again = clock.now() + _LOOK_AGAIN
        return begins

    def note_start(self, given: Given) -> None:
        if self.next_alone is given.source:
            self.next_alone = None
        if given.left is not None:
            self._count(given.left.worker, running=1)
            self.alone = given if given.left.is_last else None

    def note_end(self, given: Given, *, was_refused: bool, again_alone: bool) -> None:
        if given.left is not None:
            self._count(given.left.worker, running=-1, ended=not was_refused)
        if given is self.alone:
            self.alone = None
        if again_alone:
            given.source.aside[LeftBehind(given.task_id, "", is_last=True)] = None

    def try_to_run_alone(self, given: Given, running: int) -> bool:
        if running == 1:
            self.alone = given
        return self.alone is given

    def _count(self, worker: str, *, running: int, ended: int = 0) -> None:
        if len(self._counts) >= _MOST_DEAD and worker not in self._counts:
            self._counts = {each: counts for each, counts in self._counts.items() if counts[0]}
        before = self._counts.get(worker, (0, 0))
        self._counts[worker] = running, ended = before[0] + running, before[1] + ended
        if running > ended // _ENDED_PER_START:
            self.at_limit.add(worker)
        else:
            self.at_limit.discard(worker)
