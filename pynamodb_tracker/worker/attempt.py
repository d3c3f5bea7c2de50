"""One task in the hands of a worker: claims it, calls its function, and knows what became of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Literal, cast

from pynamodb_tracker import clock
from pynamodb_tracker.batch.batch import Outcome, TaskAttempt
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.worker.poller import Backlog

log = logging.getLogger("pynamodb_tracker")

Function = Callable[[ExecutionContext[Any]], object]

Left = Literal["ended", "given back", "locked"]
"""How a task is left that still ran when the grace time was over."""


class WorkerAttempt(TaskAttempt[Any]):
    """A task that a thread of the worker tries; another thread may give it back."""

    def __init__(self, backlog: Backlog, task_id: str, *, heartbeat: bool, stopped: threading.Event) -> None:
        super().__init__(backlog.step.codes, task_id, stopped=stopped)
        self.backlog = backlog
        self.since = clock.now()
        self._heartbeat = heartbeat
        self._run: Run[Any] | None = None
        self._guard = threading.Lock()
        self._is_counted = False
        self._is_being_given_back = False
        self._has_ended = threading.Event()

    def run(self, function: Function) -> None:
        """Run the function on the task and count the outcome; only KeyboardInterrupt and SystemExit are raised."""
        if self.is_stopped:
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

    def give_back(self, seconds: float) -> Left:
        """Release the task while its function still runs, and return how that ended within this time.

        A task that is just being claimed is released by its own thread, and one whose end is just being recorded ends:
        both are waited for.
        """
        if self.ctx is None and self._has_ended.wait(seconds):
            return "ended"
        with self._guard:
            self._is_being_given_back = True  # the end of the block is refused from now on, which is not to be counted
        released = self._run is not None and self._run.give_back()
        with self._guard:
            self._is_being_given_back = False
        if released:
            self._count("released", None)
            return "given back"
        if self._has_ended.is_set():
            self._count("refused", None)  # unless it was counted before
        return "ended" if self._has_ended.wait(seconds) else "locked"

    def _start(self, task_id: str) -> Run[Any]:
        self._run = cast("Run[Any]", self.backlog.step.start(task_id, heartbeat=self._heartbeat))
        return self._run

    def _count(self, outcome: Outcome, error: BaseException | None) -> bool:
        """Count the task unless it was counted before, and return whether it was counted now."""
        with self._guard:
            if self._is_counted or (self._is_being_given_back and outcome == "refused"):
                return False
            self._is_counted = True
        kept = error if isinstance(error, Exception) else None
        self.backlog.ended(self.task_id, outcome, kept, was_taken=self.was_taken)
        return True

    def _log_end(self) -> None:
        about: dict[str, object] = {"task_id": self.task_id, "step": self.backlog.step.name}
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
        return f"{self.backlog.name} of {self.task_id!r}{attempt}"
