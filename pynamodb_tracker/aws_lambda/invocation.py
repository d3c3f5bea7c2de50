"""One invocation of a function: its time, how long its locks last, and the tasks that it tries."""

import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from pynamodb_tracker import clock, exceptions
from pynamodb_tracker.aws_lambda.trigger import Reason, UnreadableEventError, shape_of
from pynamodb_tracker.batch.batch import TaskAttempt
from pynamodb_tracker.exceptions import TaskNotStartableError, TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.step.bound import BoundStep

log = logging.getLogger("pynamodb_tracker")

_LOCK_MARGIN = timedelta(seconds=1)
"""How much longer than the invocation a lock lasts: Lambda ends the function at its timeout, or a moment later."""

_REASONS: dict[type[TaskNotStartableError], Reason] = {
    exceptions.TaskAlreadySucceededError: "succeeded",
    exceptions.TaskLockedError: "locked",
    exceptions.TaskNotReadyError: "not_ready",
    exceptions.TaskNotFoundError: "not_found",
    exceptions.TaskIgnoredError: "ignored",
}


class LambdaContext(Protocol):
    """What is used of the second argument of a handler.

    https://docs.aws.amazon.com/lambda/latest/dg/python-context.html
    """

    @property
    def aws_request_id(self) -> str:
        """The id of the invocation; the same when Lambda retries an event."""
        ...

    def get_remaining_time_in_millis(self) -> int:
        """Return how many milliseconds are left until Lambda ends the function."""
        ...


class Invocation:
    """An invocation of a function; without a context, as in a test, it has no time limit and no id."""

    def __init__(self, context: LambdaContext | None) -> None:
        self._context = context
        self._longest = timedelta(0)

    @property
    def request_id(self) -> str | None:
        """Lambda's id of the invocation, which is recorded as the worker."""
        return None if self._context is None else self._context.aws_request_id

    @property
    def remaining(self) -> timedelta | None:
        """How much time is left; None without a limit."""
        if self._context is None:
            return None
        return timedelta(milliseconds=self._context.get_remaining_time_in_millis())

    @property
    def lock_for(self) -> timedelta | None:
        """How long a lock that is taken now lasts; None for the step's own `lock_for`."""
        remaining = self.remaining
        return None if remaining is None else max(remaining, timedelta(0)) + _LOCK_MARGIN

    def note_duration(self, duration: timedelta) -> None:
        """Note how long a task took."""
        self._longest = max(self._longest, duration)

    def has_time_for(self, at_least: timedelta) -> bool:
        """Return whether that much time is left, and as much as the longest task so far took."""
        remaining = self.remaining
        return remaining is None or remaining >= max(at_least, self._longest)


class InvocationAttempt(TaskAttempt[Any]):
    """An attempt at a task within an invocation."""

    def __init__(self, step: BoundStep[Any], task_id: str, invocation: Invocation) -> None:
        super().__init__(step.codes, task_id)
        self.step = step
        self.duration = timedelta(0)
        """How long it took, including the claim and recording the end."""
        self._invocation = invocation
        self._begun = clock.now()

    def run(self, function: Callable[..., object], *arguments: object) -> None:
        """Call the function with the context and the arguments; what it raises is kept in `error`.

        Only KeyboardInterrupt leaves: after SystemExit, other records of the event are still to be run.
        """

        def call(ctx: ExecutionContext[Any]) -> object:
            return _check_done(function(ctx, *arguments))

        with suppress(SystemExit):
            self.execute(partial(self.step.start, lock_for=self._invocation.lock_for), call)
        self.duration = clock.now() - self._begun
        if self.ctx is not None:
            self._invocation.note_duration(self.duration)

    def create_task(self, attributes: Mapping[str, Any]) -> None:
        """Create the task that was not found, pending for the step; `error` is None if it can be run now.

        UnreadableEventError if the attributes cannot be stored.
        """
        self.error = None
        try:
            self.step.model.create(self.task_id, state=self.step.pending, **attributes)
        except exceptions.TaskAlreadyExistsError:
            log.debug("%s: another event has created it", self)
        except (TypeError, ValueError) as error:  # its message may contain a value, which may be confidential
            log.debug("%s cannot be created", self, exc_info=True)
            attribute = f" for {error.attribute!r}" if isinstance(error, exceptions.ValueNotStorableError) else ""
            raise UnreadableEventError(
                f"{self} cannot be created with {shape_of(attributes)}: {type(error).__name__}{attribute}; its message "
                "is logged at level DEBUG"
            ) from error
        except Exception as error:  # noqa: BLE001 - the table failed; it is reported like any other error
            self.error = error

    @property
    def task(self) -> Any:
        """The row as last seen; None if it was not."""
        return getattr(self.error, "task", None) if self.ctx is None else self.ctx.task

    @property
    def reason(self) -> Reason | None:
        """Why the task did not succeed in this invocation, which decides the reply."""
        if self.ctx is not None:
            return self.outcome if self.outcome in ("failed", "ignored") else None
        for kind, reason in _REASONS.items():
            if isinstance(self.error, kind):
                return reason
        return None

    @property
    def set_aside(self) -> bool:
        """Whether this attempt made the task ignored: it was the last one, or the claim found none left."""
        return self.outcome == "ignored" and (self.ctx is not None or self.task.update_time >= self._begun)

    @property
    def claim_error(self) -> BaseException | None:
        """The error that kept the task from being claimed, unless it is a refusal."""
        return self.error if self.ctx is None and not isinstance(self.error, TrackerError) else None

    @property
    def took_over(self) -> bool:
        """Whether the worker of the attempt before died, or lost the lock."""
        return self.ctx is not None and self.ctx.attempt > 1 and self.ctx.fence - 1 in (self.ctx.task.unfinished or ())

    def __str__(self) -> str:
        attempt = "" if self.ctx is None else f" (attempt {self.ctx.attempt})"
        return f"{self.step.name} of {self.step.model.__name__} {self.task_id!r}{attempt}"


def _check_done(value: object) -> object:
    """Return what a function returned; TypeError if it is awaitable, because then its work is not done."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError("the function returned an awaitable, so its work is not done: call asyncio.run(...) in it")
    return value
