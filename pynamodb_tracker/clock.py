"""The one clock of the library: every stored time comes from `now`, and tests stop it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

__all__ = ["Clock", "StoppedClock", "now", "sleep", "stamp", "use"]


class Clock:
    """The system's clock, in UTC."""

    def now(self) -> datetime:
        """Return the time of day as an aware datetime in UTC, to the microsecond."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait for real."""
        time.sleep(seconds)


class StoppedClock(Clock):
    """A clock that moves only when it is told to; waiting moves it and takes no time."""

    def __init__(self, at: datetime | None = None) -> None:
        if at is not None and at.tzinfo is None:
            raise ValueError(f"a stopped clock needs an aware datetime, not {at!r}: add tzinfo=UTC")
        self._now = (at or datetime.now(UTC)).astimezone(UTC)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the time at which the clock stands."""
        return self._now

    def advance(self, by: timedelta) -> None:
        """Move the clock by `by`, which may be negative: clocks of machines do go back."""
        with self._lock:
            self._now += by

    def sleep(self, seconds: float) -> None:
        """Move on by `seconds` at once."""
        self.advance(timedelta(seconds=seconds))


_clock = Clock()


def use(clock: Clock) -> Clock:
    """Make `clock` the library's clock for the whole process, and return the one that was in use."""
    global _clock
    before, _clock = _clock, clock
    return before


def now() -> datetime:
    """Return the time now: read once per transition, so that all times of a transition agree."""
    return _clock.now()


def sleep(seconds: float) -> None:
    """Wait between two tries."""
    _clock.sleep(seconds)


def stamp(time: datetime) -> str:
    """Return the stored form of an aware time: UTC, 31 characters whose order is the order of time."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "+0000"
