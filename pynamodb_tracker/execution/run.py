"""A run: claims the task, runs the block, and records how it ended."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock, instrumentation, transitions
from pynamodb_tracker.dynamodb.retries import ending_by, persist, send_once
from pynamodb_tracker.exceptions import (
    GiveUp,
    LockLostError,
    TaskError,
    TaskFormatError,
    TaskNotFoundError,
    TrackerError,
    ValueNotStorableError,
)
from pynamodb_tracker.execution.call import has_returned
from pynamodb_tracker.execution.context import ExecutionContext, choose_next, hold
from pynamodb_tracker.execution.heartbeat import Heartbeat
from pynamodb_tracker.execution.interrupts import is_cancellation, is_stop
from pynamodb_tracker.execution.retry_policy import RetryPolicy, delay_after, uses_up_attempt
from pynamodb_tracker.instrumentation import RunDetails, log
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.model.row import T
from pynamodb_tracker.transitions import Claim, Journal, NewTask, PendingSuccess, StepStatements

if TYPE_CHECKING:
    from pynamodb_tracker.control.slots import Slot, StepSlots
    from pynamodb_tracker.execution.observation import Observation


CLOSE_WITHIN = timedelta(seconds=5)  # how long to try to release a task while somebody waits for that


class SlotLostError(KeyboardInterrupt):
    """A run lost its slot during its claim. It is released, as after Ctrl-C."""


class _GiveBack:
    """Identifies a call of `give_back`, which ends a run."""


class Run(AbstractContextManager[ExecutionContext[T], bool | None], Generic[T]):
    """The context manager that `start` returns. It can be entered once."""

    on_time = False  # whether the task must be due by this clock, without the clock margin
    lives_long = False  # whether a worker, a batch or a sweep started the run
    find_slots: Callable[[], StepSlots | None] | None = None  # in the step's concurrency limit, if the run obeys one
    slot: Slot | None = None
    slot_wait = timedelta(0)
    heartbeat: Heartbeat[T] | None = None  # from the claim on
    own_slot: Slot | None = None  # a slot that it took itself, and gives back as soon as its end is recorded

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
        self.payload = payload  # the fingerprint of `must_match`
        self.has_heartbeat = heartbeat
        self.create: Callable[[], NewTask[T] | None] | None = None
        """Called if the task is missing. Returns a task to create and claim in one request, or creates it itself."""
        self.has_created = False
        self.unrecorded: PynamoDBException | TrackerError | None = None
        """Why a failure or release was not recorded. The block's error has a note."""
        self.finisher: dict[str, object] = {}
        """The call of `__exit__` or `give_back` that ends the run: the first to set the default."""
        self.is_cancelled = False  # from outside, which releases the attempt, like Ctrl-C
        self.observation: Observation | None = None  # the run's hooks
        self.journal: Journal[T] | None = None
        self.delay: timedelta | None = None  # after a failure, so that a retry does not call the user's function again
        self.phase: Literal["new", "begun", "ended"] = "new"
        """Ended once its end is recorded, or an error or note says why not."""

    if not TYPE_CHECKING:  # type checkers know all attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or not hasattr(ExecutionContext, name):
                raise AttributeError(f"a run has no attribute {name!r}")
            start = self.call_of("start")
            raise AttributeError(
                f"{start} is used in a with statement: write `with {start} as ctx:`, and in its block ctx.{name}"
            )

        async def __aenter__(self) -> NoReturn:
            self.phase = "ended"
            raise TypeError(f"{self.call_of('start')} is for `with`: write `async with {self.call_of('astart')}`")

        __aexit__ = __aenter__

    def call_of(self, method: str) -> str:
        return f"{self.statements.model.__name__}.{self.statements.codes.step}.{method}({self.task_id!r})"

    def __enter__(self) -> ExecutionContext[T]:
        if self.journal is not None:
            raise RuntimeError(f"this run of {self.task_id!r} was entered before: call start() for each run")
        try:  # a signal handler may raise at any line, and then the block never starts
            ctx = self.claim()
            if self.observation is not None:
                self.observation.begin()
            hold(ctx)
            self.begin_block()
            return ctx  # noqa: TRY300 - for the same reason
        except BaseException as error:
            try:
                self.undo_claim(error)
            finally:
                self.refuse(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        left = error
        try:
            if error is not None:
                self.is_cancelled = is_cancellation(error)
            return self.end(error)
        except BaseException as raised:
            left = raised
            raise
        finally:
            self.leave(left)

    def begin_block(self) -> None:
        if self.slot is not None:
            if not self.slot.is_held:
                raise SlotLostError
            self.slot.begin_use()

    def _leave_slot(self, slot: Slot) -> None:
        self.slot = self.own_slot = None
        slot.end_use()
        slot.leave()  # if it was given back, this does nothing

    def claim(self) -> ExecutionContext[T]:
        """Send the requests of `__enter__`, in any thread. Then call the hooks, or `undo_claim`."""
        self.phase = "begun"
        if instrumentation.hooks:
            from pynamodb_tracker.execution.observation import Observation  # noqa: PLC0415 - few cold starts need it

            if self.observation is None:
                codes = self.statements.codes
                self.observation = Observation(RunDetails(codes.use_case_id, codes.step, self.task_id, clock.now()))
            self.observation.add(instrumentation.hooks)
        if self.find_slots is not None and self.slot is None and (slots := self.find_slots()) is not None:
            self.slot = self.own_slot = slot = slots.take_for(self.task_id, self.slot_wait)
            slot.run = None if self.observation is None else self.observation.details
        claim = partial(
            transitions.claim,
            self.statements,
            self.task_id,
            lock_for=self.lock_for,
            detailed=self.detailed_error,
            also_from=self.also_from,
            payload=self.payload,
            creates=self.create is not None,
            on_time=self.on_time,
        )
        try:
            try:
                self.journal = journal = claim()
            except TaskNotFoundError:
                if self.create is None:
                    raise
                new = self.create()
                self.journal = journal = claim(new=new)
                self.has_created = new is not None
        except BaseException:
            if self.journal is None:
                self.give_back_slot()
            raise
        journal.obeys_control = self.statements.model.tracker.obeys_control(lives_long=self.lives_long)
        if self.observation is not None:
            self.observation.note_claim(journal)
        if self.has_heartbeat:
            self.heartbeat = Heartbeat(journal, self.lock_for)
            self.heartbeat.start()
        return ExecutionContext(journal, self.lock_for)

    def give_back_slot(self) -> None:
        """Give back the slot that this run took itself, in any thread."""
        slot, self.own_slot = self.own_slot, None
        if slot is not None:
            slot.give_back()

    def new_task(self, attributes: Mapping[str, Any], trace: Mapping[str, str] | None) -> NewTask[T]:
        """Check the attributes of a task to create and claim. `trace` is as in `create`."""
        return transitions.build_claimed_task(
            self.statements, self.task_id, attributes, lock_for=self.lock_for, payload=self.payload, trace=trace
        )

    def undo_claim(self, error: BaseException) -> None:
        """Release a claimed task, in any thread, or note on the error why not. Then call `refuse`."""
        journal = self.journal
        if journal is None:
            return
        self._stop_block(journal)
        try:
            if issubclass(type(error), LockLostError):  # nothing to release
                self.phase = "ended"
            else:
                self._record(journal, transitions.release, error)
        except BaseException as interrupt:
            self._note_interrupted(journal, interrupt)
            raise
        finally:
            self.give_back_slot()

    def refuse(self, error: BaseException) -> None:
        """Call the hooks because the block never starts, in its caller's context."""
        if self.journal is None:
            self.phase = "ended"
        if self.slot is not None:
            self._leave_slot(self.slot)
        observation, self.observation = self.observation, None  # it can be entered again, as another run
        if observation is not None:
            observation.refuse(error)

    def end(self, error: BaseException | None) -> bool:
        """Send the requests of `__exit__`, in any thread, and return its result. Then call `leave`."""
        call: list[object] = []  # a signal handler could raise after a call of object()
        try:
            return self._end(error, call)
        except (PynamoDBException, TrackerError):
            raise
        except BaseException as raised:  # from a signal, a timeout or another thread
            if self.phase != "ended" and self.journal is not None:
                self._end_once_more(self.journal, error, call, raised)
            raise
        finally:
            if self.own_slot is not None:
                self.give_back_slot()
            if self.journal is not None and self.statements.model.tracker.use_case.count_transitions:
                from pynamodb_tracker.control import flow  # noqa: PLC0415 - few use cases count

                flow.count_end(self.journal, has_created=self.has_created)

    def leave(self, error: BaseException | None) -> None:
        """Leave the slot, and call the hooks, in the block's context. A forked process leaves that to its parent."""
        if self.slot is not None:
            self._leave_slot(self.slot)
        if self.observation is None or self.journal is None or self.journal.claim.is_foreign:
            return
        try:
            if not isinstance(self.finisher.get("call"), _GiveBack):  # it calls `end` itself
                self.observation.end(error)
        finally:
            self.observation.leave(error)

    def __del__(self) -> None:
        """Warn if the run was never entered, or never ended: a signal handler may raise before `__exit__` begins."""
        if sys.is_finalizing():
            return
        if getattr(self, "phase", "ended") == "new":  # `__init__` may raise, too
            why = "was never entered, so nothing was claimed: write `with` before start, `async with` before astart"
            warnings.warn(f"{self.call_of('start')} {why}", ResourceWarning, source=self, stacklevel=2)
        journal: Journal[T] | None = getattr(self, "journal", None)
        if journal is not None and self.phase != "ended" and not journal.claim.is_foreign:
            log.error(
                "the end of %s was not recorded, because an exception interrupted it, or start was used without a "
                "with statement. The task stays locked until %s",
                journal.claim,
                journal.claim.expire_time,
                extra=journal.claim.log_fields,
            )

    def give_back(self) -> bool:
        """Release the task while another thread runs its block, and return whether that is recorded.

        The block's later writes and its end raise LockLostError. A block that is ending, or records its success in a
        transaction, is left alone, because nobody could tell which write was applied.
        """
        journal, call = self.journal, _GiveBack()
        if journal is None or journal.has_pending_success():
            return False
        journal.ended = True  # from here on, the block cannot begin or commit a transaction
        if journal.has_pending_success():  # a moment ago: the transaction may be on its way
            journal.ended = False
            return False
        if self.finisher.setdefault("call", call) is not call:
            return False
        self._stop_block(journal)
        reason = KeyboardInterrupt()
        try:
            with ending_by(clock.now() + CLOSE_WITHIN):
                released = self._record(journal, transitions.release, reason)
            journal.lost = _given_back(journal.claim)
        finally:
            if self.observation is not None:
                self.observation.end(reason)
        return released

    def _end(self, error: BaseException | None, call: object) -> bool:
        """Record how the block ended. Return True to suppress its error. A second call changes nothing."""
        journal = self.journal
        if journal is None:
            self.phase = "ended"
            raise RuntimeError(f"this run of {self.task_id!r} was never entered")
        if journal.claim.process != os.getpid():  # forked inside the block: the run is the parent's
            if error is None:
                text = "%s: its end is not recorded here"
                log.warning(text, journal.claim.describe_foreign(), extra=journal.claim.log_fields)
            return False
        if self.finisher.setdefault("call", call) is not call:
            return _end_given_back(journal, error)
        self._stop_block(journal)
        if not self.has_heartbeat and clock.now() >= journal.claim.expire_time:
            self._warn_of_expiry(journal)
        if (pending := journal.pending_success) is not None and pending.of_block:
            return self._end_with_pending_success(journal, pending, error)
        if error is not None and not has_returned(journal):
            return self._end_without_success(journal, error)
        try:
            self._succeed(journal)
        except (PynamoDBException, TrackerError) as unrecorded:
            if error is None:
                raise
            add_note(error, f"pynamodb_tracker could not record this: {unrecorded}")
        return False

    def _warn_of_expiry(self, journal: Journal[T]) -> None:
        claim, pending = journal.claim, journal.pending_success
        is_known = journal.lost is not None or (pending is not None and pending.recorded)
        if not is_known:
            log.warning(
                "the block of %s ended after its lock had expired at %s, so another worker may have taken the task: "
                "use a longer lock_for, or heartbeat=True",
                claim,
                claim.expire_time,
                extra=claim.log_fields,
            )

    def _succeed(self, journal: Journal[T]) -> None:
        """Record the success. If that is impossible, record a failure, and raise the reason."""
        try:
            choose_next(journal)
            self._record(journal, transitions.succeed)
        except TaskError as impossible:
            if isinstance(impossible, LockLostError):
                raise
            # A value cannot be stored, another task has the id of a follow-up, or a row cannot be read. If a newer
            # program wrote that row, this attempt is not at fault, so release it.
            if isinstance(impossible, TaskFormatError):
                journal.unstarted = impossible
            self._end_without_success(journal, impossible)
            pending = journal.pending_success
            if pending is None or not pending.recorded:  # unless an earlier try has recorded it
                raise
        if journal.interrupt is not None:
            raise journal.interrupt

    def _end_once_more(
        self, journal: Journal[T], error: BaseException | None, call: object, interrupt: BaseException
    ) -> None:
        unrecorded: Exception | None
        try:
            if self._was_stopped(error):  # this is the second interrupt
                send_once(partial(self._end, error, call))
            else:
                self._end(error, call)
        except (PynamoDBException, TrackerError) as raised:
            unrecorded = raised
        except BaseException as second:
            if self.phase != "ended":
                self._note_interrupted(journal, second)
            raise
        else:
            unrecorded = self.unrecorded
        if unrecorded is not None and journal.outcome is None:  # an impossible success may be a recorded failure
            self._note_unrecorded(journal, interrupt, str(unrecorded))

    def _note_unrecorded(self, journal: Journal[T], error: BaseException, reason: str) -> None:
        self.phase = "ended"
        message = f"pynamodb_tracker could not record how {journal.claim} ended: {reason}"
        add_note(error, message)
        log.error("%s", message, extra=journal.claim.log_fields)

    def _note_interrupted(self, journal: Journal[T], interrupt: BaseException) -> None:
        self._note_unrecorded(
            journal,
            interrupt,
            f"{type(interrupt).__name__} stopped it. If it was not recorded before, the task stays locked until "
            f"{journal.claim.expire_time}, and the next start after that takes it over",
        )

    def _stop_block(self, journal: Journal[T]) -> None:
        journal.ended = True
        if self.heartbeat is not None:
            self.heartbeat.stop()

    def _end_with_pending_success(
        self, journal: Journal[T], pending: PendingSuccess, error: BaseException | None
    ) -> bool:
        """Record a failure, unless a transaction has recorded the success."""
        from pynamodb_tracker.execution.transaction import (  # noqa: PLC0415 - the block has imported it
            check_unchanged,
            not_committed_error,
        )

        claim = journal.claim
        if not pending.recorded:
            reason = not_committed_error(claim, pending) if error is None else error
            skipped = self._end_without_success(journal, reason)  # this first checks whether the success was recorded
            pending.error = None
            if not pending.recorded:
                if error is None and not skipped:
                    raise reason
                return skipped
        self.phase = "ended"
        named = f"{claim.step} of {type(claim.task).__name__} {claim.task.task_id!r}"
        if error is None:
            check_unchanged(claim, named)
        else:
            add_note(error, f"pynamodb_tracker: a transaction had recorded the success of {named} before that")
            level, what = (logging.INFO, "was stopped") if self._was_stopped(error) else (logging.ERROR, "raised")
            text = "the block of %s %s after its success was recorded: %r"
            log.log(level, text, named, what, error, extra=claim.log_fields)
        return False

    def _end_without_success(self, journal: Journal[T], error: BaseException) -> bool:
        """Record a release or a failure. Return True to suppress the error."""
        if self._was_stopped(error) or error is journal.unstarted:
            self._record(journal, transitions.release, error)
            return False
        kind = type(error)  # isinstance would call the user's exception, which may lie or raise
        # Another attempt could not store the value either.
        final = issubclass(kind, (GiveUp, ValueNotStorableError, *self.policy.give_up_on))
        if self.delay is None:
            self.delay = timedelta(0)  # kept if retry_delay raises KeyboardInterrupt
            if not final:
                self.delay = delay_after(self.policy, journal.claim, error)
        fail = partial(transitions.fail, error=error, delay=self.delay, final=final)
        fail = partial(fail, counted=uses_up_attempt(error), give_up_after=self.policy.give_up_after)
        return self._record(journal, fail, error) and self.skip_error and issubclass(kind, Exception)

    def _was_stopped(self, error: BaseException | None) -> bool:
        return self.is_cancelled or (error is not None and is_stop(error))

    def _record(
        self, journal: Journal[T], finish: Callable[[Journal[T]], None], error: BaseException | None = None
    ) -> bool:
        """Send the end, and return whether it is recorded. If not, note that on the error, or raise."""
        try:
            if self.heartbeat is not None:
                self.heartbeat.join()
            persist(journal.claim, partial(self._send_end, journal, finish))
        except (PynamoDBException, TrackerError) as unrecorded:
            if isinstance(unrecorded, LockLostError):
                journal.record_loss(unrecorded)
            elif isinstance(unrecorded, PynamoDBException):
                transitions.note_unrecorded(journal, unrecorded, is_success=error is None)
            if error is None:
                if isinstance(unrecorded, LockLostError) or not isinstance(unrecorded, TaskError):
                    self.phase = "ended"  # otherwise, a failure is recorded
                raise
            if unrecorded is journal.unstarted:  # the failure would be wrong
                add_note(error, f"pynamodb_tracker: {unrecorded}")
                self._record(journal, transitions.release, error)
                return False
            self.phase, self.unrecorded = "ended", unrecorded
            add_note(error, f"pynamodb_tracker could not record this: {unrecorded}")
            return False
        self.phase = "ended"
        return True

    def _send_end(self, journal: Journal[T], finish: Callable[[Journal[T]], None]) -> None:
        # A cancelled caller should not wait for long.
        limit = ending_by(clock.now() + CLOSE_WITHIN) if self.is_cancelled else nullcontext()
        with journal.writing, limit:
            if journal.lost is not None:
                journal.check()
            pending = journal.pending_success
            if pending is not None and pending.sent is not None:
                transitions.find_outcome(journal, pending)
            if pending is None or not pending.recorded:
                finish(journal)


def _end_given_back(journal: Journal[T], error: BaseException | None) -> bool:
    lost = journal.lost or _given_back(journal.claim)
    if error is None:
        raise lost
    add_note(error, f"pynamodb_tracker could not record this: {lost}")
    return False


def _given_back(claim: Claim[T]) -> LockLostError:
    task_id = claim.task.task_id
    return LockLostError(
        f"cannot finish {claim.step} of {type(claim.task).__name__} {task_id!r}: it was released while the block still "
        "ran, so another worker can take it",
        task_id=task_id,
    )
