"""A clock for tests of heartbeats: it is stopped, reports when a heartbeat waits, and freezes it as SIGSTOP would."""

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.clock import StoppedClock

GLANCE = 0.002
"""Seconds between two looks at the clock."""

PATIENCE = 30.0
"""Seconds after which a thread that does nothing fails the test."""


class StandingClock(StoppedClock):
    """A clock that never moves, so that what waits for it has no end of its own."""

    def sleep(self, seconds: float) -> None:  # noqa: ARG002 - however long
        """Let other threads run."""
        time.sleep(0.001)


class PacedClock(StoppedClock):
    """A stopped clock for one heartbeat at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._pauses: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._thawed = threading.Event()
        self._thawed.set()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Tell for how long, and wait from the moment before: whoever hears of it may move the clock at once."""
        end = self.now() + timedelta(seconds=seconds)
        self._pauses.put(seconds)
        while self.now() < end and not event.wait(GLANCE):
            pass
        self._thawed.wait()
        return event.is_set()

    def pause(self) -> float:
        """Return for how many seconds the heartbeat waits, once it has done all that was to do before."""
        return self._pauses.get(timeout=PATIENCE)

    def beat(self, after: timedelta) -> float:
        """Move on, and return the next pause: the beats that were due are then answered."""
        self.advance(after)
        return self.pause()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the heartbeat do nothing meanwhile."""
        self._thawed.clear()
        try:
            yield
        finally:
            self._thawed.set()


@contextmanager
def paced() -> Iterator[PacedClock]:
    """Make it the library's clock meanwhile."""
    stopped = PacedClock()
    before = clock.use(stopped)
    try:
        yield stopped
    finally:
        clock.use(before)


def heart() -> threading.Thread | None:
    """Return the thread of the heartbeat; None where there is none."""
    threads = (thread for thread in threading.enumerate() if thread.name.startswith("pynamodb_tracker heartbeat of"))
    return next(threads, None)
