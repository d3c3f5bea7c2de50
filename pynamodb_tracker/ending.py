"""How a run ends: what is recorded for each way out of the user's block, and what the exception then carries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import transitions
from pynamodb_tracker.exceptions import GiveUp, LockLostError, RetryLater, ValueNotStorableError
from pynamodb_tracker.model import TaskRow

__all__ = ["Ending"]

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")


class Policy(Protocol):
    """What a step says about failures."""

    retry_delay: timedelta | Callable[[int], timedelta] | None
    give_up_on: Sequence[type[BaseException]]


class Ending(Generic[T]):
    """The end of one run; the lock writes nothing after it."""

    def __init__(self, writes: transitions.StepWrites[T], lock: transitions.Lock[T], policy: Policy) -> None:
        self._writes = writes
        self._lock = lock
        self._policy = policy

    def succeed(self) -> None:
        """Record the success; a value that cannot be stored fails the attempt, nothing else does."""
        self._lock.ended = True
        try:
            transitions.succeed(self._writes, self._lock)
        except ValueNotStorableError as error:
            self.fail(error)
            raise
        except KeyboardInterrupt:
            transitions.succeed(self._writes, self._lock)  # the work is done: it is recorded before Ctrl-C leaves
            raise

    def fail(self, error: BaseException) -> bool:
        """Record the failure, and tell whether it is on record; where it is not, the error carries a note."""
        self._lock.ended = True
        final = isinstance(error, (GiveUp, *self._policy.give_up_on))
        delay = timedelta(0) if final else self._delay(error)
        return self._recorded(
            error, lambda: transitions.fail(self._writes, self._lock, error, delay=delay, final=final)
        )

    def release(self, error: BaseException) -> None:
        """Give the attempt back; where that cannot be recorded, the error carries a note."""
        self._lock.ended = True
        self._recorded(error, lambda: transitions.release(self._writes, self._lock))

    def _recorded(self, error: BaseException, write: Callable[[], None]) -> bool:
        try:
            write()
        except (LockLostError, PynamoDBConnectionError) as unrecorded:
            error.add_note(f"pynamodb_tracker could not record this: {unrecorded}")
            return False
        return True

    def _delay(self, error: BaseException) -> timedelta:
        """Return the pause before the next attempt; a failure is recorded even if the user's function for it fails."""
        if isinstance(error, RetryLater):
            return error.delay
        retry_delay, attempt = self._policy.retry_delay, self._lock.attempt
        if not callable(retry_delay):
            return retry_delay or timedelta(0)
        try:
            delay: object = retry_delay(attempt)
        except Exception as broken:
            error.add_note(f"retry_delay({attempt}) raised {broken!r}: no delay was taken")
            log.exception("retry_delay(%s) of step %s failed: no delay is taken", attempt, self._writes.codes.step)
            return timedelta(0)
        if isinstance(delay, timedelta) and delay >= timedelta(0):
            return delay
        error.add_note(
            f"retry_delay({attempt}) returned {delay!r}, not a timedelta of zero or more: no delay was taken"
        )
        return timedelta(0)
