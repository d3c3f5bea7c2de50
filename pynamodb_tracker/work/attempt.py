"""One attempt to run a function on one task, and its outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.retries import stopped_by
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.exceptions import (
    StepPausedError,
    TaskFormatError,
    TaskIgnoredError,
    TaskNotFoundError,
    TaskNotStartableError,
    TrackerError,
)
from pynamodb_tracker.execution.call import call
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.observation import Observation
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.instrumentation import RunDetails
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes, Status
from pynamodb_tracker.transitions import Journal
from pynamodb_tracker.transitions.participants import MadeDue
from pynamodb_tracker.work.candidates import Feeding, Source
from pynamodb_tracker.work.outcomes import Outcome, Report

if TYPE_CHECKING:
    from pynamodb_tracker.control.slots import Slot

T = TypeVar("T", bound=TaskRow)

Start = Callable[[str], AbstractContextManager[ExecutionContext[T], bool | None]]
"""`step.start` with its options: it returns the run of a task."""


class StoppedError(KeyboardInterrupt):
    """Raised in a block to release its attempt, as a KeyboardInterrupt does."""


class TaskAttempt(Generic[T]):
    """One attempt to run a function on one task: it starts the task, calls the function, and keeps the outcome.

    Batches, workers, handlers and the command line run every function on every task through this class:

        attempt = TaskAttempt(codes, task_id)
        attempt.execute(step.start, function)
        counts[attempt.outcome] += 1
    """

    def __init__(
        self,
        codes: Codes,
        task_id: str,
        *,
        feed: Source | None = None,
        stopped: threading.Event | None = None,
        batcher: WriteBatcher | None = None,
        slot: Slot | None = None,
    ) -> None:
        """If `stopped` is set when the task is claimed, release the attempt without calling the function.

        The task's `feed` learns the response to the claim. The `batcher` sends the claim and the end together with
        others, but not the function's writes. The function runs only while the `slot` is held. Call `leave_slot` then.
        """
        self.codes = codes
        self.task_id = task_id
        self.details = RunDetails(codes.use_case_id, codes.step, task_id, clock.now())
        """The run and its outcome, as hooks see them."""
        self.value: object = None  # the result of the function
        self.cut_short = threading.Event()
        """Set when nobody waits any longer for the attempt to be recorded."""
        self._feed = feed
        self._is_on_time = feed is not None and feed.is_of_due
        """Whether the feed found it due, so that it never starts before that."""
        self._run: Run[T] | None = None
        self._stopped = stopped
        self._batcher = batcher
        self._slot = slot
        if slot is not None:
            slot.user, slot.run = f"{codes.use_case_id} {codes.step} of {task_id!r}", self.details

    def execute(self, start: Start[T], function: Callable[[ExecutionContext[T]], object]) -> None:
        """Start the task and call the function with its context.

        Record an error with the task and keep it in `error`. If it is not an Exception, such as KeyboardInterrupt and
        SystemExit, also raise it.
        """
        sending, pausing = self._sharing()
        with self._keeping_error(), stopped_by(self.cut_short):
            run = cast("Run[T]", start(self.task_id))
            run.on_time = self._is_on_time
            self.follow(run)
            with sending, run as ctx:
                self.note_response()
                self._check_start()
                with pausing, self._using_slot():
                    self.value = call(function, ctx)

    @contextmanager
    def _keeping_error(self) -> Iterator[None]:
        """Keep the error of this block, and let the feed continue at its end."""
        try:
            yield
        except StoppedError:
            not_released = "the worker was stopped, or its slot lost, and the attempt could not be released"
            self.details.error = None if self.outcome == "released" else TrackerError(not_released)
        except BaseException as error:
            self.details.error = error
            if not self._is_failure(error):
                raise
        finally:
            self.note_response()

    def _is_failure(self, error: BaseException) -> bool:
        """Return whether an error only fails the attempt. Any other one also ends the caller."""
        return isinstance(error, Exception)

    def _sharing(self) -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
        """Return contexts for the run, which shares requests with others, and for its function, which does not."""
        batcher = self._batcher
        return (nullcontext(), nullcontext()) if batcher is None else (batcher.sending(), batcher.pausing())

    def follow(self, run: Run[T]) -> None:
        """Let a run, which has not begun yet, update the details of this attempt."""
        self._run = run
        run.observation = Observation(self.details)

    @contextmanager
    def followed_by(self, feeding: Feeding) -> Iterator[None]:
        """Tell the feeding which tasks the block has made due, or stop it after an error. Leave the slot."""
        try:
            yield
            feeding.note_end(self.made_due, was_refused=self.was_refused)
        except BaseException:
            feeding.stop()
            raise
        finally:
            self.note_response()  # an error may have come before the claim, and the feed waits for it
            self.leave_slot()

    def _using_slot(self) -> AbstractContextManager[None]:
        return nullcontext() if self._slot is None else self._slot.used()

    def leave_slot(self) -> None:
        """Leave the slot, if there is one, to the next task."""
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.leave()

    def _check_start(self) -> None:
        """Release the attempt, by an error in the block, if the worker was stopped or the slot was lost."""
        if self.is_stopped or not (self._slot is None or self._slot.is_held):
            raise StoppedError

    def note_response(self) -> None:
        """Let the feed continue, once, because the claim was answered or will not be sent."""
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.note_response(was_taken=self.was_taken)

    @property
    def is_stopped(self) -> bool:
        """Whether `stopped` is set."""
        return self._stopped is not None and self._stopped.is_set()

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
    def journal(self) -> Journal[T] | None:
        """The journal of the run, once it has claimed the task."""
        return None if self._run is None else self._run.journal

    @property
    def made_due(self) -> Iterator[MadeDue]:
        """The tasks that the end of the run has made due, now or at a known time."""
        return iter(()) if self.journal is None else self.journal.made_due()

    @property
    def unexpected_error(self) -> BaseException | None:
        """The error that kept the task from being started, unless it is a refusal or a failed request."""
        is_expected = self.was_claimed or isinstance(self.error, TrackerError | PynamoDBException)
        return None if is_expected else self.error

    def add_to(self, report: Report) -> None:
        """Add the task to the list of its outcome."""
        report.postponed += self.details.postponed
        if self.outcome != "refused":
            getattr(report, self.outcome).append(self.task_id)
        elif isinstance(self.error, Exception):
            report.refused[self.task_id] = self.error


_NOT_TAKEN = (StepPausedError, TaskFormatError, TaskIgnoredError, TaskNotFoundError)


def was_taken(error: BaseException | None) -> bool:
    """Return whether a task was refused because another worker had it first, and not because it is ignored."""
    if not isinstance(error, TaskNotStartableError) or isinstance(error, _NOT_TAKEN):
        return False
    state = None if error.task is None else error.task.state
    return getattr(state, "status", None) is not Status.IGNORED
