"""What a handler has done for an event: what became of the task, and what its caller may get."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Literal, TypeVar

from pynamodb_tracker.model.row import TaskRow

T = TypeVar("T", bound=TaskRow)

Reason = Literal[
    "succeeded",
    "locked",
    "not_ready",
    "waits",
    "paused",
    "not_found",
    "mismatch",
    "ignored",
    "failed",
    "released",
    "unavailable",
]
"""Why a task did not succeed in this invocation; the names of the fields of Replies."""

InvocationStatus = Literal[Reason, "unreadable"]
"""What became of the task, now or before: a field of Replies. unreadable: an HTTP request has no task id, or no JSON in
its body; there is no task then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation(Generic[T]):
    """What a handler has done for one event, whatever the outcome; the argument of `respond` of `handles`."""

    status: InvocationStatus
    """Whether the step has succeeded, in this invocation or before, or why not."""
    repeated: bool = False
    """Whether the step had succeeded before: the function was not called."""
    task_id: str = ""
    """The id; empty if the event is unreadable."""
    task: T | None = None
    """The row as it is stored; None if there is none, or it was not read."""
    result: Any = None
    """What the function returned; if the step had succeeded before, the result that `store_result` has stored."""
    error: BaseException | None = None
    """Why it has not succeeded; its message is not meant for a caller."""
    retry_after: timedelta | None = None
    """When another try makes sense; None if nothing is known, or no further try helps."""
