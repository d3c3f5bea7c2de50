"""A batch: one function on many tasks, on threads, each task once, with a report of the outcomes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.batch.candidates import Feeding, Source
from pynamodb_tracker.batch.thread_pool import in_threads
from pynamodb_tracker.dynamodb.error_codes import is_temporary
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
from pynamodb_tracker.instrumentation import RunDetails, log_fields
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes, Status
from pynamodb_tracker.transitions import Journal
from pynamodb_tracker.writes.participants import MadeDue

if TYPE_CHECKING:
    from pynamodb_tracker.control.slots import Slot, StepSlots

T = TypeVar("T", bound=TaskRow)
S = TypeVar("S")
F = TypeVar("F")

log = logging.getLogger("pynamodb_tracker")

Start = Callable[[str], AbstractContextManager[ExecutionContext[T], bool | None]]
"""`step.start` with its options: it returns the run of a task."""

Outcome = Literal["succeeded", "failed", "ignored", "refused", "released"]
"""refused: the task was not started, or its end could not be recorded. released: the attempt does not count."""


@dataclass(slots=True)
class Report:
    """The outcome of a batch. Each task is in one of the lists."""

    succeeded: list[str] = field(default_factory=list)
    """These succeeded, or were created, deleted or reopened."""
    failed: list[str] = field(default_factory=list)
    """These failed, and will be tried again."""
    ignored: list[str] = field(default_factory=list)
    """These became ignored: no attempt is left, the function gave up, or `ignore_many` has ignored them."""
    refused: dict[str, Exception] = field(default_factory=dict)
    """These were not started, were not changed, or lost their lock. The errors say why."""
    released: list[str] = field(default_factory=list)
    """These attempts were released and do not count: the batch was stopped, or responses came too late."""
    paused: bool = False
    """Whether the step is paused, so that no more tasks were started."""
    postponed: int = 0
    """How many failed tasks were postponed, so that their attempts do not count."""
    due_now: int = 0
    """How many reopened tasks are due now, not at the time in `due_times`, because they repeat, have the turn of their
    group, or were pending already."""

    def __str__(self) -> str:
        postponed = f" ({self.postponed} postponed)" if self.postponed else ""
        paused = ", and then the step was paused" if self.paused else ""
        return (
            f"{len(self.succeeded)} succeeded, {len(self.failed)} failed{postponed}, {len(self.ignored)} ignored, "
            f"{len(self.refused)} refused{paused}"
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tasks of a step had each outcome. Only numbers, because a worker may run for months."""

    succeeded: int = 0
    """The step is done for these."""
    failed: int = 0
    """These attempts failed, and the tasks will be tried again."""
    ignored: int = 0
    """These became ignored: no attempt is left, or the function gave up."""
    refused: int = 0
    """These were not started, mostly because another worker had them first, or their end could not be recorded."""
    released: int = 0
    """These attempts were released and do not count: the worker stopped, or responses came too late."""
    postponed: int = 0
    """How many of the failed attempts were postponed, so that they do not count."""
    paused: bool = False
    """Whether the step is paused, so that no more of its tasks were started."""

    def __add__(self, other: Tally) -> Tally:
        numbers: dict[str, Any] = {name: mine + getattr(other, name) for name, mine in asdict(self).items()}
        return Tally(**{**numbers, "paused": self.paused or other.paused})

    def __str__(self) -> str:
        return (
            f"{self.succeeded} succeeded, {self.failed} failed, {self.ignored} ignored, {self.refused} refused, "
            f"{self.released} released"
            + (f", {self.postponed} postponed" if self.postponed else "")
            + (", paused" if self.paused else "")
        )


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


def log_failed_requests(codes: Codes, report: Report) -> None:
    """Log once per batch how many tasks were refused because requests failed, and why."""
    failed = [each for each in report.refused.items() if isinstance(each[1], PynamoDBException)]
    if failed:
        task_id, error = failed[0]
        log.warning(
            "%d tasks of %s are refused at %s, because requests failed; the first one is %r: %s: %s",
            len(failed),
            codes.use_case_id,
            codes.step,
            task_id,
            type(error).__name__,
            error,
            extra=log_fields(codes.use_case_id, codes.step),
        )


_GLANCE = 0.5
"""Seconds after which a wait ends, so that the batch can stop."""


class Admission:
    """The slots of tasks that a batch is about to start. Without a limit, each task is admitted at once."""

    def __init__(self, slots: StepSlots | None) -> None:
        self.slots = slots
        self._of: dict[Hashable, Slot] = {}
        self._is_warned = False

    def admit(self, task: Hashable) -> bool:
        """Return whether a task may start now. If there is no slot, wait a moment for one."""
        if self.slots is None or self.has(task):
            return True
        self.slots.wait(_GLANCE)
        return self.has(task)

    def has(self, task: Hashable) -> bool:
        """Take a slot for a task, and return whether that worked."""
        if self.slots is None:
            return True
        try:
            slot = self.slots.take()
        except PynamoDBException as error:
            if not is_temporary(error):
                raise
            if not self._is_warned:
                log.warning("no slot of the limit %s can be taken; it is tried again: %s", self.slots.limit.name, error)
            self._is_warned = True
            clock.sleep(_GLANCE)
            return False
        if slot is None:
            self.slots.check_caller()
            return False
        self._of[task] = slot
        return True

    def slot_of(self, task: Hashable) -> Slot | None:
        """Return the slot of a task, which has to leave it."""
        return self._of.pop(task, None)

    def end(self) -> None:
        """Leave the slots of tasks that did not start, and give back the unused ones."""
        while self._of:
            self._of.popitem()[1].leave()
        if self.slots is not None:
            self.slots.give_back()


@dataclass(slots=True)
class BaseBatch(Generic[S, F]):
    """The common part of batches on threads and on an event loop."""

    codes: Codes
    start: S
    """Returns the run of a task."""
    function: F
    feed: Source
    pause: Callable[[], object] | None = None
    """Returns the step's current pause. None if the step is never paused."""
    progress: Callable[[Report], object] | None = None
    batcher: WriteBatcher | None = None
    """Sends the writes of several threads together."""
    slots: StepSlots | None = None
    report: Report = field(default_factory=Report)

    def add(self, attempt: TaskAttempt[Any]) -> None:
        """Add an attempt to the report, or raise an unexpected error that kept it from starting."""
        if (error := attempt.unexpected_error) is not None:
            raise error
        attempt.add_to(self.report)
        if self.progress is not None:
            self.progress(self.report)


class Batch(BaseBatch[Start[T], Callable[[ExecutionContext[T]], object]]):
    """The attempts of one step at many tasks."""

    def run(self, *, limit: int | None, threads: int, rate: float | None) -> Report:
        """Try each task. KeyboardInterrupt and SystemExit are recorded with the task, end the batch, and propagate."""
        feeding, admission = Feeding({self.codes: self.feed}, limit=limit), Admission(self.slots)
        try:
            run = partial(self._run, feeding, admission, threading.Lock())
            in_threads(run, feeding, threads, rate=rate, admit=admission.admit)
        finally:
            admission.end()
            log_failed_requests(self.codes, self.report)
        return self.report

    def _run(self, feeding: Feeding, admission: Admission, guard: threading.Lock, task: tuple[Codes, str]) -> None:
        slot = admission.slot_of(task)
        attempt: TaskAttempt[T] = TaskAttempt(*task, feed=self.feed, batcher=self.batcher, slot=slot)
        with attempt.followed_by(feeding):
            if self.pause is not None and self.pause() is not None:
                self.report.paused = True
                attempt.note_response()
                feeding.leave_out(self.codes)
                return
            attempt.execute(self.start, self.function)
            with guard:
                self.add(attempt)
