"""One run of a step: claims the task, runs the user's block, and records how it ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException

from pynamodb_tracker import transitions
from pynamodb_tracker.arguments import shown
from pynamodb_tracker.exceptions import GiveUp, LockLostError, RetryLater, TrackerError, ValueNotStorableError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.heartbeat import Heartbeat
from pynamodb_tracker.model.changes import changes_of
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import Lock, PendingSuccess, StepStatements

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")


class RetryPolicy(Protocol):
    """What a step declares about failures."""

    retry_delay: timedelta | Callable[[int], timedelta] | None
    give_up_on: Sequence[type[BaseException]]


class Run(AbstractContextManager[ExecutionContext[T], bool | None], Generic[T]):
    """The context manager that `start` returns; it is entered once."""

    __slots__ = (
        "also_from",
        "detailed_error",
        "finisher",
        "heartbeat",
        "lock",
        "lock_for",
        "payload",
        "policy",
        "skip_error",
        "statements",
        "task_id",
    )  # no dataclass: building one takes time at every cold start

    def __init__(
        self,
        statements: StepStatements[T],
        policy: RetryPolicy,
        task_id: str,
        lock_for: timedelta,
        also_from: Collection[int],
        *,
        detailed_error: bool,
        skip_error: bool,
        heartbeat: bool,
        payload: str | None,
    ) -> None:
        self.statements = statements
        self.policy = policy
        self.task_id = task_id
        self.lock_for = lock_for
        self.also_from = also_from
        self.detailed_error = detailed_error
        self.skip_error = skip_error
        self.payload = payload
        """The fingerprint of what the task is started with; None if that is not compared."""
        self.heartbeat: Heartbeat[T] | bool = heartbeat
        """Whether the run uses a heartbeat; the heartbeat itself once it is created."""
        self.lock: Lock[T] | None = None
        self.finisher = threading.Lock()
        """Acquired by the call that ends the run: `__exit__`, or `give_back` while the block still runs."""

    if not TYPE_CHECKING:  # type checkers know that there are no other attributes

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an AttributeError; if a member of the context was meant, it says how to get there."""
            if name.startswith("_") or not hasattr(ExecutionContext, name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            start = f"{self.statements.codes.step}.start({self.task_id!r})"
            raise AttributeError(
                f"{start} is used in a with statement: write `with {start} as ctx:`, and in its block ctx.{name}",
                name=name,
                obj=self,
            )

    def __enter__(self) -> ExecutionContext[T]:
        """Claim the task; an error says why it was refused."""
        if self.lock is not None:
            raise RuntimeError(f"this run of {self.task_id!r} was entered before: call start() for each run")
        lock = self.lock = transitions.claim(
            self.statements,
            self.task_id,
            lock_for=self.lock_for,
            detailed=self.detailed_error,
            also_from=self.also_from,
            payload=self.payload,
        )
        if self.heartbeat:
            self._start_heartbeat(lock)
        return ExecutionContext(lock, self.lock_for)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Record success, release or failure; with `skip_error`, suppress the block's exception once it is recorded."""
        lock = self.lock
        if lock is None:
            raise RuntimeError(f"this run of {self.task_id!r} was never entered")
        if not self.finisher.acquire(blocking=False):
            return _end_after_give_back(lock, error)
        self._stop_block(lock)
        if lock.pending_success is not None:
            return self._end_with_pending_success(lock, lock.pending_success, error)
        if error is not None:
            return self._end_without_success(lock, error)
        try:
            self._record(lock, transitions.succeed)
        except ValueNotStorableError as unstorable:  # the only thing that turns finished work into a failure
            self._fail(lock, unstorable)
            raise
        return False

    def give_back(self) -> bool:
        """Release the task although its block still runs in another thread; return whether that is on record.

        Nothing of the block is recorded from then on: its writes, and its end, are refused with LockLostError. A block
        that records its success in a transaction is left alone, and so is one that is ending: if it were released while
        such a transaction is on its way, it would be impossible to find out which of the two was applied.
        """
        lock = self.lock
        if lock is None or _has_pending_success(lock) or not self.finisher.acquire(blocking=False):
            return False
        self._stop_block(lock)
        if _has_pending_success(lock):  # since a moment ago: its transaction may be on its way
            self.finisher.release()
            return False
        released = self._record_after(lock, KeyboardInterrupt(), transitions.release)
        lock.lost = _given_back(lock)
        return released

    def _start_heartbeat(self, lock: Lock[T]) -> None:
        """Start the heartbeat; if that fails, the attempt is released, because its block never started."""
        self.heartbeat = Heartbeat(lock, self.lock_for)
        try:
            self.heartbeat.start()
        except BaseException as error:
            self._stop_block(lock)
            self._record_after(lock, error, transitions.release)
            raise

    def _stop_block(self, lock: Lock[T]) -> None:
        """Stop the heartbeat, and refuse further writes of the block."""
        lock.ended = True
        if isinstance(self.heartbeat, Heartbeat):
            self.heartbeat.stop()

    def _end_with_pending_success(self, lock: Lock[T], pending: PendingSuccess, error: BaseException | None) -> bool:
        """Record nothing more if a transaction has recorded the success; otherwise the attempt fails."""
        if not pending.recorded:
            reason = _not_committed(lock, pending) if error is None else error
            pending.error = None
            skipped = self._end_without_success(lock, reason)  # first finds out whether the success was recorded
            if not pending.recorded:
                if error is None and not skipped:
                    raise reason
                return skipped
        _check_after_success(lock, error)
        return False

    def _end_without_success(self, lock: Lock[T], error: BaseException) -> bool:
        """Record release or failure; return whether the error is skipped."""
        if isinstance(error, KeyboardInterrupt):
            self._record_after(lock, error, transitions.release)
            return False
        recorded = self._fail(lock, error)
        return recorded and self.skip_error and isinstance(error, Exception)

    def _fail(self, lock: Lock[T], error: BaseException) -> bool:
        """Record the failure; return whether it is on record."""
        final = isinstance(error, (GiveUp, *self.policy.give_up_on))
        delay, interrupt = timedelta(0), None
        try:
            delay = delay if final else delay_after(self.policy, lock.attempt, error, lock.step)
        except KeyboardInterrupt as pressed:  # in the user's retry_delay: the failure is recorded before it is raised
            interrupt = pressed
        recorded = self._record_after(lock, error, partial(transitions.fail, error=error, delay=delay, final=final))
        if interrupt is not None:
            raise interrupt
        return recorded

    def _record_after(self, lock: Lock[T], error: BaseException, finish: Callable[[Lock[T]], None]) -> bool:
        """Record how the block ended after an error; return whether that is on record, or add a note to the error."""
        try:
            self._record(lock, finish)
        except (LockLostError, PynamoDBConnectionError) as unrecorded:
            add_note(error, f"pynamodb_tracker could not record this: {unrecorded}")
            return False
        return True

    def _record(self, lock: Lock[T], finish: Callable[[Lock[T]], None]) -> None:
        """Record how the run ended; try once more if an interrupt, such as Ctrl-C, stops that, and then raise it."""
        try:
            self._finish(lock, finish)
        except Exception:
            raise
        except BaseException as interrupt:
            try:
                self._finish(lock, finish)
            except (PynamoDBException, TrackerError) as unrecorded:
                add_note(interrupt, f"pynamodb_tracker could not record how the block ended: {unrecorded}")
            raise

    def _finish(self, lock: Lock[T], finish: Callable[[Lock[T]], None]) -> None:
        """Send the end of the run, unless the row has proved that it would be refused."""
        if isinstance(self.heartbeat, Heartbeat):
            self.heartbeat.join()
        with lock.writing:
            if lock.lost is not None:
                lock.check()
            pending = lock.pending_success
            try:
                if pending is not None:
                    transitions.settle_success(lock, pending)
                if pending is None or not pending.recorded:
                    finish(lock)
            except LockLostError as proof:
                lock.record_loss(proof)
                raise


def delay_after(policy: RetryPolicy, attempt: int, error: BaseException, step: str) -> timedelta:
    """Return the pause before the next attempt; a failure is recorded even if the user's function for it fails."""
    if isinstance(error, RetryLater):
        return _checked_delay(getattr(error, "delay", None), error, "the delay of RetryLater is")
    retry_delay = policy.retry_delay
    if not callable(retry_delay):
        return retry_delay or timedelta(0)
    try:
        delay: object = retry_delay(attempt)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        add_note(error, f"retry_delay({attempt}) raised {raised!r}: the next attempt may start at once")
        log.exception("retry_delay(%s) of step %s failed: the next attempt may start at once", attempt, step)
        return timedelta(0)
    return _checked_delay(delay, error, f"retry_delay({attempt}) returned")


def _checked_delay(delay: object, error: BaseException, source: str) -> timedelta:
    """Return the delay if it is valid; otherwise return zero, and add a note to the error."""
    if isinstance(delay, timedelta) and delay >= timedelta(0):
        return delay
    add_note(error, f"{source} {shown(delay)}, no timedelta of zero or more: the next attempt may start at once")
    return timedelta(0)


def add_note(error: BaseException, text: str) -> None:
    """Add a note to the user's exception; one that takes none, such as a frozen dataclass, stays as it is."""
    try:
        error.add_note(text)
    except Exception:
        log.exception("%s takes no note: %s", type(error).__name__, text)


def _has_pending_success(lock: Lock[T]) -> bool:
    """Return whether the block uses a transaction to record its success."""
    return lock.pending_success is not None


def _given_back(lock: Lock[T]) -> LockLostError:
    task_id = lock.task.task_id
    return LockLostError(
        f"cannot finish {lock.step} of {type(lock.task).__name__} {task_id!r}: it was released while the block still "
        "ran, so that another worker can take it",
        task_id=task_id,
    )


def _end_after_give_back(lock: Lock[T], error: BaseException | None) -> bool:
    """Record nothing: the task was released while the block ran."""
    lost = lock.lost or _given_back(lock)
    if error is None:
        raise lost
    add_note(error, f"pynamodb_tracker could not record this: {lost}")
    return False


def _not_committed(lock: Lock[T], pending: PendingSuccess) -> Exception:
    """Return why a block without an error has failed: it caught the error of its transaction, or did not commit it."""
    message = (
        f"ctx.transaction(succeed=True) of {lock.step} of {type(lock.task).__name__} {lock.task.task_id!r} was not "
        "committed, so this attempt has failed"
    )
    reason, pending.error = pending.error, None
    if isinstance(reason, Exception):
        add_note(reason, f"pynamodb_tracker: {message}")
        return reason
    error = TrackerError(f"{message}: use it in a with statement, and let that end")
    error.__cause__ = reason
    return error


def _check_after_success(lock: Lock[T], error: BaseException | None) -> None:
    """Report what came too late to be recorded, after a transaction had recorded the success."""
    task = lock.task
    named = f"{lock.step} of {type(task).__name__} {task.task_id!r}"
    if error is not None:
        add_note(
            error, f"pynamodb_tracker: a transaction had recorded the success of {named} before; it stays recorded"
        )
        fields = {"task_id": task.task_id, "step": lock.step}
        log.error("the block of %s raised after its success was recorded: %r", named, error, extra=fields)
        return
    try:
        late = list(changes_of(task))
    except ValueNotStorableError as unstorable:
        late = [unstorable.attribute]
    if late:
        log.error("%s of %s changed after its success was recorded, and that is not saved", ", ".join(late), named)
        raise AttributeError(
            f"{', '.join(late)} of {named} changed after a transaction had recorded the success; that is not saved: "
            "change it before the transaction is committed",
            name=late[0],
            obj=task,
        )
