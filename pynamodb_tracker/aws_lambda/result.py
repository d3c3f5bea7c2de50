"""The result of a handler for one event."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Literal

from pynamodb_tracker.model.row import T

_Later = Literal["locked", "not_ready", "waits", "paused", "limited"]
Reason = Literal[
    _Later, "succeeded", "not_found", "mismatch", "ignored", "cancelled", "failed", "released", "unavailable"
]
"""Why a task did not succeed in this invocation. Replies has a field for each."""

InvocationStatus = Literal[Reason, "unreadable"]
"""The task's result, now or before: a field of Replies. unreadable: an HTTP request without a task id, or with a body
that is not JSON.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation(Generic[T]):
    """The result of a handler for one event. `respond` of `handles` gets it."""

    status: InvocationStatus
    """`succeeded`, in this invocation or before, or why the step has not succeeded."""
    repeated: bool = False
    """Whether the step had succeeded before. Then the function was not called."""
    task_id: str = ""
    """Empty if the event is unreadable."""
    task: T | None = None
    """The stored row, or None if there is none or it was not read."""
    result: Any = None
    """The function's result, or the stored one if the step had succeeded before."""
    error: BaseException | None = None
    """Why the step has not succeeded. The message is not meant for a caller."""
    retry_after: timedelta | None = None
    """When another try makes sense. None if that is unknown, or if retrying does not help."""
