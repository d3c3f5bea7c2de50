"""What one step has to do: which task a worker tries next, and when it looks again where there is none.

A look reads the first entry of each state, one per shard: whether it is due, or when it will be. Only what is due is
read further, in a round: the oldest first, as a batch does. What lies in the future costs nothing until then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.batch.batch import Outcome
from pynamodb_tracker.batch.candidates import Feed
from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_passing
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.worker.cooldown import Rest
from pynamodb_tracker.worker.outage import Trouble
from pynamodb_tracker.worker.polling_backoff import Pause, spread
from pynamodb_tracker.worker.tally import Tally

__all__ = ["Backlog"]

log = logging.getLogger("pynamodb_tracker")

_ROUND = 1000
"""Tasks that a round tries at most: for longer, its order would be that of a time ago."""

_FRESH = timedelta(seconds=30)
"""How long a round is believed; also how often rows that seem to be abandoned are read, to see whether they are."""

_SERIES = 4
"""Failures after a look that was answered, after which it is the table that is in trouble, not a task."""

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


class Backlog:
    """The tasks of one step; one thread at a time takes from it."""

    def __init__(self, step: BoundStep[Any], longest: timedelta, *, threads: int = 1, eager: bool = False) -> None:
        """`longest` is the longest pause; an eager one makes none as long as it finds something."""
        self.step = step
        self.name = f"{step.model.__name__}.{step.name}"
        self.tally = Tally()
        self.is_taken = False
        """Whether a thread takes from it."""
        self.turn: datetime | None = None
        """Until when it keeps others from starting a task, where a rate bounds them."""
        self.next_look = _EARLIEST
        self._longest = longest
        self._threads = threads
        self._eager = eager
        self._pause = Pause(longest)
        self._trouble = Trouble(self.name, longest)
        self._rest = Rest(eager=eager)
        self._guard = threading.Lock()
        self._round: Iterator[str] | None = None
        self._is_cut = False
        """Whether the round is over because of what became of a task."""
        self._series = 0
        self._feed: Feed | None = None
        self._round_ends = _EARLIEST
        self._found = 0
        self._next_known = _LATEST
        self._next_takeover = _EARLIEST

    @property
    def is_idle(self) -> bool:
        """Whether the last look was answered, and found nothing to do now."""
        looked = self._round is None and not self._found and self.next_look > _EARLIEST
        return looked and not self._trouble.lasts

    def is_ready(self, now: datetime) -> bool:
        """Tell whether there may be a task."""
        waits = now < self.next_look <= now + self._longest  # a clock that was put back does not make it longer
        goes_on = self._round is not None and not self._is_cut
        return not self.is_taken and (goes_on or not waits)

    def take(self) -> str | None:
        """Return the id of a task to try, None where there is none now; whatever fails is waited for."""
        try:
            return self._next()
        except Exception as error:  # noqa: BLE001 - a worker goes on until it is told to stop
            self._cut(self._trouble.meet(error))
            return None

    def ended(self, task_id: str, outcome: Outcome, error: Exception | None, *, was_taken: bool) -> None:
        """Note what became of a task, and whether another worker had it first."""
        feed = self._feed
        if was_taken and feed is not None:
            feed.note_taken()
        with self._guard:
            self.tally += Tally(**{outcome: 1})
        if outcome != "refused":
            self._rest.tried(task_id, failed=outcome == "failed")
        elif _is_of_the_task(error):
            self._rest.broken(task_id)
            log.error("%s of %r cannot be started, and is left alone for a while: %s", self.name, task_id, error)
        else:
            self._rest.refused(task_id)
        self._weigh(error if outcome == "refused" else None)

    def _weigh(self, error: Exception | None) -> None:
        """Tell trouble with the table from trouble with a task: a value in its row is one of the task alone."""
        if not isinstance(error, PynamoDBException) or is_invalid(error):
            self._trouble.over()
            return
        pause = self._trouble.meet(error)
        self._series += 1
        if is_passing(error) or self._series >= _SERIES:
            self._cut(pause)

    def _next(self) -> str | None:
        now = clock.now()
        if self._round is None or self._is_cut or now >= self._round_ends:
            self._begin(now)
        for task_id in self._round or ():
            self._found += 1
            self._rest.run(task_id)
            return task_id
        self._end(now)
        if not self._found:
            self._trouble.over()
        return None

    def _begin(self, now: datetime) -> None:
        """Look, and begin a round over what is due."""
        self._is_cut = False
        first = self.step.next_due()
        self._series = 0
        self._next_known = min((time for time in first.values() if time > now), default=_LATEST)
        due = [state for state, time in first.items() if time <= now and self._is_wanted(state, now)]
        self._found = 0
        self._round_ends = now + _FRESH
        self._rest.forget(now)
        self._feed = self.step.feed(only=due, threads=self._threads) if due else None
        self._round = None if self._feed is None else islice(filter(self._rest.is_over, self._feed), _ROUND)

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

    def _cut(self, pause: timedelta) -> None:
        """End the round, from whatever thread, and look again after the pause."""
        self.next_look = clock.now() + pause
        self._is_cut = True


def _is_of_the_task(error: Exception | None) -> bool:
    """Tell whether a task was not started for a reason that lies in its row."""
    return type(error) is TaskError or (isinstance(error, PynamoDBException) and not is_passing(error))
