"""Requests that fail, one after the other: how long to wait before the next, what is said about it, and when."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.worker.polling_backoff import Pause

__all__ = ["Trouble"]

log = logging.getLogger("pynamodb_tracker")

_SAID_AGAIN_AFTER = timedelta(minutes=1)


class Trouble:
    """The trouble with the requests about one step."""

    def __init__(self, step: str, longest: timedelta) -> None:
        self._step = step
        self._pause = Pause(longest)
        self._since: datetime | None = None
        self.failures = 0
        """How many in a row."""
        self._say_next = clock.now()

    @property
    def lasts(self) -> bool:
        """Whether the last request failed."""
        return self._since is not None

    def meet(self, error: Exception) -> timedelta:
        """Note a failure, say so once in a while, and return how long to wait."""
        now, pause = clock.now(), self._pause.draw()
        self.failures += 1
        since = self._since = self._since or now
        if now >= self._say_next:
            self._say_next = now + _SAID_AGAIN_AFTER
            log.warning(
                "looking for what %s has to do, or starting it, failed, %d times since %s; it goes on: %s: %s",
                self._step,
                self.failures,
                since.isoformat(timespec="seconds"),
                type(error).__name__,
                error,
                exc_info=None if isinstance(error, PynamoDBException) else error,
                extra={"step": self._step},
            )
        return pause

    def over(self) -> None:
        """Note that a request was answered."""
        if self._since is not None:
            log.info("the trouble with %s is over: %d failures since %s", self._step, self.failures, self._since)
            self._since, self.failures = None, 0
            self._pause.reset()
