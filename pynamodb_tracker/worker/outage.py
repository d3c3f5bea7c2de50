"""Pauses between polls, and outages: how long a worker waits after failed requests, and what it logs about them."""

from __future__ import annotations

import logging
import random
from datetime import datetime, timedelta

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock

log = logging.getLogger("pynamodb_tracker")

_SHORTEST = timedelta(seconds=0.5)
"""The first pause; also the time over which workers spread that wait for the same moment."""

_LOG_INTERVAL = timedelta(minutes=1)
"""Between two warnings about the same outage."""


class Backoff:
    """A pause that doubles up to the longest one until it is reset, each time with jitter: 50 to 100 % of it."""

    def __init__(self, longest: timedelta) -> None:
        self._longest = longest
        self._first = min(_SHORTEST, longest)
        self._next = self._first

    def reset(self) -> None:
        """Start again with the first pause."""
        self._next = self._first

    def draw(self) -> timedelta:
        """Return the next pause."""
        whole, self._next = self._next, min(2 * self._next, self._longest)
        return whole * random.uniform(0.5, 1)  # noqa: S311 - spreads load, guards nothing


def jitter() -> timedelta:
    """Return up to half a second, so that workers that wait for the same time do not all poll at once."""
    return _SHORTEST * random.random()  # noqa: S311 - spreads load, guards nothing


class Outage:
    """Requests about one step that fail one after the other."""

    def __init__(self, step: str, longest: timedelta) -> None:
        self._step = step
        self._backoff = Backoff(longest)
        self._since: datetime | None = None
        self._failures = 0
        self._next_log = clock.now()

    @property
    def is_ongoing(self) -> bool:
        """Whether the last request failed."""
        return self._since is not None

    def note_failure(self, error: Exception) -> timedelta:
        """Count a failure, log it at most once a minute, and return how long to wait."""
        now, pause = clock.now(), self._backoff.draw()
        self._failures += 1
        since = self._since = self._since or now
        if now >= self._next_log:
            self._next_log = now + _LOG_INTERVAL
            log.warning(
                "requests about %s have failed %d times since %s; the worker keeps trying: %s: %s",
                self._step,
                self._failures,
                since.isoformat(timespec="seconds"),
                type(error).__name__,
                error,
                exc_info=None if isinstance(error, PynamoDBException) else error,
                extra={"step": self._step},
            )
        return pause

    def note_success(self) -> None:
        """Note that a request was answered, which ends the outage."""
        if self._since is not None:
            log.info("requests about %s succeed again, after %d failures", self._step, self._failures)
            self._since, self._failures = None, 0
            self._backoff.reset()
