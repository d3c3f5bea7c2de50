"""Exact counts of a use case some time apart, from which it follows whether it keeps up: no counter is written."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pynamodb_tracker.status import Status
from pynamodb_tracker.step.state import State

_APART = timedelta(seconds=30)
"""How far two counts are apart at least; a later one replaces the last one until then."""
_KEPT = 120
"""Counts that are kept: an hour of a page that somebody looks at."""

_LEFT = (Status.PENDING, Status.IN_PROGRESS, Status.FAILED)


@dataclass(frozen=True, slots=True)
class Change:
    """How the numbers of tasks changed between two counts."""

    since: datetime
    until: datetime
    before: Mapping[State[Any], int]
    after: Mapping[State[Any], int]

    @property
    def left(self) -> int:
        """How many tasks were left to do at the end."""
        return _left_in(self.after)

    @property
    def a_minute(self) -> float:
        """How many more were left to do with each minute; below zero if it keeps up."""
        return (self.left - _left_in(self.before)) / ((self.until - self.since) / timedelta(minutes=1))

    @property
    def empty_in(self) -> timedelta | None:
        """How long it takes at this rate until nothing is left; None if it does not keep up."""
        return timedelta(minutes=self.left / -self.a_minute) if self.left and self.a_minute < 0 else None

    @property
    def by_state(self) -> dict[State[Any], int]:
        """How many more, or fewer, tasks each state has, where that changed."""
        states = dict.fromkeys([*self.before, *self.after])
        changes = {state: self.after.get(state, 0) - self.before.get(state, 0) for state in states}
        return {state: change for state, change in changes.items() if change}


class History:
    """The last exact counts of a use case, in this process."""

    def __init__(self) -> None:
        self._counts: deque[tuple[datetime, Mapping[State[Any], int]]] = deque(maxlen=_KEPT)
        self._guard = threading.Lock()

    def add(self, time: datetime, counts: Mapping[State[Any], int]) -> None:
        """Keep a count of all states; those at the end may be missing."""
        with self._guard:
            if self._counts and time <= self._counts[-1][0]:
                return
            if len(self._counts) > 1 and time - self._counts[-2][0] < _APART:
                self._counts.pop()
            self._counts.append((time, counts))

    @property
    def last(self) -> tuple[datetime, Mapping[State[Any], int]] | None:
        """The last count, and its time."""
        with self._guard:
            return self._counts[-1] if self._counts else None

    @property
    def change(self) -> Change | None:
        """What changed between the first count that is kept and the last one; None before there are two."""
        with self._guard:
            if len(self._counts) < 2:  # noqa: PLR2004 - a change is between two
                return None
            (since, before), (until, after) = self._counts[0], self._counts[-1]
        return Change(since, until, before, after)


def _left_in(counts: Mapping[State[Any], int]) -> int:
    return sum(number for state, number in counts.items() if state.status in _LEFT)
