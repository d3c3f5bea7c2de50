"""Runs a function on one task once, and keeps the outcome."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock, exceptions
from pynamodb_tracker.dynamodb.retries import stopped_by
from pynamodb_tracker.execution.call import call
from pynamodb_tracker.execution.interrupts import is_cancellation
from pynamodb_tracker.execution.observation import Observation
from pynamodb_tracker.execution.run import Run, SlotLostError
from pynamodb_tracker.instrumentation import Hook, RunDetails, log
from pynamodb_tracker.model.status import Codes, Status

if TYPE_CHECKING:  # handlers do without these
    from pynamodb_tracker.control.slots import Slot
    from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
    from pynamodb_tracker.work.dispatcher import Dispatcher
    from pynamodb_tracker.work.outcomes import Outcome
    from pynamodb_tracker.work.source import Given
    from pynamodb_tracker.writes.participants import NewlyDue


class StoppedError(KeyboardInterrupt):
    """Raised in a block to release its attempt, as a KeyboardInterrupt does."""


class Attempt(Hook):
    """Starts one task, calls the function, and keeps the outcome. It sees its own run as a hook."""

    given: Given | None = None
    dispatcher: Dispatcher | None = None  # which has given it
    batcher: WriteBatcher | None = None  # for the claim and the end, but not for the function
    on_loss: Callable[[], object] = bool  # called when the lock is lost

    def __init__(self, codes: Codes, task_id: str) -> None:
        self.codes = codes
        self.task_id = task_id
        # The run and its outcome, as other hooks see them.
        self.details = RunDetails(codes.use_case_id, codes.step, task_id, clock.now())
        self.value: object = None  # the function's result
        self.cut_short = threading.Event()  # set once nobody waits for the end to be recorded
        self.has_ended = threading.Event()
        self.was_begun = False  # if it stays False, the attempt does not count
        self._is_to_run_alone = False
        self._is_answered = False
        self._run: Run[Any] | None = None
        self._slot: Slot | None = None  # until the run has it

    def belong_to(self, dispatcher: Dispatcher, given: Given, batcher: WriteBatcher | None) -> None:
        self.dispatcher, self.given, self.batcher, self._slot = dispatcher, given, batcher, given.slot
        if given.slot is not None:
            given.slot.run = self.details

    def run(self) -> None:
        """Run the step's function on the task, unless the work was stopped. Raise as `execute` does."""
        if self.given is not None and not self.is_stopped:
            self.execute(self.given.source.work.start, self.given.source.work.function)

    def execute(self, start: Callable[[str], Any], function: Callable[[Any], object]) -> None:
        """Start the task and call the function. Keep an exception in `error`, and raise KeyboardInterrupt and such."""
        sending, pausing = self._share_requests()
        with self._keep_error(), stopped_by(self.cut_short):
            run: Run[Any] = start(self.task_id)
            self.follow(run)
            with sending, run as ctx:
                self._note_claim()
                with pausing:
                    self.value = call(function, ctx)

    async def run_async(self) -> None:
        if self.given is None or self.is_stopped:
            return
        sending, pausing = self._share_requests()
        with self._keep_error(), stopped_by(self.cut_short):
            run = self.given.source.work.start(self.task_id)
            self.follow(run.run)
            with sending:
                async with run as ctx:
                    self._note_claim()
                    with pausing:
                        self.value = await self.given.source.work.function(ctx)

    @contextmanager
    def _keep_error(self) -> Iterator[None]:
        self.was_begun = True
        try:
            yield
        except (StoppedError, SlotLostError):
            not_released = "the work was stopped, or its slot lost, and the attempt could not be released"
            self.details.error = None if self.outcome == "released" else exceptions.TrackerError(not_released)
        except BaseException as error:
            self.details.error = error
            if not (isinstance(error, Exception) or _is_own_cancellation(error)):
                raise
        finally:
            if self._run is None:  # `start` has raised, so no run has called its hooks
                self.on_end(self.details)

    def _share_requests(self) -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
        """Return the run's context, which shares requests, and its function's, which does not."""
        batcher = self.batcher
        return (nullcontext(), nullcontext()) if batcher is None else (batcher.sending(), batcher.pausing())

    def follow(self, run: Run[Any]) -> None:
        """Let a new run update these details. It gets the slot."""
        self._run = run
        run.observation = Observation(self.details, self)
        if self.given is not None:
            run.on_time, run.lives_long = self.given.source.is_of_due, True
            run.slot, self._slot = self._slot, None

    def on_end(self, run: RunDetails) -> None:  # noqa: ARG002 - the details of this attempt
        if self.given is not None and not self._is_to_run_alone:
            self.given.source.note_ended(self)

    on_refuse = on_end

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:  # noqa: ARG002 - as above
        self.on_loss()

    def _note_claim(self) -> None:
        """Report the claim. Raise an error in the block to release the attempt if it must not continue.

        It may have to run alone, and waiting for that with the claim could cost its last attempt.
        """
        self._answer()
        journal = self._run and self._run.journal
        if self.is_stopped:
            raise StoppedError
        if journal and journal.claim.is_last_chance and not self._try_to_run_alone():
            self.was_begun, self._is_to_run_alone = False, True
            raise StoppedError

    def _try_to_run_alone(self) -> bool:
        if self.dispatcher is not None and self.given is not None:
            return self.dispatcher.try_to_run_alone(self.given)
        return self.batcher is None  # only attempts at the same time share requests

    @property
    def runs_again_alone(self) -> bool:
        """Whether it was released because it has to run alone."""
        return self._is_to_run_alone and self.outcome == "released"

    def _answer(self) -> None:
        if not self._is_answered and self.dispatcher is not None and self.given is not None:
            self._is_answered = True
            self.dispatcher.note_answer(self.given, lost_to_other=self.lost_to_other)

    def settle(self) -> None:
        """Report the claim and leave the slot, if that was not done."""
        try:
            self._answer()
        finally:
            slot, self._slot = self._slot, None
            if slot is not None:
                slot.leave()
            self.has_ended.set()

    def forget(self) -> None:
        """Drop the run and the tracebacks, which only the garbage collector could free otherwise."""
        self._run = None
        error, seen = self.error, set[int]()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            with suppress(Exception):  # it may be frozen
                error.__traceback__ = None
            error = error.__cause__ or error.__context__

    @property
    def is_stopped(self) -> bool:
        return self.dispatcher is not None and self.dispatcher.stopped.is_set()

    @property
    def has_lost_lock(self) -> bool:
        """Whether the lock is lost while the block still runs."""
        journal = None if self._run is None else self._run.journal
        return journal is not None and not journal.ended and journal.lost is not None

    def give_back(self, seconds: float) -> None:
        """Release the task while its function still runs, and log whether that was possible within this time.

        Wait for a claim or an end that is on its way: its own thread then releases or ends the task, without retries.
        """
        self.cut_short.set()
        if not self.was_claimed and self.has_ended.wait(seconds):
            return
        run, fields = self._run, self.details.log_fields
        if run is not None and run.give_back():
            log.warning("%s still ran after the grace time and was released", self, extra=fields)
        elif not self.has_ended.wait(seconds):
            text = "%s still ran after the grace time and stays locked until its lock expires"
            log.error(text, self, extra=fields)

    @property
    def outcome(self) -> Outcome:
        if not self.was_claimed and isinstance(self.error, exceptions.TaskIgnoredError):
            return "ignored"
        return self.details.outcome or "refused"

    @property
    def error(self) -> BaseException | None:
        return self.details.error

    @property
    def was_claimed(self) -> bool:
        return self.details.attempt is not None

    @property
    def lost_to_other(self) -> bool:
        return not self.was_claimed and lost_to_other(self.error)

    @property
    def was_refused(self) -> bool:
        """Whether the task's state did not allow a start."""
        return not self.was_claimed and isinstance(self.error, exceptions.TaskNotStartableError)

    @property
    def task(self) -> Any:
        return self.details.task if self.was_claimed else getattr(self.error, "task", None)

    @property
    def made_due(self) -> list[NewlyDue]:
        journal = None if self._run is None else self._run.journal
        return [] if journal is None else list(journal.made_due())

    @property
    def unexpected_error(self) -> BaseException | None:
        """The error that kept the task from starting, unless it is a refusal or a failed request."""
        is_expected = self.was_claimed or isinstance(self.error, exceptions.TrackerError | PynamoDBException)
        return None if is_expected else self.error

    def __str__(self) -> str:
        name = self.codes.step if self.given is None else self.given.source.work.name
        attempt = f" (attempt {self.details.attempt})" if self.was_claimed else ""
        return f"{name} of {self.task_id!r}{attempt}"


def _is_own_cancellation(error: BaseException) -> bool:
    """Return whether an async function raised this CancelledError itself."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError) and not is_cancellation(error)


_NOT_TAKEN = (
    exceptions.ConcurrencyLimitReachedError,
    exceptions.StepPausedError,
    exceptions.TaskFormatError,
    exceptions.TaskIgnoredError,
    exceptions.TaskNotFoundError,
)


def lost_to_other(error: BaseException | None) -> bool:
    """Return whether a task was refused because another worker had it first."""
    if not isinstance(error, exceptions.TaskNotStartableError) or isinstance(error, _NOT_TAKEN):
        return False
    state = None if error.task is None else error.task.state
    return getattr(state, "status", None) is not Status.IGNORED
