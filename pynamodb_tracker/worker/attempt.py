"""An attempt of a worker at one task: it is counted and logged once, and another thread may release it."""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.batch.batch import TaskAttempt
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.exceptions import TaskNotStartableError, TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.observation import Observation
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.instrumentation import Hook, RunDetails
from pynamodb_tracker.worker.poller import StepPoller

log = logging.getLogger("pynamodb_tracker")

Function = Callable[[ExecutionContext[Any]], object]


class WorkerAttempt(TaskAttempt[Any], Hook):
    """An attempt of the worker, which another thread may release; whichever ends its run counts it."""

    def __init__(
        self,
        poller: StepPoller,
        task_id: str,
        *,
        heartbeat: bool,
        stopped: threading.Event,
        batcher: WriteBatcher | None = None,
    ) -> None:
        super().__init__(
            poller.step._definition.codes,
            task_id,
            feed=poller.feed,
            stopped=stopped,
            batcher=batcher,
            slot=poller.slot_of(task_id),
        )
        self._poller = poller
        self._heartbeat = heartbeat
        self.on_loss: Callable[[], object] | None = None
        """What is called once the lock is known to be lost."""
        self._has_ended = threading.Event()

    def run(self, function: Function) -> None:
        """Run the function on the task; only KeyboardInterrupt and SystemExit are raised."""
        if self.is_stopped:
            self.note_answer()
            self._has_ended.set()
            return
        try:
            self.execute(partial(self._poller.step.start, heartbeat=self._heartbeat), function)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._note_end()

    def follow(self, run: Run[Any]) -> None:
        """Have the run keep the details of this attempt up to date, and count its end."""
        self._run = run
        run.observation = Observation(self.details, self)

    def on_end(self, run: RunDetails) -> None:  # noqa: ARG002 - these are the details of this attempt
        """Count what became of the task."""
        error = self.error if isinstance(self.error, Exception) else None
        gave_up, postponed = self.details.gave_up_occurrence, self.details.postponed
        self._poller.note_end(self.task_id, self.outcome, error, gave_up_occurrence=gave_up, postponed=postponed)

    on_refuse = on_end

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:  # noqa: ARG002 - as above
        """Pass on that the lock is lost."""
        if self.on_loss is not None:
            self.on_loss()

    @property
    def has_lost_lock(self) -> bool:
        """Whether the lock is known to be lost while the block still runs: nothing of it can be recorded."""
        journal = self.journal
        if journal is None or journal.ended:  # an end that is refused comes at once
            return False
        return journal.lost is not None

    def give_back(self, seconds: float) -> None:
        """Release the task while its function still runs; log it if that is done, or not possible within this time.

        A task that is just being claimed is released by its own thread, and a run whose end is just being recorded
        ends: both are waited for.
        """
        if not self.was_claimed and self._has_ended.wait(seconds):
            return
        fields = self.details.log_fields
        if self._run is not None and self._run.give_back():
            log.warning("%s still ran at the end of the grace time: it was released", self, extra=fields)
        elif not self._has_ended.wait(seconds):
            text = "%s still ran at the end of the grace time: it stays locked until its lock expires"
            log.error(text, self, extra=fields)

    def _note_end(self) -> None:
        """Log what became of the task, and let `give_back` know that it is too late."""
        if self._run is None:  # start itself has raised, which is no run
            self.on_end(self.details)
        self._log_end()
        self._has_ended.set()

    def _log_end(self) -> None:
        details, error = self.details, self.error
        if details.gave_up_occurrence:
            text = "%s gave up its occurrence, and waits for the next one: %s"
            log.warning(text, self, self.task.last_error, extra=details.log_fields)
        elif not self.was_claimed:
            if isinstance(self.unexpected_error, Exception):
                log.error("%s could not be started; it is tried again", self, exc_info=error, extra=details.log_fields)
        elif details.outcome in ("failed", "ignored"):
            log.warning("%s %s: %s", self, details.outcome, details.task.last_error, extra=details.log_fields)
        elif details.outcome == "refused" or isinstance(error, TaskNotStartableError | PynamoDBException):
            # The message of any other error is the function's own, and may contain a secret.
            shown = error if error is None or isinstance(error, TrackerError) else type(error).__name__
            not_recorded = "the end of %s could not be recorded: %s"
            text = not_recorded if details.outcome == "refused" else "%s was released before its function began: %s"
            log.warning(text, self, shown, extra=details.log_fields)

    def __str__(self) -> str:
        attempt = f" (attempt {self.details.attempt})" if self.was_claimed else ""
        return f"{self._poller.name} of {self.task_id!r}{attempt}"
