"""A stopped clock for heartbeat tests. It reports when a heartbeat waits, and can freeze it like SIGSTOP."""

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
"""Seconds after which an idle thread fails the test."""


class StandingClock(StoppedClock):
    """A clock that never moves, so waiting for it never ends."""

    def sleep(self, seconds: float) -> None:  # noqa: ARG002 - it does not matter how long
        time.sleep(0.001)


class PacedClock(StoppedClock):
    """A stopped clock for one heartbeat at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._pauses: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._thawed = threading.Event()
        self._thawed.set()
        self.has_waited = threading.Event()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Report the duration, and wait. The end is computed first, because the test may move the clock immediately."""
        end = self.now() + timedelta(seconds=seconds)
        self._pauses.put(seconds)
        self.has_waited.set()
        while self.now() < end and not event.wait(GLANCE):
            pass
        self._thawed.wait()
        return event.is_set()

    def pause(self) -> float:
        """Return for how many seconds the heartbeat waits, once it has done everything before that."""
        return self._pauses.get(timeout=PATIENCE)

    def beat(self, after: timedelta) -> float:
        """Move forward, and return the next pause. By that time, all due heartbeats have their responses."""
        self.advance(after)
        return self.pause()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep the heartbeat from doing anything during this block."""
        self._thawed.clear()
        try:
            yield
        finally:
            self._thawed.set()


@contextmanager
def paced() -> Iterator[PacedClock]:
    """Make it the library's clock during this block."""
    stopped = PacedClock()
    before = clock.use(stopped)
    try:
        yield stopped
    finally:
        clock.use(before)


def heart() -> threading.Thread | None:
    """Return the heartbeat's thread, or None. On a paced clock, it waits by then, so moving the clock reaches it."""
    threads = (thread for thread in threading.enumerate() if thread.name.startswith("pynamodb_tracker heartbeat of"))
    found, paced_clock = next(threads, None), clock._clock
    if found is not None and isinstance(paced_clock, PacedClock):
        assert paced_clock.has_waited.wait(PATIENCE)
    return found


def beating_heart() -> threading.Thread:
    """Return the heartbeat's thread, which must be there."""
    found = heart()
    assert found is not None
    return found
