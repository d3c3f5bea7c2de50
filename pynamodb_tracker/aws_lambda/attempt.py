"""One task in the hands of an invocation: it is claimed, the function is called, and it is known what became of it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.aws_lambda.event import UnreadableEventError, described
from pynamodb_tracker.aws_lambda.invocation import Invocation
from pynamodb_tracker.aws_lambda.replies import Reason
from pynamodb_tracker.batch.batch import TaskAttempt
from pynamodb_tracker.exceptions import (
    TaskAlreadyExistsError,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
    TaskNotStartableError,
    TrackerError,
    ValueNotStorableError,
)
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.step.bound import BoundStep

__all__ = ["Attempt"]

log = logging.getLogger("pynamodb_tracker")

Function = Callable[[ExecutionContext[Any]], Any]
Attributes = Callable[[], Mapping[str, Any]]

_REASONS: dict[type[TaskNotStartableError], Reason] = {
    TaskAlreadySucceededError: "succeeded",
    TaskLockedError: "locked",
    TaskNotReadyError: "not_ready",
    TaskNotFoundError: "not_found",
    TaskIgnoredError: "ignored",
}


def finished(value: Any) -> Any:
    """Return what a function returned, unless its work is yet to be awaited: TypeError then."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(
            "the function returned something to be awaited, so nothing is done: write asyncio.run(...) in it"
        )
    return value


class Attempt(TaskAttempt[Any]):
    """A task that an invocation tries."""

    def __init__(self, step: BoundStep[Any], task_id: str, invocation: Invocation) -> None:
        super().__init__(step.codes, task_id)
        self.step = step
        self.duration = timedelta(0)
        """How long it took, including the claim and recording the end."""
        self._invocation = invocation
        self._begun = clock.now()

    def run(self, function: Function, attributes: Attributes | None = None) -> None:
        """Run the function on the task; what it raises is kept in `error`, and only KeyboardInterrupt leaves.

        With `attributes`, a task that does not exist is created with them first; UnreadableEventError where that cannot
        be done.
        """
        self._start(function)
        if attributes is not None and self.ctx is None and isinstance(self.error, TaskNotFoundError):
            try:
                self._create(attributes())
                self.error = None
            except UnreadableEventError:
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - as below
                self.error = error
            else:
                self._start(function)
        self.duration = clock.now() - self._begun
        if self.ctx is not None:
            self._invocation.took(self.duration)

    def _start(self, function: Function) -> None:
        def run_to_its_end(ctx: ExecutionContext[Any]) -> Any:
            return finished(function(ctx))

        with suppress(SystemExit):  # it is kept in `error`, and other records of the event are still to be run
            self.execute(partial(self.step.start, lock_for=self._invocation.lock_for), run_to_its_end)

    def _create(self, attributes: Mapping[str, Any]) -> None:
        try:
            self.step.model.create(self.task_id, state=self.step.pending, **attributes)
        except TaskAlreadyExistsError:
            log.debug("%s: another event has created it", self)
        except (TypeError, ValueError) as error:  # its message may show a value, and values are nobody's business
            log.debug("%s cannot be created", self, exc_info=True)
            about = f", for {error.attribute!r}" if isinstance(error, ValueNotStorableError) else ""
            raise UnreadableEventError(
                f"{self} cannot be created with {described(attributes)}: {type(error).__name__}{about}; its message is "
                "in the log at the level DEBUG"
            ) from error

    @property
    def task(self) -> Any:
        """The row as it was seen last; None where none was."""
        return getattr(self.error, "task", None) if self.ctx is None else self.ctx.task

    @property
    def reason(self) -> Reason | None:
        """Why the task did not succeed in this invocation, as a reply is chosen by it."""
        if self.ctx is None:
            return next((reason for kind, reason in _REASONS.items() if isinstance(self.error, kind)), None)
        return self.outcome if self.outcome in ("failed", "ignored") else None

    @property
    def set_aside(self) -> bool:
        """Whether the task was ignored by this attempt: its last one, or the claim that found none left."""
        return self.outcome == "ignored" and (self.ctx is not None or self.task.update_time >= self._begun)

    @property
    def not_started_by(self) -> BaseException | None:
        """The error by which the task was not even claimed, where that is not about the task."""
        return self.error if self.ctx is None and not isinstance(self.error, TrackerError) else None

    @property
    def took_over(self) -> bool:
        """Whether the worker of the attempt before died, or lost the lock."""
        return self.ctx is not None and self.ctx.attempt > 1 and self.ctx.fence - 1 in (self.ctx.task.unfinished or ())

    def __str__(self) -> str:
        attempt = "" if self.ctx is None else f" (attempt {self.ctx.attempt})"
        return f"{self.step.name} of {self.step.model.__name__} {self.task_id!r}{attempt}"
