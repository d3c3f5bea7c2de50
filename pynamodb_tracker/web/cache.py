"""Answers that are kept for a moment: many viewers cost what one costs, and the page says how old an answer is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Generic, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web.metering import Spent, metered

V_co = TypeVar("V_co", covariant=True)
V = TypeVar("V")

_RATE = 20.0
"""Read units a second that a view may cost on average, however often it is asked for."""
_SOONEST = timedelta(seconds=1)
"""How soon an answer is asked for again, even if somebody wants a fresh one."""
_MOST = 200
"""Answers that are kept."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[V_co]):
    """What was found, when, and what that cost."""

    value: V_co
    spent: Spent
    time: datetime
    kept_for: timedelta
    asked: float
    """When it was asked for, by a clock that no test and no demo stops: costs are about real time."""
    answered: float
    """When it was there. It is kept from then on: those who waited for it while DynamoDB was slow do not ask again."""

    @property
    def age(self) -> timedelta:
        """How long ago it was asked for."""
        return timedelta(seconds=monotonic() - self.asked)

    def is_kept(self, *, fresh: bool = False) -> bool:
        """Return whether it is given to others, or to those who want a fresh one."""
        return timedelta(seconds=monotonic() - self.answered) < (_SOONEST if fresh else self.kept_for)


@dataclass(slots=True)
class _Asking:
    """One request for an answer: others who want it meanwhile wait, and share the answer or the error."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    error: Exception | None = None


class Cache:
    """Answers by key; while one is asked for, others who want it wait for it."""

    def __init__(self, least: timedelta) -> None:
        self._least = least
        """How long an answer is kept at least."""
        self._answers: dict[Hashable, Answer[Any]] = {}
        self._asking: dict[Hashable, _Asking] = {}
        self._gate = threading.Lock()
        self._round = 0
        self.total = Spent()
        """What all views have spent."""
        self.since = clock.now()

    def get(
        self, key: Hashable, models: Sequence[type[Task]], ask: Callable[[], V], *, fresh: bool = False
    ) -> Answer[V]:
        """Return the answer that is kept under the key; otherwise ask, and keep the answer if nothing changed since."""
        with self._gate:
            asking = self._asking.setdefault(key, _Asking())
        with asking.lock:
            if asking.error is not None:  # DynamoDB throttles, perhaps: asking once more for each viewer makes it worse
                raise asking.error
            known = self._answers.get(key)
            if known is not None and known.is_kept(fresh=fresh):
                return known
            before, time, asked = self._round, clock.now(), monotonic()
            with metered(*models) as spent:
                try:
                    value = ask()
                except Exception as error:
                    asking.error = error
                    with self._gate:
                        self._asking.pop(key, None)  # later requests ask again
                    raise
                finally:
                    self.total.add(spent)
            kept_for = max(self._least, timedelta(seconds=spent.reads / _RATE))
            answer = Answer(value, spent, time, kept_for, asked, monotonic())
            with self._gate:
                if self._round == before:
                    self._keep(key, answer)
            return answer

    def forget(self) -> None:
        """Drop all answers, after something was changed; one that is asked for meanwhile is not kept."""
        with self._gate:
            self._round += 1
            self._answers.clear()

    def _keep(self, key: Hashable, answer: Answer[Any]) -> None:
        self._answers.pop(key, None)  # the newest comes last
        self._answers[key] = answer
        expired = [each for each, known in self._answers.items() if not known.is_kept()]
        for old in {*expired, *list(self._answers)[:-_MOST]}:
            del self._answers[old]
        for each, asking in list(self._asking.items()):
            if each not in self._answers and not asking.lock.locked():
                del self._asking[each]
