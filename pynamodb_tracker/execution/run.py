"""One run: claims the task, runs the user's block, and records how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Generic, TypeVar

from pynamodb_tracker import transitions
from pynamodb_tracker.exceptions import GiveUp, LockLostError, ValueNotStorableError
from pynamodb_tracker.execution import recording as ending
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.heartbeat import Heartbeat
from pynamodb_tracker.execution.retry_policy import Policy, delay_after
from pynamodb_tracker.model.row import TaskRow

__all__ = ["Run"]

T = TypeVar("T", bound=TaskRow)


@dataclass(slots=True)
class Run(AbstractContextManager[ExecutionContext[T], bool | None], Generic[T]):
    """The context manager that `start` returns; it is entered once."""

    writes: transitions.StepWrites[T]
    policy: Policy
    task_id: str
    lock_for: timedelta
    also_from: Collection[int]
    detailed_error: bool
    skip_error: bool
    heartbeat: bool = False
    lock: transitions.Lock[T] | None = None
    beating: Heartbeat[T] | None = None
    over: threading.Lock = field(default_factory=threading.Lock)
    """Taken by who ends the run: the block, or `give_back` while it still runs; never released."""

    def __enter__(self) -> ExecutionContext[T]:
        """Claim the task; an error says why it is refused."""
        if self.lock is not None:
            raise RuntimeError(f"this run of {self.task_id!r} was entered before: call start() for each run")
        self.lock = transitions.claim(
            self.writes,
            self.task_id,
            lock_for=self.lock_for,
            detailed=self.detailed_error,
            also_from=self.also_from,
        )
        if self.heartbeat:
            self._begin_to_beat(self.lock)
        return ExecutionContext(self.writes, self.lock, self.lock_for)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Record success, release or failure; the error leaves unless it is recorded and to be skipped."""
        if self.lock is None:
            raise RuntimeError(f"this run of {self.task_id!r} was never entered")
        if not self.over.acquire(blocking=False):
            return self._end_too_late(self.lock, error)
        self._end(self.lock)
        if self.lock.promise is not None:
            return self._end_promised(self.lock, self.lock.promise, error)
        if error is None:
            self._succeed(self.lock)
            return False
        return self._end_without_success(self.lock, error)

    def give_back(self) -> bool:
        """Release the task though its block still runs in another thread, and tell whether that is on record.

        Nothing of the block is recorded from then on: its orders, and its end, are refused with LockLostError. A block
        that is to record its success in a transaction is left alone, and so is one that is ending: who releases a task
        while such a transaction is on its way cannot tell, later, which of both was applied.
        """
        lock = self.lock
        if lock is None or _is_promised(lock) or not self.over.acquire(blocking=False):
            return False
        self._end(lock)
        if _is_promised(lock):  # in this moment: it may be on its way
            self.over.release()
            return False
        released = self._release(lock, KeyboardInterrupt())
        lock.lost = self._given_back(lock)
        return released

    def _end_too_late(self, lock: transitions.Lock[T], error: BaseException | None) -> bool:
        """Record nothing: the task was given back meanwhile."""
        told = lock.lost or self._given_back(lock)
        if error is None:
            raise told
        ending.note(error, f"pynamodb_tracker could not record this: {told}")
        return False

    def _given_back(self, lock: transitions.Lock[T]) -> LockLostError:
        step, task_id = self.writes.codes.step, self.task_id
        return LockLostError(
            f"cannot finish {step} of {type(lock.task).__name__} {task_id!r}: it was given back while the block still "
            "ran, so that another worker can take it",
            task_id=task_id,
        )

    def _end_promised(
        self, lock: transitions.Lock[T], promise: transitions.Promise, error: BaseException | None
    ) -> bool:
        """Record nothing more where a transaction has recorded the success; where none has, the attempt fails."""
        if not promise.kept:
            reason = ending.broken(promise, lock.task, self.writes.codes.step) if error is None else error
            promise.broken_by = None
            skipped = self._end_without_success(lock, reason)  # finds out first whether the promise was kept after all
            if not promise.kept:
                if error is None and not skipped:
                    raise reason
                return skipped
        ending.check_after_success(lock.task, self.writes.codes.step, error)
        return False

    def _end_without_success(self, lock: transitions.Lock[T], error: BaseException) -> bool:
        """Record release or failure, and tell whether the error is to be skipped."""
        if isinstance(error, KeyboardInterrupt):
            self._release(lock, error)
            return False
        recorded = self._fail(lock, error)
        return recorded and self.skip_error and isinstance(error, Exception)

    def _begin_to_beat(self, lock: transitions.Lock[T]) -> None:
        """Start the heartbeat; where that fails, the attempt is given back, for its block never began."""
        self.beating = Heartbeat(self.writes, lock, self.lock_for)
        try:
            self.beating.start()
        except BaseException as error:
            self._end(lock)
            self._release(lock, error)
            raise

    def _end(self, lock: transitions.Lock[T]) -> None:
        """Let nothing of the block be sent any more."""
        lock.ended = True
        if self.beating is not None:
            self.beating.stop()

    def _finish(
        self, lock: transitions.Lock[T], finish: Callable[[transitions.StepWrites[T], transitions.Lock[T]], None]
    ) -> None:
        """Record how the run ended, unless the row has proved that this would be refused."""
        if self.beating is not None:
            self.beating.join()
        with lock.writing:
            lock.check()
            try:
                transitions.settled(self.writes, lock)
                if lock.promise is None or not lock.promise.kept:
                    finish(self.writes, lock)
            except LockLostError as proof:
                lock.mourn(proof)
                raise

    def _succeed(self, lock: transitions.Lock[T]) -> None:
        """Record the success; a value that cannot be stored fails the attempt, nothing else does."""
        try:
            ending.insist(lambda: self._finish(lock, transitions.succeed))
        except ValueNotStorableError as error:
            self._fail(lock, error)
            raise

    def _fail(self, lock: transitions.Lock[T], error: BaseException) -> bool:
        """Record the failure, and tell whether it is on record."""
        final = isinstance(error, (GiveUp, *self.policy.give_up_on))
        delay, interrupt = timedelta(0), None
        try:
            delay = delay if final else delay_after(self.policy, lock.attempt, error, self.writes.codes.step)
        except KeyboardInterrupt as pressed:  # in the user's function: what happened is recorded before it leaves
            interrupt = pressed
        fail = partial(transitions.fail, error=error, delay=delay, final=final)
        recorded = ending.recorded(error, lambda: self._finish(lock, fail))
        if interrupt is not None:
            raise interrupt
        return recorded

    def _release(self, lock: transitions.Lock[T], error: BaseException) -> bool:
        """Give the attempt back, and tell whether that is on record."""
        return ending.recorded(error, lambda: self._finish(lock, transitions.release))


def _is_promised(lock: transitions.Lock[T]) -> bool:
    """Tell whether a transaction is to record the success."""
    return lock.promise is not None
