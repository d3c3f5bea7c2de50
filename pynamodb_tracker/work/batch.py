"""A batch: one function on many tasks, on threads, each task once, with a report of the outcomes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.error_codes import is_temporary
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes
from pynamodb_tracker.work.attempt import Start, TaskAttempt
from pynamodb_tracker.work.candidates import Feeding, Source
from pynamodb_tracker.work.outcomes import Report, log_failed_requests
from pynamodb_tracker.work.threads import in_threads

if TYPE_CHECKING:
    from pynamodb_tracker.control.slots import Slot, StepSlots

T = TypeVar("T", bound=TaskRow)
S = TypeVar("S")
F = TypeVar("F")

log = logging.getLogger("pynamodb_tracker")

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
