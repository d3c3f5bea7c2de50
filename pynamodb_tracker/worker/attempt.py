"""An attempt of a worker at one task: it is counted and logged once, and another thread may release it."""

import logging
import threading
from collections.abc import Callable
from typing import Any, cast

from pynamodb_tracker import clock
from pynamodb_tracker.batch.batch import Outcome, TaskAttempt
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.worker.poller import StepPoller

log = logging.getLogger("pynamodb_tracker")

Function = Callable[[ExecutionContext[Any]], object]


class WorkerAttempt(TaskAttempt[Any]):
    """An attempt in a thread of the worker, which another thread may release."""

    def __init__(
        self,
        poller: StepPoller,
        task_id: str,
        *,
        heartbeat: bool,
        stopped: threading.Event,
        batcher: WriteBatcher | None = None,
    ) -> None:
        super().__init__(poller.step._definition.codes, task_id, feed=poller.feed, stopped=stopped, batcher=batcher)
        self.began = clock.now()
        self._poller = poller
        self._heartbeat = heartbeat
        self._run: Run[Any] | None = None
        self._guard = threading.Lock()
        self._is_counted = False
        self._is_being_given_back = False
        self._has_ended = threading.Event()

    def run(self, function: Function) -> None:
        """Run the function on the task and count the outcome; only KeyboardInterrupt and SystemExit are raised."""
        if self.is_stopped:
            self.skip()
            self._has_ended.set()
            return
        try:
            self.execute(self._start, function)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            if self._count(self.outcome, self.error):
                self._log_end()
            self._has_ended.set()

    def give_back(self, seconds: float) -> None:
        """Release the task while its function still runs; log it if that is done, or not possible within this time.

        A task that is just being claimed is released by its own thread, and a run whose end is just being recorded
        ends: both are waited for.
        """
        if self.ctx is None and self._has_ended.wait(seconds):
            return
        with self._guard:
            self._is_being_given_back = True  # from now on the end of the block is refused; that is not to be counted
        released = self._run is not None and self._run.give_back()
        with self._guard:
            self._is_being_given_back = False
        if released:
            self._count("released", None)
            log.warning("%s still ran at the end of the grace time: it was released", self)
            return
        if self._has_ended.is_set():
            self._count("refused", None)  # unless it was counted before
        if not self._has_ended.wait(seconds):
            log.error("%s still ran at the end of the grace time: it stays locked until its lock expires", self)

    def _start(self, task_id: str) -> Run[Any]:
        self._run = cast("Run[Any]", self._poller.step.start(task_id, heartbeat=self._heartbeat))
        return self._run

    def _count(self, outcome: Outcome, error: BaseException | None) -> bool:
        """Count the task unless it was counted before, and return whether it was counted now."""
        with self._guard:
            if self._is_counted or (self._is_being_given_back and outcome == "refused"):
                return False
            self._is_counted = True
        kept = error if isinstance(error, Exception) else None
        self._poller.note_end(self.task_id, outcome, kept)
        return True

    def _log_end(self) -> None:
        about: dict[str, object] = {"task_id": self.task_id, "step": self._poller.step.name}
        if self.ctx is None:
            if isinstance(error := self.unexpected_error, Exception):
                log.error("%s could not be started; it is tried again", self, exc_info=error, extra=about)
            return
        about["attempt"] = self.ctx.attempt
        outcome, error = self.outcome, self.error
        if outcome in ("failed", "ignored"):
            log.warning("%s %s: %s", self, outcome, self.ctx.task.last_error, extra=about)
        elif outcome == "refused":
            # The message of any other error is the function's own, and may contain a secret.
            shown = error if error is None or isinstance(error, TrackerError) else type(error).__name__
            log.warning("the end of %s could not be recorded: %s", self, shown, extra=about)

    def __str__(self) -> str:
        attempt = "" if self.ctx is None else f" (attempt {self.ctx.attempt})"
        return f"{self._poller.name} of {self.task_id!r}{attempt}"
