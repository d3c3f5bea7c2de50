"""The one clock of the library: every stored time comes from `now`, and tests stop it."""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta

NEVER = datetime.max.replace(tzinfo=UTC)
"""The due time of a task that only another task's end makes due."""

LATEST = NEVER - timedelta(seconds=1)
"""The latest due time of all other tasks."""

_GLANCE = 0.005
"""Seconds between two checks of a stopped clock."""


class Clock:
    """The system's clock, in UTC."""

    def now(self) -> datetime:
        """Return the time of day as an aware datetime in UTC, to the microsecond."""
        return datetime.now(UTC)

    def seconds_until(self, time: datetime) -> float:
        """Return how long a request may take before that time; below zero after it."""
        return (time - self.now()).total_seconds()

    def sleep(self, seconds: float) -> None:
        """Wait for real."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set, at most that long, and return whether it is."""
        return event.wait(min(seconds, threading.TIMEOUT_MAX))

    def sleep_unless(self, stopped: threading.Event, seconds: float) -> bool:
        """Wait for real, unless the event is set. Return whether it is."""
        return stopped.wait(min(seconds, threading.TIMEOUT_MAX))

    async def wait_async(self, seconds: float) -> None:
        """Wait for real, on an event loop."""
        import asyncio  # noqa: PLC0415 - few programs need it

        await asyncio.sleep(min(seconds, threading.TIMEOUT_MAX))


class StoppedClock(Clock):
    """A clock that moves only when `advance` is called, or by sleeping, which takes no time."""

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

    def seconds_until(self, time: datetime) -> float:  # noqa: ARG002 - the time is never reached
        """Return infinity: this clock does not move during a request."""
        return math.inf

    def advance(self, by: timedelta) -> None:
        """Move the clock forward; a negative duration sets it back, which happens to real clocks, too."""
        if not isinstance(by, timedelta):
            raise TypeError(f"a clock advances by a timedelta, not {by!r}: write timedelta(seconds=...)")
        with self._lock:
            self._now += by

    def sleep(self, seconds: float) -> None:
        """Move forward by `seconds` at once."""
        self.advance(timedelta(seconds=seconds))

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set or the clock has moved forward by `seconds`; return whether it is set."""
        end = self.now() + timedelta(seconds=seconds)
        while self.now() < end:
            if event.wait(_GLANCE):  # nothing wakes up both when an event is set and when the clock is moved
                return True
        return event.is_set()

    def sleep_unless(self, stopped: threading.Event, seconds: float) -> bool:
        """Move forward by `seconds` at once, unless the event is set. Return whether it is."""
        if not stopped.is_set():
            self.sleep(seconds)
        return stopped.is_set()

    async def wait_async(self, seconds: float) -> None:
        """Wait, on an event loop, until the clock has moved forward by `seconds`."""
        import asyncio  # noqa: PLC0415 - as above

        end = self.now() + timedelta(seconds=seconds)
        while self.now() < end:  # noqa: ASYNC110 - nothing tells it that the clock was moved
            await asyncio.sleep(_GLANCE)


_SYSTEM = Clock()
_clock = _SYSTEM


def use(clock: Clock) -> Clock:
    """Make `clock` the library's clock for the whole process, and return the one that was in use."""
    global _clock
    before, _clock = _clock, clock
    return before


def now() -> datetime:
    """Return the time now; read once per transition, so that all times of a transition agree."""
    return datetime.now(UTC) if _clock is _SYSTEM else _clock.now()


def seconds_until(time: datetime) -> float:
    """Return how long a request may take before that time, in seconds; infinity if the clock is stopped."""
    return (time - datetime.now(UTC)).total_seconds() if _clock is _SYSTEM else _clock.seconds_until(time)


def sleep(seconds: float) -> None:
    """Wait between two tries."""
    _clock.sleep(seconds)


def wait(event: threading.Event, seconds: float) -> bool:
    """Wait until the event is set, at most that long, and return whether it is."""
    return _clock.wait(event, seconds)


def sleep_unless(stopped: threading.Event, seconds: float) -> bool:
    """Sleep, unless the event is set, and return whether it is."""
    return _clock.sleep_unless(stopped, seconds)


async def wait_async(seconds: float) -> None:
    """Wait, on an event loop, until the clock has moved forward by `seconds`."""
    await _clock.wait_async(seconds)


def parse(text: str) -> datetime:
    """Return a time in ISO 8601; a ValueError for one without an offset from UTC."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    return time


def read(text: str) -> datetime | None:
    """Return a stored time, or None for text that is no aware time."""
    try:
        return parse(text)
    except ValueError:
        return None


def in_words(time: datetime) -> str:
    """Return a time for people, in UTC and whole seconds."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def stamp(time: datetime) -> str:
    """Return the stored form of an aware time: UTC, 31 characters whose order is the order of time."""
    if time.tzinfo is not UTC:
        time = time.astimezone(UTC)
    date = f"{time.year:04}-{time.month:02}-{time.day:02}"  # twice as fast as isoformat, and each run needs several
    return f"{date}T{time.hour:02}:{time.minute:02}:{time.second:02}.{time.microsecond:06}+0000"
