"""The heartbeat: a thread that keeps extending a run's lock while the block runs."""

import threading
import weakref
from datetime import timedelta
from typing import Generic

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock, transitions
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model.row import T

_SOON = 5.0  # seconds until a failed beat is retried, or less with a short lock
MOMENT = 1.0  # seconds to wait for a beat in progress when the block ends


class Heartbeat(Generic[T]):
    """The thread that extends a run's lock from `start` to `stop`, or until the lock is lost."""

    def __init__(self, journal: transitions.Journal[T], lock_for: timedelta) -> None:
        beats = Beats(journal, lock_for)
        self._stopped = beats.stopped
        self._thread = threading.Thread(
            target=beats.run, name=f"pynamodb_tracker heartbeat of {journal.claim.task.task_id!r}", daemon=True
        )
        # If a run is dropped inside its block, this object is collected, because the thread refers only to the beats.
        # Not at exit, where a forked process could meet a lock that its parent held.
        weakref.finalize(self, self._stopped.set).atexit = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def join(self) -> None:
        """Wait a moment for a beat in progress, so that it arrives before the end of the run."""
        # The garbage collector may end a dropped generator's block in any thread, even in the heartbeat's own.
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(MOMENT)


class Beats(Generic[T]):
    def __init__(self, journal: transitions.Journal[T], lock_for: timedelta) -> None:
        self.stopped = threading.Event()
        self._journal = journal
        self._claim = journal.claim
        self._lock_for = lock_for

    def run(self) -> None:
        """Extend the lock whenever a third of it has passed, until the block ends or the lock is lost."""
        try:
            pause = self.until_due()
            while not clock.wait(self.stopped, pause) and self.are_needed:
                pause = self.until_due() or self.beat() or self.until_due()
        except BaseException:  # another thread may raise SystemExit here, which ends a thread silently
            text = "the heartbeat of %s has ended, so its lock is no longer extended"
            log.exception(text, self._claim, extra=self._claim.log_fields)
            raise

    @property
    def are_needed(self) -> bool:
        return not self.stopped.is_set() and self._journal.lost is None and not self._journal.ended

    def until_due(self) -> float:
        """Return the seconds until a third of the lock has passed, counting extensions by the block."""
        due = self._claim.expire_time - self._lock_for * 2 / 3
        return max(0.0, (due - clock.now()).total_seconds())

    def beat(self) -> float:
        """Extend the lock. Return the seconds until the next try if that failed, otherwise zero."""
        try:
            transitions.extend(self._claim, self._lock_for)
        except LockLostError as proof:
            self._journal.note_refusal(proof)  # which does nothing if the run has ended
            if self._journal.lost is not None and not self.stopped.is_set():
                log.error("%s", proof, extra=self._claim.log_fields)  # noqa: TRY400 - it says all
            self.stopped.set()
        except Exception as error:
            if not self.stopped.is_set():
                claim, is_unexpected = self._claim, not isinstance(error, PynamoDBException)
                of = claim.step, type(claim.task).__name__, claim.task.task_id
                text = "a heartbeat of %s of %s %r failed, and will be retried: %r"
                log.warning(text, *of, error, exc_info=is_unexpected, extra=claim.log_fields)
            return RANDOM.uniform(0, min(_SOON, self._lock_for.total_seconds() / 6))
        return 0.0
