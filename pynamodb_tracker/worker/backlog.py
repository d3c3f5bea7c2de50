"""What one step has to do: which task a worker tries next, and when it looks again where there is none.

A look reads the first entry of each state, one per shard: whether it is due, or when it will be. Only what is due is
read further, in a round: the oldest first, as a batch does. What lies in the future costs nothing until then.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.batch import Outcome
from pynamodb_tracker.bound_step import BoundStep
from pynamodb_tracker.faults import is_passing
from pynamodb_tracker.feed import Feed
from pynamodb_tracker.state import State
from pynamodb_tracker.worker.pause import Pause, spread
from pynamodb_tracker.worker.tally import Tally
from pynamodb_tracker.worker.trouble import Trouble

__all__ = ["Backlog"]

_ROUND = 1000
"""Tasks that a round tries at most: for longer, its order would be that of a time ago."""

_FRESH = timedelta(seconds=30)
"""How long a round is believed; also how often rows that seem to be abandoned are read, to see whether they are."""

_LAG = timedelta(seconds=1)
"""How long a task that was tried is left alone: the index may not have heard of it."""

_REFUSED = timedelta(seconds=10)
"""About how long one that was refused is left alone."""

_SERIES = 4
"""Failures in a row after which it is the table that is in trouble, not a task."""

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


class Backlog:
    """The tasks of one step; one thread at a time takes from it."""

    def __init__(self, step: BoundStep[Any], longest: timedelta, *, eager: bool = False) -> None:
        """`longest` is the longest pause; an eager one makes none as long as it finds something."""
        self.step = step
        self.name = f"{step.model.__name__}.{step.name}"
        self.tally = Tally()
        self.is_taken = False
        """Whether a thread takes from it."""
        self.next_look = _EARLIEST
        self._longest = longest
        self._eager = eager
        self._pause = Pause(longest)
        self._trouble = Trouble(self.name, longest)
        self._guard = threading.Lock()
        self._round: Iterator[str] | None = None
        self._feed: Feed | None = None
        self._round_ends = _EARLIEST
        self._found = 0
        self._next_known = _LATEST
        self._next_takeover = _EARLIEST
        self._at_rest: dict[str, datetime] = {}

    @property
    def is_idle(self) -> bool:
        """Whether the last look was answered, and found nothing to do now."""
        return self._round is None and not self._found and self.next_look > _EARLIEST and not self._trouble.lasts

    def is_ready(self, now: datetime) -> bool:
        """Tell whether there may be a task."""
        waits = now < self.next_look <= now + self._longest  # a clock that was put back does not make it longer
        return not self.is_taken and (self._round is not None or not waits)

    def take(self) -> str | None:
        """Return the id of a task to try, None where there is none now; whatever fails is waited for."""
        try:
            return self._next()
        except Exception as error:  # noqa: BLE001 - a worker goes on until it is told to stop
            self._wait(self._trouble.meet(error))
            return None

    def ended(self, task_id: str, outcome: Outcome, error: Exception | None, *, met: bool) -> None:
        """Note what became of a task, and whether another worker had it first."""
        with self._guard:
            self.tally += Tally(**{outcome: 1})
            self._at_rest[task_id] = clock.now() + (_refused() if outcome == "refused" else _LAG)
        if met and self._feed is not None:
            self._feed.met()
        if outcome == "refused" and isinstance(error, PynamoDBException):
            pause = self._trouble.meet(error)
            if is_passing(error) or self._trouble.failures >= _SERIES:  # else it may be about this task alone
                self._wait(pause)
        else:
            self._trouble.over()

    def _next(self) -> str | None:
        now = clock.now()
        if self._round is None or now >= self._round_ends:
            self._begin(now)
        for task_id in self._round or ():
            self._found += 1
            with self._guard:
                self._at_rest[task_id] = _LATEST
            return task_id
        self._end(now)
        if not self._found:
            self._trouble.over()
        return None

    def _begin(self, now: datetime) -> None:
        """Look, and begin a round over what is due."""
        first = self.step.next_due()
        self._next_known = min((time for time in first.values() if time > now), default=_LATEST)
        due = [state for state, time in first.items() if time <= now and self._is_wanted(state, now)]
        self._found = 0
        self._round_ends = now + _FRESH
        with self._guard:
            self._at_rest = {task_id: until for task_id, until in self._at_rest.items() if until > now}
        self._feed = Feed(partial(self.step.due_ids, only=due)) if due else None
        self._round = None if self._feed is None else islice(filter(self._is_rested, self._feed), _ROUND)

    def _is_wanted(self, state: State[Any], now: datetime) -> bool:
        """Tell whether a state is looked through: for abandoned tasks by their rows, so not each time."""
        if state != self.step.in_progress:
            return True
        if now < self._next_takeover <= now + _FRESH:
            return False
        self._next_takeover = now + _FRESH
        return True

    def _end(self, now: datetime) -> None:
        """End a round, and say when to look again."""
        self._round = None
        if self._found >= _ROUND or (self._found and self._eager):
            self.next_look, self._next_takeover = now, _EARLIEST
            return
        if self._found:
            self._pause.reset()
        pause = self._pause.draw()
        until_known = self._next_known - now + spread() if self._next_known < _LATEST else pause
        self.next_look = now + min(pause, until_known)

    def _is_rested(self, task_id: str) -> bool:
        return clock.now() >= self._at_rest.get(task_id, _EARLIEST)

    def _wait(self, pause: timedelta) -> None:
        self._round = None
        self.next_look = clock.now() + pause


def _refused() -> timedelta:
    return _REFUSED * random.uniform(0.5, 1.5)  # noqa: S311 - spreads load, guards nothing
