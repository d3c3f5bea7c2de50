"""What the user's block gets while it runs: the task, the attempt, and the lock that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pynamodb_tracker import clock, transitions
from pynamodb_tracker.arguments import check_duration, check_flags
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model.row import TaskRow

if TYPE_CHECKING:
    from pynamodb.transactions import TransactWrite

__all__ = ["ExecutionContext"]

T_co = TypeVar("T_co", bound=TaskRow, covariant=True)


class ExecutionContext(Generic[T_co]):
    """One attempt of one step of one task, which this worker has locked."""

    def __init__(self, writes: transitions.StepWrites[T_co], lock: transitions.Lock[T_co], lock_for: timedelta) -> None:
        self._writes = writes
        self._lock = lock
        self._lock_for = lock_for

    @property
    def task(self) -> T_co:
        """The row; what the block assigns to it is saved with the success, or not at all."""
        return self._lock.task

    @property
    def attempt(self) -> int:
        """Which attempt of this step it is, from 1; attempts of workers that died count."""
        return self._lock.attempt

    @property
    def fence(self) -> int:
        """Which claim of the task it is; it only grows, so other systems can refuse a lower one that comes late."""
        return self._lock.fence

    @property
    def lock_expire_time(self) -> datetime:
        """Until when nobody else takes the task."""
        return self._lock.expire_time

    @property
    def lock_lost(self) -> bool:
        """Whether this worker must no longer believe that it holds the task; asking costs no request.

        True for good once the row proved it to a heartbeat, a `save` or an `extend_lock`, which raise LockLostError
        from then on. True also while the lock is over by this machine's clock, as in a process that was frozen; a
        later heartbeat or `extend_lock` makes that False again if nobody took the task meanwhile. It is about the block
        while it runs: what has recorded its end holds nothing any more, and has lost nothing.
        """
        return self._lock.lost is not None or self._lock.expire_time <= clock.now()

    def extend_lock(self, lock_for: timedelta | None = None) -> None:
        """Hold the task until `lock_for` from now, by default the time that it was started with; never for less.

        Costs one request and 1 write unit per started KB of the row. LockLostError if another worker has it.
        """
        duration = self._lock_for if lock_for is None else check_duration("lock_for", lock_for)
        with self._holding("extend the lock of"):
            transitions.extend(self._writes, self._lock, duration)

    def save(self) -> None:
        """Save what the block has assigned so far, while the lock is held: it stays even if the block fails later.

        No request where nothing changed. LockLostError if another worker has the task, ValueNotStorableError if a
        value cannot be stored.
        """
        with self._lock.writing, self._holding("save"):
            transitions.save(self._writes, self._lock)

    def transaction(self, *, succeed: bool = False) -> TransactWrite:
        """Return a PynamoDB TransactWrite whose writes are applied only while this run holds the task.

        With `succeed` the success of the run, and what the block has assigned by then, are a part of it: all of that is
        applied or nothing, assignments after it are an AttributeError, and without a commit the attempt fails.
        LockLostError where the lock is lost; otherwise what PynamoDB raises, a condition of your own included, whose
        `cancellation_reasons` begin with that of the task's row. Nothing was applied then, unless a note on the error
        says so. It takes 99 actions of yours, none on the task's row, and costs twice the write units of its parts:
        https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html
        """
        from pynamodb_tracker.execution.transaction import TaskTransaction  # noqa: PLC0415 - for cold starts without one

        check_flags(succeed=succeed)
        with self._holding("open a transaction of"):
            lock = self._lock
        if succeed and lock.promise is None:
            lock.promise = transitions.Promise()
        promise = lock.promise if succeed else None
        return TaskTransaction(self._writes.table, lock.task, partial(self._commit, promise), promise)

    def _commit(self, promise: transitions.Promise | None, actions: list[dict[str, Any]]) -> None:
        with self._lock.writing, self._holding("commit a transaction of"):
            if promise is None:
                transitions.commit(self._writes, self._lock, actions)
            else:
                transitions.commit_success(self._writes, self._lock, promise, actions)

    def check_in(self, transaction: TransactWrite) -> None:
        """Let a transaction of your own be cancelled unless this run still holds the task when it is committed.

        The check is the first of its actions, and so of the `cancellation_reasons` of PynamoDB's TransactWriteError.
        It is on the task's row, which the transaction cannot write, too. LockLostError where the lock is known to be
        lost already.
        """
        from pynamodb.transactions import TransactWrite  # noqa: PLC0415 - as above

        from pynamodb_tracker.execution.transaction import TaskTransaction  # noqa: PLC0415 - as above

        given: object = transaction
        if not isinstance(given, TransactWrite) or isinstance(given, TaskTransaction):
            raise TypeError(
                f"check_in takes a TransactWrite of your own, not {transaction!r}; ctx.transaction() checks by itself"
            )
        with self._holding("check the lock in a transaction of"):
            transitions.check_in(self._writes, self._lock, transaction)

    @contextmanager
    def _holding(self, order: str) -> Iterator[None]:
        """Refuse an order at once where the block has ended or the lock is known to be lost; note it where it is."""
        if self._lock.ended:
            kept = self._lock.promise is not None and self._lock.promise.kept
            why = "a transaction has recorded its success" if kept else "the block has ended"
            raise LockLostError(
                f"cannot {order} {self._writes.codes.step} of {self.task.task_id!r}: {why}, and the lock ended with it",
                task_id=self.task.task_id,
            )
        self._lock.check()
        try:
            yield
        except LockLostError as proof:
            self._lock.lose(proof)
            raise

    def __repr__(self) -> str:
        name, step = type(self.task).__name__, self._writes.codes.step
        return f"<ExecutionContext {name}.{step} {self.task.task_id!r} attempt {self.attempt} fence {self.fence}>"
