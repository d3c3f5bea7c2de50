"""The library's only clock. Tests can stop it."""

import math
import threading
import time
from datetime import UTC, datetime, timedelta

NEVER = datetime.max.replace(tzinfo=UTC)
"""The due time of a task that waits for another task to end."""

LATEST = NEVER - timedelta(seconds=1)
"""The latest due time of any other task."""

_GLANCE = 0.005  # seconds between two checks of a stopped clock


class Clock:
    """The system's clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def seconds_until(self, time: datetime) -> float:
        return (time - self.now()).total_seconds()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait up to `seconds` for the event, and return whether it is set."""
        return event.wait(min(seconds, threading.TIMEOUT_MAX))

    def sleep_unless(self, stopped: threading.Event, seconds: float) -> bool:
        """Wait in real time, unless the event is set. Return whether it is."""
        return stopped.wait(min(seconds, threading.TIMEOUT_MAX))

    async def wait_async(self, seconds: float) -> None:
        import asyncio  # noqa: PLC0415 - slow

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

    def seconds_until(self, time: datetime) -> float:  # noqa: ARG002 - as in Clock
        """Return infinity, because this clock does not move during a request."""
        return math.inf

    def advance(self, by: timedelta) -> None:
        """Move the clock forward, or back if the duration is negative."""
        if not isinstance(by, timedelta):
            raise TypeError(f"a clock advances by a timedelta, not {by!r}: write timedelta(seconds=...)")
        with self._lock:
            self._now += by

    def sleep(self, seconds: float) -> None:
        self.advance(timedelta(seconds=seconds))

    def wait(self, event: threading.Event, seconds: float) -> bool:
        end = self.now() + timedelta(seconds=seconds)
        while self.now() < end:
            if event.wait(_GLANCE):  # nothing waits for both, the event and `advance`
                return True
        return event.is_set()

    def sleep_unless(self, stopped: threading.Event, seconds: float) -> bool:
        if not stopped.is_set():
            self.sleep(seconds)
        return stopped.is_set()

    async def wait_async(self, seconds: float) -> None:
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
    """Return the current time. A transition reads it once, so that all its stored times agree."""
    return datetime.now(UTC) if _clock is _SYSTEM else _clock.now()


def seconds_until(time: datetime) -> float:
    return (time - datetime.now(UTC)).total_seconds() if _clock is _SYSTEM else _clock.seconds_until(time)


def sleep(seconds: float) -> None:
    _clock.sleep(seconds)


def wait(event: threading.Event, seconds: float) -> bool:
    return _clock.wait(event, seconds)


def sleep_unless(stopped: threading.Event, seconds: float) -> bool:
    return _clock.sleep_unless(stopped, seconds)


async def wait_async(seconds: float) -> None:
    await _clock.wait_async(seconds)


def parse(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} lacks an offset from UTC")
    return time


def read(text: str) -> datetime | None:
    """Return a stored time, or None if the text is not an aware time."""
    try:
        return parse(text)
    except ValueError:
        return None


def in_words(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def stamp(time: datetime) -> str:
    """Return a time as it is stored: 31 characters in UTC, which sort chronologically."""
    if time.tzinfo is not UTC:
        time = time.astimezone(UTC)
    parts = time.year, time.month, time.day, time.hour, time.minute, time.second, time.microsecond
    return "%04d-%02d-%02dT%02d:%02d:%02d.%06d+0000" % parts  # noqa: UP031 - half the time of an f-string
