"""One run of a step: claims the task, runs the user's block, and records how it ended."""

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
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Protocol, TypeVar

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
from pynamodb_tracker.execution.interrupts import is_cancellation, is_interrupt, is_stop
from pynamodb_tracker.execution.retry_policy import RetryPolicy, delay_after, uses_up_attempt
from pynamodb_tracker.instrumentation import Hook, RunDetails
from pynamodb_tracker.model.changes import changes_of
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import Claim, Journal, NewTask, PendingSuccess, StepStatements

if TYPE_CHECKING:
    from pynamodb_tracker.control.slots import Slot, StepSlots
    from pynamodb_tracker.execution.observation import Observation

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")

CLOSE_WITHIN = timedelta(seconds=5)
"""How long a release is tried after somebody stopped the block and waits for its end."""


class SlotLostError(KeyboardInterrupt):
    """The slot of a run was lost during its claim, so the run is released, as after a KeyboardInterrupt."""


class Limited(Protocol):
    """A step that has a concurrency limit."""

    def slots(self) -> StepSlots | None:
        """Return the slots of the limit. Raise NestedConcurrencyLimitError if the block around this has one."""


class _GiveBack:
    """A call of `give_back`, which ends a run."""


class Run(AbstractContextManager[ExecutionContext[T], bool | None], Generic[T]):
    """The context manager that `start` returns. It can be entered once."""

    on_time = False
    """Whether the task must be due by this clock. Otherwise it may start earlier by the clock margin."""

    slot: Slot | None = None
    """The slot of a concurrency limit that the run has. It leaves it at its end."""

    lives_long = False
    """Whether it is a run of a worker, a batch or a sweep."""

    limited: Limited | None = None
    """The step, if it has a concurrency limit that this run does not ignore."""

    slot_wait = timedelta(0)
    """How long to wait for a slot."""

    own_slot: Slot | None = None
    """The slot that the run has taken itself. It gives it back as soon as it has recorded its end."""

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
        self.heartbeat: Heartbeat[T] | bool = heartbeat  # whether it has one, and then the heartbeat itself
        self.create: Callable[[], NewTask[T] | None] | None = None
        """Called when the task does not exist. It returns a new task to create and claim in one request, or creates it
        and returns None. Without it, a missing task raises TaskNotFoundError."""
        self.has_created = False  # whether the claim has created the task
        self.unrecorded: PynamoDBException | TrackerError | None = None
        """Why a failure or release was not recorded. The block's error has a note about it."""
        self.finisher: dict[str, object] = {}
        """The call that ends the run, `__exit__` or `give_back`: the first one that sets the default."""
        self.phase: Literal["new", "begun", "ended"] = "new"
        """It has begun once it claims, and has ended once its end is recorded, or an error or note says why not."""
        self.is_cancelled = False  # by something outside of the block, which releases the attempt, like Ctrl-C
        self.observation: Observation | None = None  # the hooks of the run, if it has some
        self.journal: Journal[T] | None = None
        self.delay: timedelta | None = None  # after a failure: a retry does not call the user's function again

    if not TYPE_CHECKING:  # type checkers know that there are no other attributes

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an AttributeError, with advice if a member of the context was meant."""
            if name.startswith("_") or not hasattr(ExecutionContext, name):
                raise AttributeError(f"a run has no attribute {name!r}")
            start = self.call_of("start")
            raise AttributeError(
                f"{start} is used in a with statement: write `with {start} as ctx:`, and in its block ctx.{name}"
            )

        async def __aenter__(self) -> NoReturn:
            """Say which call an `async with` takes."""
            self.phase = "ended"
            raise TypeError(f"{self.call_of('start')} is for `with`: write `async with {self.call_of('astart')}`")

        __aexit__ = __aenter__

    def call_of(self, method: str) -> str:
        """Return the call that returned this run, as users write it."""
        return f"{self.statements.model.__name__}.{self.statements.codes.step}.{method}({self.task_id!r})"

    def __enter__(self) -> ExecutionContext[T]:
        """Claim the task. An error says why it was refused."""
        if self.journal is not None:
            raise RuntimeError(f"this run of {self.task_id!r} was entered before: call start() for each run")
        try:  # an exception of a signal handler may be raised at any line, and then the block never starts
            ctx = self.claim()
            if self.observation is not None:
                self.observation.begin()
            hold(ctx)
            self.begin_block()
            return ctx  # noqa: TRY300 - inside of the try, for the same reason
        except BaseException as error:
            try:
                self.undo_claim(error)
            finally:
                self.refuse(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Record success, release or failure. With `skip_error`, suppress a recorded exception."""
        left = error
        try:
            if error is not None:
                self.is_cancelled = is_cancellation(error)
            return self.end(error)
        except BaseException as raised:
            left = raised
            raise
        finally:
            self.leave_slot()
            if self.observation is not None:
                self.leave(left)

    def begin_block(self) -> None:
        """Note that the block uses its slot. Raise SlotLostError if the slot is lost."""
        if self.slot is not None:
            if not self.slot.is_held:
                raise SlotLostError
            self.slot.begin_use()

    def leave_slot(self) -> None:
        """Leave the slot, if there is one, to the next task."""
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.end_use()
            slot.leave()  # if it was given back, this has no effect
        self.own_slot = None

    def claim(self) -> ExecutionContext[T]:
        """Send the requests of `__enter__`, in any thread. The caller then calls the hooks, or `undo_claim`."""
        self.phase = "begun"
        if instrumentation.hooks:
            self._add_hooks(instrumentation.hooks)
        if self.limited is not None and self.slot is None:
            self._take_slot(self.limited)
        try:
            return self._claim()
        except BaseException:
            if self.journal is None:
                self.give_back_slot()
            raise

    def _take_slot(self, limited: Limited) -> None:
        slots = limited.slots()
        if slots is not None:
            self.slot = self.own_slot = slot = slots.take_for(self.task_id, self.slot_wait)
            slot.run = None if self.observation is None else self.observation.details

    def give_back_slot(self) -> None:
        """Give back the slot that this run has taken itself, in any thread."""
        slot, self.own_slot = self.own_slot, None
        if slot is not None:
            slot.give_back()

    def _claim(self) -> ExecutionContext[T]:
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
            self.journal = journal = claim()
        except TaskNotFoundError:
            if self.create is None:
                raise
            new = self.create()
            self.journal = journal = claim(new=new)
            self.has_created = new is not None
        journal.obeys_control = self.statements.model.tracker.obeys_control(lives_long=self.lives_long)
        if self.observation is not None:
            self.observation.note_claim(journal)
        if self.heartbeat:
            self.heartbeat = Heartbeat(journal, self.lock_for)
            self.heartbeat.start()
        return ExecutionContext(journal, self.lock_for)

    def new_task(self, attributes: Mapping[str, Any]) -> NewTask[T]:
        """Check the attributes of a new task that this run creates claimed. `trace` is as in `create`."""
        own = {**attributes}
        trace = own.pop("trace", None)
        return transitions.build_claimed_task(
            self.statements, self.task_id, own, lock_for=self.lock_for, payload=self.payload, trace=trace
        )

    def undo_claim(self, error: BaseException) -> None:
        """Release a claimed task, in any thread. A note on the error says if that fails. Then call `refuse`."""
        journal = self.journal
        if journal is None:
            return
        self._stop_block(journal)
        if issubclass(type(error), LockLostError):  # there is nothing to release
            self.phase = "ended"
            self.give_back_slot()
            return
        try:
            self._record(journal, transitions.release, error)
        except BaseException as interrupt:
            self._note_interrupted(journal, interrupt)
            raise
        finally:
            self.give_back_slot()

    def refuse(self, error: BaseException) -> None:
        """Call the hooks of a run whose block never starts, in the context in which it was entered."""
        if self.journal is None:
            self.phase = "ended"
        self.leave_slot()
        observation, self.observation = self.observation, None  # it can be entered once more, as another run
        if observation is not None:
            observation.refuse(error)

    def end(self, error: BaseException | None) -> bool:
        """Send the requests of `__exit__`, in any thread. Return True to suppress the error. Then call `leave`."""
        call: list[object] = []  # unlike a call of object(), after which an exception may be raised
        try:
            return self._end(error, call)
        except BaseException as raised:
            if self.phase != "ended" and self.journal is not None and is_interrupt(raised):
                self._end_once_more(self.journal, error, call, raised)
            raise
        finally:
            if self.own_slot is not None:
                self.give_back_slot()
            if self.statements.model.tracker.use_case.count_transitions:
                self._count()

    def _count(self) -> None:
        """Count how the run ended, and what it created."""
        from pynamodb_tracker.control import flow  # noqa: PLC0415 - few use cases count

        journal = self.journal
        if journal is None or journal.outcome in (None, "released") or journal.postponed:
            return
        codes, follow_ups = self.statements.codes, journal.additions.get("follow_ups")
        also = [flow.CREATED] if self.has_created else []
        if journal.next_code != codes.succeeded and journal.outcome == "succeeded":
            also += [f"{flow.LEFT}#{codes.pending}", f"{flow.CAME}#{journal.next_code}"]
        if journal.outcome == "succeeded" and (began := journal.claim.start_time) is not None:
            also.append(f"{flow.TOOK}{flow.bucket_of(clock.now() - began)}#{codes.pending}")
        flow.count(self.statements.model, f"{journal.outcome}#{codes.pending}", *also)
        for model in follow_ups.models if follow_ups and journal.outcome == "succeeded" else ():
            if model.tracker.use_case.count_transitions:
                flow.count(model, flow.CREATED)

    def leave(self, error: BaseException | None) -> None:
        """Call the hooks at the end, in the context of the block. A forked process leaves that to its parent."""
        if self.observation is None or self.journal is None or self.journal.claim.is_foreign:
            return
        try:
            if not isinstance(self.finisher.get("call"), _GiveBack):  # which calls `end` itself, perhaps later
                self.observation.end(error)
        finally:
            self.observation.leave(error)

    def __del__(self) -> None:
        """Warn if the run was never entered. Log that nothing was recorded if it did not end.

        A signal handler may raise an exception before the first line of `__exit__`.
        """
        if sys.is_finalizing():
            return
        if getattr(self, "phase", "ended") == "new":  # an exception may be raised in `__init__`, too
            why = "was never entered, so nothing was claimed: write `with` before start, `async with` before astart"
            warnings.warn(f"{self.call_of('start')} {why}", ResourceWarning, source=self, stacklevel=2)
        journal: Journal[T] | None = getattr(self, "journal", None)
        if journal is not None and self.phase != "ended" and not journal.claim.is_foreign:
            log.error(
                "%s was left without its end, by an exception that arrived there, or because its context manager was "
                "not used in a with statement: nothing is recorded, and it stays locked until %s",
                journal.claim,
                journal.claim.expire_time,
                extra=journal.claim.log_fields,
            )

    def _add_hooks(self, hooks: tuple[Hook, ...]) -> None:
        from pynamodb_tracker.execution.observation import Observation  # noqa: PLC0415 - few cold starts need it

        if self.observation is None:
            codes = self.statements.codes
            self.observation = Observation(RunDetails(codes.use_case_id, codes.step, self.task_id, clock.now()))
        self.observation.add(hooks)

    def give_back(self) -> bool:
        """Release the task while its block still runs in another thread. Return whether that is recorded.

        From then on, the writes and the end of the block are refused with LockLostError. A block that is ending, or
        that records its success in a transaction, is left alone: nobody could find out whether the release or the
        transaction was applied.
        """
        journal, call = self.journal, _GiveBack()
        if journal is None or journal.has_pending_success():
            return False
        journal.ended = True  # from here on, the block begins no transaction, and commits none
        if journal.has_pending_success():  # since a moment ago: its transaction may be on its way
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
        """Record how the block ended. Return True if its error is suppressed. A second call changes nothing."""
        journal = self.journal
        if journal is None:
            self.phase = "ended"
            raise RuntimeError(f"this run of {self.task_id!r} was never entered")
        if journal.claim.process != os.getpid():  # forked inside the block: the parent owns the run
            if error is None:
                text = "%s: its end is not recorded here"
                log.warning(text, journal.claim.describe_foreign(), extra=journal.claim.log_fields)
            return False
        if self.finisher.setdefault("call", call) is not call:
            return _end_given_back(journal, error)
        self._stop_block(journal)
        if not self.heartbeat:
            self._warn_if_expired(journal)
        if (pending := journal.pending_success) is not None and pending.of_block:
            return self._end_with_pending_success(journal, pending, error)
        if error is None:
            self._succeed(journal)
        elif not has_returned(journal):
            return self._end_without_success(journal, error)
        else:
            try:
                self._succeed(journal)
            except (PynamoDBException, TrackerError) as unrecorded:
                add_note(error, f"pynamodb_tracker could not record this: {unrecorded}")
        return False

    def _warn_if_expired(self, journal: Journal[T]) -> None:
        """Log that the block has outlived its lock, unless that is known, or its success is recorded."""
        claim, pending = journal.claim, journal.pending_success
        is_known = journal.lost is not None or (pending is not None and pending.recorded)
        if clock.now() >= claim.expire_time and not is_known:
            log.warning(
                "the block of %s ended after its lock had expired at %s, so another worker may have taken the task: "
                "take a longer lock_for, or heartbeat=True",
                claim,
                claim.expire_time,
                extra=claim.log_fields,
            )

    def _succeed(self, journal: Journal[T]) -> None:
        """Record the success. If that is impossible, record a failure with the reason, and raise it."""
        try:
            choose_next(journal)
            self._record(journal, transitions.succeed)
        except TaskError as impossible:
            if isinstance(impossible, LockLostError):
                raise
            # A value cannot be stored, another task has the id of a follow-up, or a row cannot be read. If a newer
            # program wrote that row, this attempt is not at fault, and is released.
            if isinstance(impossible, TaskFormatError):
                journal.unstarted = impossible
            self._end_without_success(journal, impossible)
            pending = journal.pending_success
            if pending is None or not pending.recorded:  # by an earlier try, as it turned out
                raise
        if journal.interrupt is not None:
            raise journal.interrupt

    def _end_once_more(
        self, journal: Journal[T], error: BaseException | None, call: object, interrupt: BaseException
    ) -> None:
        """Record the end after an interrupt, such as Ctrl-C, stopped that."""
        unrecorded: Exception | None
        try:
            if self._was_stopped(error):  # so this interrupt is the second one
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
        if unrecorded is not None and journal.outcome is None:  # a success that was impossible may be a failure by now
            self._note_unrecorded(journal, interrupt, str(unrecorded))

    def _note_unrecorded(self, journal: Journal[T], error: BaseException, reason: str) -> None:
        """Say in a note and in the log that the end may not be recorded."""
        self.phase = "ended"
        message = f"pynamodb_tracker could not record how {journal.claim} ended: {reason}"
        add_note(error, message)
        log.error("%s", message, extra=journal.claim.log_fields)

    def _note_interrupted(self, journal: Journal[T], interrupt: BaseException) -> None:
        self._note_unrecorded(
            journal,
            interrupt,
            f"{type(interrupt).__name__} stopped it; unless it was recorded before, the task stays locked until "
            f"{journal.claim.expire_time}, and the next start after that takes it over",
        )

    def _stop_block(self, journal: Journal[T]) -> None:
        """Stop the heartbeat, and refuse more writes of the block."""
        journal.ended = True
        if isinstance(self.heartbeat, Heartbeat):
            self.heartbeat.stop()

    def _end_with_pending_success(
        self, journal: Journal[T], pending: PendingSuccess, error: BaseException | None
    ) -> bool:
        """Record nothing more if a transaction has recorded the success. Otherwise the attempt fails."""
        claim = journal.claim
        if not pending.recorded:
            reason = _not_committed(claim, pending) if error is None else error
            skipped = self._end_without_success(journal, reason)  # first finds out whether the success was recorded
            pending.error = None
            if not pending.recorded:
                if error is None and not skipped:
                    raise reason
                return skipped
        self.phase = "ended"
        named = f"{claim.step} of {type(claim.task).__name__} {claim.task.task_id!r}"
        if error is None:
            _check_unchanged(claim, named)
        else:
            note = f"pynamodb_tracker: a transaction had recorded the success of {named} before; it stays recorded"
            add_note(error, note)
            level, what = (logging.INFO, "was stopped") if self._was_stopped(error) else (logging.ERROR, "raised")
            text = "the block of %s %s after its success was recorded: %r"
            log.log(level, text, named, what, error, extra=claim.log_fields)
        return False

    def _end_without_success(self, journal: Journal[T], error: BaseException) -> bool:
        """Record a release or a failure. Return True if the error is suppressed."""
        if self._was_stopped(error) or error is journal.unstarted:
            self._record(journal, transitions.release, error)
            return False
        kind = type(error)  # isinstance would call the user's exception, which may lie or raise
        # Another attempt could not store the value either.
        final = issubclass(kind, (GiveUp, ValueNotStorableError, *self.policy.give_up_on))
        if self.delay is None:
            self.delay = timedelta(0)  # it stays if the user's retry_delay raises KeyboardInterrupt
            if not final:
                self.delay = delay_after(self.policy, journal.claim, error)
        fail = partial(transitions.fail, error=error, delay=self.delay, final=final)
        fail = partial(fail, counted=uses_up_attempt(error), give_up_after=self.policy.give_up_after)
        return self._record(journal, fail, error) and self.skip_error and issubclass(kind, Exception)

    def _was_stopped(self, error: BaseException | None) -> bool:
        """Return whether somebody stopped the block from outside, so that it has not failed."""
        return self.is_cancelled or (error is not None and is_stop(error))

    def _record(
        self, journal: Journal[T], finish: Callable[[Journal[T]], None], error: BaseException | None = None
    ) -> bool:
        """Send the end of the run. Return whether it is recorded. If not, add a note to the block's error, or raise."""
        try:
            if isinstance(self.heartbeat, Heartbeat):
                self.heartbeat.join()
            persist(journal.claim, partial(self._send_end, journal, finish))
        except (PynamoDBException, TrackerError) as unrecorded:
            if isinstance(unrecorded, LockLostError):
                journal.record_loss(unrecorded)
            elif isinstance(unrecorded, PynamoDBException):
                transitions.note_unrecorded(journal, unrecorded, is_success=error is None)
            if error is None:
                if isinstance(unrecorded, LockLostError) or not isinstance(unrecorded, TaskError):
                    self.phase = "ended"  # otherwise the success is impossible, and is recorded as a failure
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
        # A cancelled caller does not wait long.
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
    """Record nothing, because the task was released while the block ran."""
    lost = journal.lost or _given_back(journal.claim)
    if error is None:
        raise lost
    add_note(error, f"pynamodb_tracker could not record this: {lost}")
    return False


def _given_back(claim: Claim[T]) -> LockLostError:
    """Return the error for a block whose task was released while it ran."""
    task_id = claim.task.task_id
    return LockLostError(
        f"cannot finish {claim.step} of {type(claim.task).__name__} {task_id!r}: it was released while the block still "
        "ran, so that another worker can take it",
        task_id=task_id,
    )


def _not_committed(claim: Claim[T], pending: PendingSuccess) -> Exception:
    """Return the error for a block that caught the error of its transaction, or did not commit it."""
    message = (
        f"ctx.transaction(succeed=True) of {claim.step} of {type(claim.task).__name__} {claim.task.task_id!r} was not "
        "committed, so this attempt has failed"
    )
    reason = pending.error
    if isinstance(reason, Exception):
        add_note(reason, f"pynamodb_tracker: {message}")
        return reason
    error = TrackerError(f"{message}: use it in a with statement, and let that end")
    error.__cause__ = reason
    return error


def _check_unchanged(claim: Claim[T], named: str) -> None:
    """Raise an AttributeError for changes that came after a transaction had recorded the success."""
    try:
        late = list(changes_of(claim.task))
    except ValueNotStorableError as unstorable:
        late = [unstorable.attribute]
    if late:
        text = "%s of %s changed after its success was recorded, and that is not saved"
        log.error(text, ", ".join(late), named, extra=claim.log_fields)
        raise AttributeError(
            f"{', '.join(late)} of {named} changed after a transaction had recorded the success; that is not saved: "
            "change it before the transaction is committed",
            name=late[0],
            obj=claim.task,
        )
