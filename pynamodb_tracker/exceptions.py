"""All exceptions that the library raises derive from TrackerError.

Wrong arguments raise a ValueError or a TypeError, before any request. Failed requests raise PynamoDB's own errors.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

INSTALLABLE = "PATH-OF-THE-CLONE"
"""The argument of `pip install` in messages and on pages. The first release changes it to "pynamodb-tracker"."""

if TYPE_CHECKING:
    from typing import Protocol

    class FoundTask(Protocol):
        """The row when the error was raised: an instance of your class, so `isinstance` narrows its type."""

        task_id: str
        use_case_id: str
        status: int
        attempt: int
        fence: int
        worker: str | None
        lock: str
        lock_expire_time: datetime
        due_time: datetime
        create_time: datetime
        update_time: datetime
        data: dict[str, Any]
        errors: list[Any]
        last_error: str | None

        @property
        def state(self) -> object: ...


TROUBLESHOOT = "https://pynamodb-tracker.github.io/pynamodb-tracker/latest/how-to/troubleshoot.html"


def address_of(error: type[TrackerError]) -> str:
    return f"See {TROUBLESHOOT}#{error.entry}"


class TrackerError(Exception):
    """The base class for all errors in this library. A note links to the page that explains the error."""

    entry: ClassVar[str] = ""  # its section on that page

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        if self.entry:
            self.add_note(address_of(type(self)))


class DefinitionError(TrackerError):
    """A class declares a use case, a step or an attribute that cannot work. The message says what to write."""

    entry = "a-class-cannot-be-defined"


class TaskError(TrackerError):
    """An error about the task `task_id`. If its row was read, `task` contains it."""

    def __init__(self, message: str, *, task_id: str = "", task: FoundTask | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id
        self.task = task


class TaskAlreadyExistsError(TaskError):
    """`create` found a task with this id, and did not change it."""


class SignalAlreadyReceivedError(TaskError):
    """The task has already received another signal with that name: `signal`, with its `value`, `by` and `time`."""

    entry = "a-signal-is-refused"

    def __init__(self, message: str, *, task_id: str = "", task: FoundTask | None = None, signal: Any = None) -> None:
        super().__init__(message, task_id=task_id, task=task)
        self.signal = signal


class LockLostError(TaskError):
    """Another worker or a person has taken over the task. Nothing that this run did since then was recorded."""

    entry = "locklosterror"


class NestedConcurrencyLimitError(TrackerError):
    """A block that has a slot of a concurrency limit starts a task of a step that has a limit. Nothing was sent.

    Both might otherwise wait for each other forever. It is raised whether a slot is free or not.
    """

    entry = "a-task-does-not-start"


class ValueNotStorableError(TaskError, ValueError):
    """A value cannot be stored. `attribute` is its name. If it is too large, `size` is its size in bytes."""

    entry = "a-value-cannot-be-stored"

    def __init__(self, message: str, *, task_id: str = "", attribute: str = "", size: int | None = None) -> None:
        super().__init__(message, task_id=task_id)
        self.attribute = attribute
        self.size = size

    def name_task(self, task_id: str) -> None:
        """Add the task id to the message, unless it is already there."""
        if not self.task_id:
            self.task_id = task_id
            self.args = (f"{self} (task {task_id!r})",)


class TaskNotStartableError(TaskError):
    """The task could not be started or changed.

    This class itself is raised with `detailed_error=False`, and when responses take longer than `lock_for`.
    """

    entry = "a-task-does-not-start"

    skipped_occurrence = False
    """Whether a repeating task had used up its attempts for this occurrence. The call has recorded that."""


class TaskNotFoundError(TaskNotStartableError):
    """No task in the use case has this id."""


class TaskNotReadyError(TaskNotStartableError):
    """The task is not due yet, or an earlier step is not done."""


class TaskLockedError(TaskNotStartableError):
    """Another worker, `task.worker`, holds the lock until `task.lock_expire_time`."""


class TaskAlreadySucceededError(TaskNotStartableError):
    """The task has already completed this step."""

    skipped = False
    """Whether an earlier run skipped this step: it went to a later one, or to the end."""


class PayloadMismatchError(TaskNotStartableError):
    """The step was first started with another payload (`start(must_match=...)`), so this is a different call."""

    entry = ""


class TaskIgnoredError(TaskNotStartableError):
    """The task is ignored until somebody reopens it. A person, GiveUp or its last attempt ended it."""


class TaskCancelledError(TaskNotStartableError):
    """The task was cancelled. `task.cancelled` has when, by whom and why. Only `Order.reopen(id)` undoes that."""


class StepPausedError(TaskNotStartableError):
    """The step is paused until `until`, or until somebody resumes it if that is None. The task is unchanged."""

    def __init__(
        self, message: str, *, task_id: str = "", task: FoundTask | None = None, until: datetime | None = None
    ) -> None:
        super().__init__(message, task_id=task_id, task=task)
        self.until = until


class ConcurrencyLimitReachedError(TaskNotStartableError):
    """All slots of the step's concurrency limit are taken. The task is unchanged. Try again later."""


class TaskFormatError(TaskNotStartableError):
    """This program cannot read the row, but others may: a later version wrote it, or this machine lacks a time zone.

    The task is unchanged.
    """

    entry = ""


REASONS: dict[
    type[Exception],
    Literal["succeeded", "locked", "not_ready", "not_found", "mismatch", "ignored", "cancelled", "paused", "limited"],
] = {
    TaskAlreadySucceededError: "succeeded",
    TaskLockedError: "locked",
    TaskNotReadyError: "not_ready",
    TaskNotFoundError: "not_found",
    PayloadMismatchError: "mismatch",
    TaskIgnoredError: "ignored",
    TaskCancelledError: "cancelled",
    StepPausedError: "paused",
    ConcurrencyLimitReachedError: "limited",
}
"""Why a task was not started, in logs and metrics."""


class GiveUp(TrackerError):  # noqa: N818 - an instruction, not an error
    """Raise it in the block to ignore the task immediately, even if attempts are left. Its message is the reason.

    Examples:
        >>> with Order.ship.start("o-2", skip_error=True):
        ...     raise GiveUp("nobody lives there")
    """


class RetryLater(TrackerError):  # noqa: N818 - an instruction, not an error
    """Raise it in the block to fail this attempt and retry after a delay.

    Args:
        delay: The shortest time until the next attempt.
        message: The reason, which is stored as the attempt's error.
        use_attempt: If False, this failure uses no attempt. This can happen up to 1,000 times, until the step succeeds
            or is reopened.

    Examples:
        >>> with Order.ship.start("o-2", skip_error=True):
        ...     raise RetryLater(timedelta(minutes=5), "no carrier", use_attempt=False)
    """

    def __init__(self, delay: timedelta, message: str = "", *, use_attempt: bool = True) -> None:
        if not isinstance(delay, timedelta):
            raise TypeError(f"RetryLater takes a timedelta, not {delay!r}: write RetryLater(timedelta(minutes=5))")
        if delay < timedelta(0):
            raise ValueError(f"RetryLater takes a delay of zero or more, not {delay!r}")
        super().__init__(message or f"retry in {delay}")
        if not isinstance(use_attempt, bool):
            raise TypeError(f"use_attempt must be True or False, not {use_attempt!r}")
        self.delay = delay
        self.use_attempt = use_attempt

    # Without this, pickle would pass only the message.
    def __reduce__(self) -> tuple[type[RetryLater], tuple[timedelta, str], dict[str, Any]]:
        return (type(self), (self.delay, str(self)), vars(self))
