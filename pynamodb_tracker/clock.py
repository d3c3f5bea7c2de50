"""The library's only clock. Every stored time comes from `now`, so tests can stop the time."""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta

NEVER = datetime.max.replace(tzinfo=UTC)
"""The due time of a task that waits for another task to end."""

LATEST = NEVER - timedelta(seconds=1)
"""The latest due time for all other tasks."""

_GLANCE = 0.005
"""Seconds between two checks of a stopped clock."""


class Clock:
    """The system's clock, in UTC."""

    def now(self) -> datetime:
        """Return the time of day as an aware datetime in UTC, to the microsecond."""
        return datetime.now(UTC)

    def seconds_until(self, time: datetime) -> float:
        """Return the seconds until that time, or a negative number if it has passed."""
        return (time - self.now()).total_seconds()

    def sleep(self, seconds: float) -> None:
        """Sleep in real time."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait up to `seconds` for the event, and return whether it is set."""
        return event.wait(min(seconds, threading.TIMEOUT_MAX))

    def sleep_unless(self, stopped: threading.Event, seconds: float) -> bool:
        """Wait for real, unless the event is set. Return whether it is."""
        return stopped.wait(min(seconds, threading.TIMEOUT_MAX))

    async def wait_async(self, seconds: float) -> None:
        """Wait for real, on an event loop."""
        import asyncio  # noqa: PLC0415 - few programs need it

        await asyncio.sleep(min(seconds, threading.TIMEOUT_MAX))


class StoppedClock(Clock):
    """A clock that moves only when you call `advance`, or when the library sleeps."""

    def __init__(self, at: datetime | None = None) -> None:
        if not isinstance(at, datetime | None):
            raise TypeError(f"a stopped clock needs an aware datetime, not {at!r}")
        if at is not None and at.utcoffset() is None:
            raise ValueError(f"a stopped clock needs an aware datetime, not {at!r}: add tzinfo=UTC")
        self._now = (at or datetime.now(UTC)).astimezone(UTC)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the time that the clock shows."""
        return self._now

    def seconds_until(self, time: datetime) -> float:  # noqa: ARG002 - a stopped clock never reaches any time
        """Return infinity, because this clock does not move during a request."""
        return math.inf

    def advance(self, by: timedelta) -> None:
        """Move the clock forward, or back if the duration is negative."""
        if not isinstance(by, timedelta):
            raise TypeError(f"a clock advances by a timedelta, not {by!r}: write timedelta(seconds=...)")
        with self._lock:
            self._now += by

    def sleep(self, seconds: float) -> None:
        """Move forward by `seconds` immediately."""
        self.advance(timedelta(seconds=seconds))

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set, or the clock has moved by `seconds`. Return whether the event is set."""
        end = self.now() + timedelta(seconds=seconds)
        while self.now() < end:
            if event.wait(_GLANCE):  # no primitive waits for the event and for `advance`
                return True
        return event.is_set()

    def sleep_unless(self, stopped: threading.Event, seconds: float) -> bool:
        """Move forward by `seconds` at once, unless the event is set. Return whether it is."""
        if not stopped.is_set():
            self.sleep(seconds)
        return stopped.is_set()

    async def wait_async(self, seconds: float) -> None:
        """Wait on an event loop until the clock has moved forward by `seconds`."""
        import asyncio  # noqa: PLC0415 - as above

        end = self.now() + timedelta(seconds=seconds)
        while self.now() < end:  # noqa: ASYNC110 - `advance` notifies nobody
            await asyncio.sleep(_GLANCE)


_SYSTEM = Clock()
_clock = _SYSTEM


def use(clock: Clock) -> Clock:
    """Replace the clock for the whole process, and return the previous one."""
    global _clock
    before, _clock = _clock, clock
    return before


def now() -> datetime:
    """Return the current time in UTC. A transition reads it once, so all times that it stores agree."""
    return datetime.now(UTC) if _clock is _SYSTEM else _clock.now()


def seconds_until(time: datetime) -> float:
    """Return the seconds until that time, or infinity if the clock is stopped."""
    return (time - datetime.now(UTC)).total_seconds() if _clock is _SYSTEM else _clock.seconds_until(time)


def sleep(seconds: float) -> None:
    """Sleep for that many seconds, or move a stopped clock."""
    _clock.sleep(seconds)


def wait(event: threading.Event, seconds: float) -> bool:
    """Wait up to `seconds` for the event, and return whether it is set."""
    return _clock.wait(event, seconds)


def sleep_unless(stopped: threading.Event, seconds: float) -> bool:
    """Sleep, unless the event is set, and return whether it is."""
    return _clock.sleep_unless(stopped, seconds)


async def wait_async(seconds: float) -> None:
    """Wait on an event loop until the clock has moved forward by `seconds`."""
    await _clock.wait_async(seconds)


def parse(text: str) -> datetime:
    """Return a time in ISO 8601. Text without an offset from UTC raises a ValueError."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    return time


def read(text: str) -> datetime | None:
    """Return a stored time, or None if the text is not an aware time."""
    try:
        return parse(text)
    except ValueError:
        return None


def in_words(time: datetime) -> str:
    """Return a time as people read it, in UTC and whole seconds."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def stamp(time: datetime) -> str:
    """Return a time as it is stored: 31 characters in UTC, which sort chronologically."""
    if time.tzinfo is not UTC:
        time = time.astimezone(UTC)
    date = f"{time.year:04}-{time.month:02}-{time.day:02}"  # twice as fast as isoformat, and each run needs several
    return f"{date}T{time.hour:02}:{time.minute:02}:{time.second:02}.{time.microsecond:06}+0000"
