"""One task in the hands of a worker: claims it, calls its function, and knows what became of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Literal, cast

from pynamodb_tracker import clock
from pynamodb_tracker.batch.batch import Outcome, met_another, outcome_of
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.worker.poller import Backlog

__all__ = ["Attempt", "Left"]

log = logging.getLogger("pynamodb_tracker")

Function = Callable[[ExecutionContext[Any]], object]

Left = Literal["ended", "given back", "locked"]
"""How a task is left that still ran when the grace time was over."""


class _TooLate(KeyboardInterrupt):
    """The worker was stopped while the task was claimed: an order as Ctrl-C is, so the attempt is given back."""


class Attempt:
    """A task that a thread of the worker tries."""

    def __init__(self, backlog: Backlog, task_id: str, *, heartbeat: bool) -> None:
        self.backlog = backlog
        self.task_id = task_id
        self.since = clock.now()
        self._run = cast("Run[Any]", backlog.step.start(task_id, heartbeat=heartbeat))
        self._ctx: ExecutionContext[Any] | None = None
        self._guard = threading.Lock()
        self._is_noted = False
        self._is_held = False
        self._over = threading.Event()

    def go(self, function: Function, stopped: threading.Event) -> None:
        """Run the function on the task; its exceptions are on record, and only an order to end leaves."""
        if stopped.is_set():
            self._over.set()
            return
        error: BaseException | None = None
        try:
            with self._run as ctx:
                self._ctx = ctx
                _check_goes_on(stopped)
                function(ctx)
        except _TooLate:
            error = TrackerError("it was to be given back, for the worker stops")
        except BaseException as caught:
            error = caught
            if isinstance(caught, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._note(error)
            self._over.set()

    def give_back(self, seconds: float) -> Left:
        """Release the task though its function still runs, and tell what became of it in that time.

        One whose claim is under way releases itself, and one whose end is being recorded ends: that is waited for.
        """
        if self._ctx is None and self._over.wait(seconds):
            return "ended"
        with self._guard:
            self._is_held = True  # a block that ends from now on is refused, for its task is given back
        released = self._run.give_back()
        with self._guard:
            self._is_held = False
        if released:
            self._count("released", None)
            return "given back"
        if self._over.is_set():
            self._count("refused", None)  # unless it was counted before
        return "ended" if self._over.wait(seconds) else "locked"

    def _note(self, error: BaseException | None) -> None:
        """Count the task, and say what a person should know of it."""
        outcome: Outcome
        try:
            outcome = outcome_of(self.backlog.step.codes, self._ctx, error)
        except BaseException as odd:
            outcome = "refused"
            if isinstance(odd, Exception):
                log.exception("%s could not be started; it is tried again", self, extra=self._about())
        if self._count(outcome, error) and self._ctx is not None:
            self._tell(outcome, error)

    def _count(self, outcome: Outcome, error: BaseException | None) -> bool:
        """Count the task once, and tell whether this was the time."""
        with self._guard:
            if self._is_noted or (self._is_held and outcome == "refused"):
                return False
            self._is_noted = True
        kept = error if isinstance(error, Exception) else None
        self.backlog.ended(self.task_id, outcome, kept, met=met_another(self._ctx, error))
        return True

    def _tell(self, outcome: Outcome, error: BaseException | None) -> None:
        if outcome in ("failed", "ignored") and self._ctx is not None:
            log.warning("%s %s: %s", self, outcome, self._ctx.task.last_error, extra=self._about())
        elif outcome == "refused":
            # The message of another error is the function's own, and may hold a secret.
            told = error if error is None or isinstance(error, TrackerError) else type(error).__name__
            log.warning("how %s ended is not on record: %s", self, told, extra=self._about())

    def _about(self) -> dict[str, object]:
        about: dict[str, object] = {"task_id": self.task_id, "step": self.backlog.step.name}
        return about if self._ctx is None else {**about, "attempt": self._ctx.attempt}

    def __str__(self) -> str:
        attempt = "" if self._ctx is None else f" (attempt {self._ctx.attempt})"
        return f"{self.backlog.name} of {self.task_id!r}{attempt}"


def _check_goes_on(stopped: threading.Event) -> None:
    if stopped.is_set():
        raise _TooLate
