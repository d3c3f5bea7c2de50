"""One attempt to run a function on one task, and its outcome."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.retries import stopped_by
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.exceptions import (
    ConcurrencyLimitReachedError,
    StepPausedError,
    TaskFormatError,
    TaskIgnoredError,
    TaskNotFoundError,
    TaskNotStartableError,
    TrackerError,
)
from pynamodb_tracker.execution.call import call
from pynamodb_tracker.execution.interrupts import is_cancellation
from pynamodb_tracker.execution.observation import Observation
from pynamodb_tracker.execution.run import Run, SlotLostError
from pynamodb_tracker.instrumentation import Hook, RunDetails
from pynamodb_tracker.status import Codes, Status
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.outcomes import Outcome
from pynamodb_tracker.work.source import Given
from pynamodb_tracker.writes.participants import MadeDue

if TYPE_CHECKING:
    from pynamodb_tracker.control.slots import Slot

log = logging.getLogger("pynamodb_tracker")


class StoppedError(KeyboardInterrupt):
    """Raised in a block to release its attempt, as a KeyboardInterrupt does."""


class Attempt(Hook):
    """Starts one task, calls the function, and keeps the outcome, for batches, workers, handlers and the command line.

    It observes its own run as a hook, so that the thread that ends the run counts it, even if that is not the
    function's own.
    """

    given: Given | None = None
    """What its dispatcher has given."""
    dispatcher: Dispatcher | None = None
    batcher: WriteBatcher | None = None
    """Sends the claim and the end together with others, but not the function's writes."""
    on_loss: Callable[[], object] = bool
    """Called when the lock is known to be lost."""

    def __init__(self, codes: Codes, task_id: str) -> None:
        self.codes = codes
        self.task_id = task_id
        self.details = RunDetails(codes.use_case_id, codes.step, task_id, clock.now())
        """The run and its outcome, as hooks see them."""
        self.value: object = None  # the result of the function
        self.cut_short = threading.Event()
        """Set when nobody waits any longer for the attempt to be recorded."""
        self.has_ended = threading.Event()
        self.was_begun = False
        """Whether anything was sent for it. An attempt that is stopped before does not count."""
        self.waits_alone = False
        """Whether it was released only because it has to run alone."""
        self._is_answered = False
        self._run: Run[Any] | None = None
        self._slot: Slot | None = None
        """The slot, until its run has it."""

    def belong_to(self, dispatcher: Dispatcher, given: Given, batcher: WriteBatcher | None) -> None:
        """Run what a dispatcher has given."""
        self.dispatcher, self.given, self.batcher, self._slot = dispatcher, given, batcher, given.slot
        if given.slot is not None:
            given.slot.user = f"{self.codes.use_case_id} {self.codes.step} of {self.task_id!r}"
            given.slot.run = self.details

    def run(self) -> None:
        """Run the function of the step on the task, unless the work was stopped. Raise as `execute` does."""
        if self.given is not None and not self.is_stopped:
            self.execute(self.given.source.work.start, self.given.source.work.function)

    def execute(self, start: Callable[[str], Any], function: Callable[[Any], object]) -> None:
        """Start the task and call the function with its context.

        Record an error with the task and keep it in `error`. If it is not an Exception, such as KeyboardInterrupt and
        SystemExit, also raise it.
        """
        sending, pausing = self._sharing()
        with self._keeping_error(), stopped_by(self.cut_short):
            run: Run[Any] = start(self.task_id)
            self.follow(run)
            with sending, run as ctx:
                self._note_claim()
                with pausing:
                    self.value = call(function, ctx)

    async def run_async(self) -> None:
        """Do the same on an event loop. The step starts an async run, and its function awaits the user's one."""
        if self.given is None or self.is_stopped:
            return
        sending, pausing = self._sharing()
        with self._keeping_error(), stopped_by(self.cut_short):
            run = self.given.source.work.start(self.task_id)
            self.follow(run.run)
            with sending:
                async with run as ctx:
                    self._note_claim()
                    with pausing:
                        self.value = await self.given.source.work.function(ctx)

    @contextmanager
    def _keeping_error(self) -> Iterator[None]:
        """Keep the error of this block, and let others continue at its end."""
        self.was_begun = True
        try:
            yield
        except (StoppedError, SlotLostError):
            not_released = "the work was stopped, or its slot lost, and the attempt could not be released"
            self.details.error = None if self.outcome == "released" else TrackerError(not_released)
        except BaseException as error:
            self.details.error = error
            if not (isinstance(error, Exception) or _is_own_cancellation(error)):
                raise
        finally:
            if self._run is None:  # start itself has raised, which is no run
                self.on_end(self.details)

    def _sharing(self) -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
        """Return contexts for the run, which shares requests with others, and for its function, which does not."""
        batcher = self.batcher
        return (nullcontext(), nullcontext()) if batcher is None else (batcher.sending(), batcher.pausing())

    def follow(self, run: Run[Any]) -> None:
        """Let a run, which has not begun yet, update the details of this attempt. It gets the slot."""
        self._run = run
        run.observation = Observation(self.details, self)
        if self.given is not None:
            run.on_time, run.lives_long = self.given.source.is_of_due, True
            run.slot, self._slot = self._slot, None

    def on_end(self, run: RunDetails) -> None:  # noqa: ARG002 - the details of this attempt
        """Count the outcome."""
        if self.given is not None and not self.waits_alone:
            self.given.source.note_ended(self)

    on_refuse = on_end

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:  # noqa: ARG002 - as above
        """Pass on that the lock is lost."""
        self.on_loss()

    def _note_claim(self) -> None:
        """Let others continue. Release the attempt, by an error in the block, if the work was stopped.

        Also release it if it has to run alone, and does not. Waiting with the claim could cost its last attempt.
        """
        self._answer()
        journal = self._run and self._run.journal
        if self.is_stopped:
            raise StoppedError
        if self.dispatcher is not None and self.given is not None and journal and journal.claim.is_last_chance:
            self.was_begun = self.dispatcher.runs_alone(self.given)
            self.waits_alone = not self.was_begun
        if self.waits_alone:
            raise StoppedError

    def _answer(self) -> None:  # once, also if the claim will not be sent
        if not self._is_answered and self.dispatcher is not None and self.given is not None:
            self._is_answered = True
            self.dispatcher.answered(self.given, was_taken=self.was_taken)

    def settle(self) -> None:
        """Let others continue that wait for its claim or its slot. Called at the end, also if it never began."""
        try:
            self._answer()
        finally:
            slot, self._slot = self._slot, None
            if slot is not None:
                slot.leave()
            self.has_ended.set()

    def forget(self) -> None:
        """Drop its run and the tracebacks of its errors. Otherwise only the garbage collector could free them."""
        self._run = None
        error, seen = self.error, set[int]()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            with suppress(Exception):  # a frozen one cannot be changed
                error.__traceback__ = None
            error = error.__cause__ or error.__context__

    @property
    def is_stopped(self) -> bool:
        """Whether its work was stopped."""
        return self.dispatcher is not None and self.dispatcher.stopped.is_set()

    @property
    def has_lost_lock(self) -> bool:
        """Whether the lock is known to be lost while the block still runs, so that its end cannot be recorded."""
        journal = None if self._run is None else self._run.journal  # a refused end comes at once: it does not count
        return journal is not None and not journal.ended and journal.lost is not None

    def give_back(self, seconds: float) -> None:
        """Release the task while its function still runs, and log whether that was possible within this time.

        If the task is just being claimed, its own thread releases it. If the end of the run is just being recorded, it
        ends. We wait for both, and they repeat no requests.
        """
        self.cut_short.set()
        if not self.was_claimed and self.has_ended.wait(seconds):
            return
        run, fields = self._run, self.details.log_fields
        if run is not None and run.give_back():
            log.warning("%s still ran at the end of the grace time: it was released", self, extra=fields)
        elif not self.has_ended.wait(seconds):
            text = "%s still ran at the end of the grace time: it stays locked until its lock expires"
            log.error(text, self, extra=fields)

    @property
    def outcome(self) -> Outcome:
        """The recorded outcome."""
        if not self.was_claimed and isinstance(self.error, TaskIgnoredError):
            return "ignored"
        return self.details.outcome or "refused"

    @property
    def error(self) -> BaseException | None:
        """The error of the start, of the function, or of recording its end."""
        return self.details.error

    @property
    def was_claimed(self) -> bool:
        """Whether the task was claimed."""
        return self.details.attempt is not None

    @property
    def was_taken(self) -> bool:
        """Whether another worker had the task first."""
        return not self.was_claimed and was_taken(self.error)

    @property
    def was_refused(self) -> bool:
        """Whether the task's state did not allow a start."""
        return not self.was_claimed and isinstance(self.error, TaskNotStartableError)

    @property
    def task(self) -> Any:
        """The last row that was read, or None."""
        return self.details.task if self.was_claimed else getattr(self.error, "task", None)

    @property
    def made_due(self) -> list[MadeDue]:
        """The tasks that the end of the run has made due, now or at a known time."""
        journal = None if self._run is None else self._run.journal
        return [] if journal is None else list(journal.made_due())

    @property
    def unexpected_error(self) -> BaseException | None:
        """The error that kept the task from being started, unless it is a refusal or a failed request."""
        is_expected = self.was_claimed or isinstance(self.error, TrackerError | PynamoDBException)
        return None if is_expected else self.error

    def __str__(self) -> str:
        name = self.codes.step if self.given is None else self.given.source.work.name
        attempt = f" (attempt {self.details.attempt})" if self.was_claimed else ""
        return f"{name} of {self.task_id!r}{attempt}"


def _is_own_cancellation(error: BaseException) -> bool:  # of an async function, which fails its task
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError) and not is_cancellation(error)


_NOT_TAKEN = (ConcurrencyLimitReachedError, StepPausedError, TaskFormatError, TaskIgnoredError, TaskNotFoundError)


def was_taken(error: BaseException | None) -> bool:
    """Return whether a task was refused because another worker had it first, and not because it is ignored."""
    if not isinstance(error, TaskNotStartableError) or isinstance(error, _NOT_TAKEN):
        return False
    state = None if error.task is None else error.task.state
    return getattr(state, "status", None) is not Status.IGNORED
