"""The heartbeat of a run: a thread that keeps extending the lock while the block runs."""

from __future__ import annotations

import logging
import random
import threading
import weakref
from datetime import timedelta
from typing import Generic, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock, transitions
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model.row import TaskRow

__all__ = ["Heartbeat"]

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")

_SOON = 5.0
"""Seconds within which a failed beat is tried again; less where the lock is short."""

_MOMENT = 1.0
"""Seconds for which the end of a block waits for a beat that is under way."""


class Heartbeat(Generic[T]):
    """The thread that extends the lock of one run, from `start` until `stop`, or until it is lost."""

    def __init__(self, writes: transitions.StepWrites[T], lock: transitions.Lock[T], lock_for: timedelta) -> None:
        beats = _Beats(writes, lock, lock_for)
        self._stopped = beats.stopped
        self._thread = threading.Thread(
            target=beats.run, name=f"pynamodb_tracker heartbeat of {lock.task.task_id!r}", daemon=True
        )
        # A run that was dropped inside of its block is ended by nobody; the thread knows the beats, not this object.
        weakref.finalize(self, self._stopped.set)

    def start(self) -> None:
        """Begin; RuntimeError where the system has no thread left."""
        self._thread.start()

    def stop(self) -> None:
        """Send no further beat. What comes back of one that is under way counts for nothing, and is not logged."""
        self._stopped.set()

    def join(self) -> None:
        """Wait a moment for a beat that is under way, so that it arrives before what ends the run."""
        # The garbage collector may end a dropped generator's block in any thread, this one included.
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_MOMENT)


class _Beats(Generic[T]):
    """What the thread does."""

    def __init__(self, writes: transitions.StepWrites[T], lock: transitions.Lock[T], lock_for: timedelta) -> None:
        self.stopped = threading.Event()
        self._writes = writes
        self._lock = lock
        self._lock_for = lock_for

    def run(self) -> None:
        """Extend the lock each time when a third of it is over, until that is to stop, or the lock is lost or ended."""
        pause = self._until_due()
        while not clock.wait(self.stopped, pause) and self._lock.lost is None and not self._lock.ended:
            pause = self._until_due() or self._beat()

    def _until_due(self) -> float:
        """Return the seconds until a third of the lock is over; a longer extension by the block saves beats."""
        due = self._lock.expire_time - self._lock_for * 2 / 3
        return max(0.0, (due - clock.now()).total_seconds())

    def _beat(self) -> float:
        """Extend the lock, and return the seconds until the next look at it."""
        try:
            transitions.extend(self._writes, self._lock, self._lock_for)
        except LockLostError as proof:
            self._lose(proof)
        except Exception as error:  # noqa: BLE001 - whatever it is, the lock is worth another try
            return self._failed(error)
        return self._until_due()

    def _lose(self, proof: LockLostError) -> None:
        """Let the block know, unless the run itself has ended: then the beat was refused because of that."""
        self._lock.lose(proof)
        if self._lock.lost is not None and not self.stopped.is_set():
            log.error("%s", proof, extra=self._about())
        self.stopped.set()

    def _failed(self, error: Exception) -> float:
        """Say what went wrong, and return the seconds until the next try, with full jitter."""
        if not self.stopped.is_set():
            log.warning(
                "a heartbeat of %s of %s %r failed, and is tried again: %r",
                self._writes.codes.step,
                type(self._lock.task).__name__,
                self._lock.task.task_id,
                error,
                exc_info=not isinstance(error, PynamoDBException),
                extra=self._about(),
            )
        return random.uniform(0, min(_SOON, self._lock_for.total_seconds() / 6))  # noqa: S311 - guards nothing

    def _about(self) -> dict[str, object]:
        step, lock = self._writes.codes.step, self._lock
        return {"task_id": lock.task.task_id, "step": step, "attempt": lock.attempt}
