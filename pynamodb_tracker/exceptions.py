"""Everything that the library raises, in one tree.

TrackerError
├── DefinitionError             a use case or a step is declared wrongly; raised when the class is created
├── TaskAlreadyExistsError      create: the task exists
├── SignalAlreadyReceivedError    send: the task has another signal of that name
├── LockLostError               the row proves that this run no longer holds the lock
├── ValueNotStorableError       a value cannot be stored (also a ValueError)
├── TaskNotStartableError       a claim, a reopen, an ignore or a delete was refused
│   ├── TaskNotFoundError       there is no such task
│   ├── TaskNotReadyError       it is not due yet, or an earlier step is not done
│   ├── TaskLockedError         another worker holds it
│   ├── TaskAlreadySucceededError   this step is done
│   ├── PayloadMismatchError    the step was started with another payload before
│   ├── TaskIgnoredError        it is ignored, and waits for a person
│   ├── StepPausedError         the step is paused for everybody
│   └── TaskFormatError         a later version of the library wrote it
├── GiveUp                      raised by the user's block: ignore the task at once
└── RetryLater                  raised by the user's block: fail this attempt, start the next one after a delay

Wrong arguments raise a ValueError or a TypeError, before any request. Failed requests raise PynamoDB's own errors.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

__all__ = [
    "DefinitionError",
    "GiveUp",
    "LockLostError",
    "PayloadMismatchError",
    "RetryLater",
    "SignalAlreadyReceivedError",
    "StepPausedError",
    "TaskAlreadyExistsError",
    "TaskAlreadySucceededError",
    "TaskFormatError",
    "TaskIgnoredError",
    "TaskLockedError",
    "TaskNotFoundError",
    "TaskNotReadyError",
    "TaskNotStartableError",
    "TrackerError",
    "ValueNotStorableError",
]

INSTALLABLE = "PATH-OF-THE-CLONE"
"""What pip installs, in messages and on pages; "pynamodb-tracker" once the package index has it."""


if TYPE_CHECKING:
    from typing import Protocol

    class FoundTask(Protocol):
        """The row of a task as an error found it: an instance of your class, so `isinstance` gives you all of it."""

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
"""The page that says for each common error what it means, and what to do."""


def address_of(error: type[TrackerError]) -> str:
    """Return the note that each error of a class with an entry has."""
    return f"See {TROUBLESHOOT}#{error.entry}"


class TrackerError(Exception):
    """The base class of all errors of the library; a note has the address of what to do about it, if there is one."""

    entry: ClassVar[str] = ""
    """The part of the page *Troubleshoot* about errors of this class."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        if self.entry:
            self.add_note(address_of(type(self)))


class DefinitionError(TrackerError):
    """A class declares a use case, a step or an attribute in a way that cannot work; the message says what to write."""

    entry = "a-class-cannot-be-defined"


class TaskError(TrackerError):
    """An error about the task `task_id`; `task` is its row as it was found, if one was read."""

    def __init__(self, message: str, *, task_id: str = "", task: FoundTask | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id
        self.task = task


class TaskAlreadyExistsError(TaskError):
    """`create` found a task with this id in the use case, and did not change it."""


class SignalAlreadyReceivedError(TaskError):
    """The task has got another signal of that name in this round: `signal`, with its `value`, `by` and `time`."""

    def __init__(self, message: str, *, task_id: str = "", task: FoundTask | None = None, signal: Any = None) -> None:
        super().__init__(message, task_id=task_id, task=task)
        self.signal = signal


class LockLostError(TaskError):
    """The row proves that another worker or a person took over the task: nothing was recorded for this run since."""

    entry = "locklosterror"


class ValueNotStorableError(TaskError, ValueError):
    """A value cannot be stored; `attribute` is its name and `size` its size in bytes, if that is the reason."""

    entry = "a-value-cannot-be-stored"

    def __init__(
        self,
        message: str,
        *,
        task_id: str = "",
        task: FoundTask | None = None,
        attribute: str = "",
        size: int | None = None,
    ) -> None:
        super().__init__(message, task_id=task_id, task=task)
        self.attribute = attribute
        self.size = size

    def name_task(self, task_id: str) -> None:
        """Say which task the value was for, unless the error does already."""
        if not self.task_id:
            self.task_id = task_id
            self.args = (f"{self}; the task is {task_id!r}",)


class TaskNotStartableError(TaskError):
    """The task could not be started or changed.

    This base class itself is raised with `detailed_error=False`, and if responses take longer than `lock_for`.
    """

    entry = "a-task-does-not-start"

    skipped_occurrence = False
    """Whether this call found that no attempt was left for the occurrence of a task that repeats, and recorded that."""


class TaskNotFoundError(TaskNotStartableError):
    """There is no task with this id in the use case."""


class TaskNotReadyError(TaskNotStartableError):
    """The task is not due yet, or one of its earlier steps is not done."""


class TaskLockedError(TaskNotStartableError):
    """Another worker holds the task: `task.worker` until `task.lock_expire_time`."""


class TaskAlreadySucceededError(TaskNotStartableError):
    """This step of the task is done."""

    skipped = False
    """Whether a run has chosen a later step, or the end, so that this step is not to run."""


class PayloadMismatchError(TaskNotStartableError):
    """The step was started with another payload before (`must_match` of `start`), so this is another call."""

    entry = ""


class TaskIgnoredError(TaskNotStartableError):
    """The task is ignored, by a person, by GiveUp or after its last attempt, and waits for a `reopen`."""


class StepPausedError(TaskNotStartableError):
    """The step is paused `until` then, or until somebody resumes it if that is None; the task stays as it is."""

    def __init__(
        self, message: str, *, task_id: str = "", task: FoundTask | None = None, until: datetime | None = None
    ) -> None:
        super().__init__(message, task_id=task_id, task=task)
        self.until = until


class TaskFormatError(TaskNotStartableError):
    """A later version of the library wrote the row in a format that this version does not know; nothing was changed."""

    entry = ""


REASONS: dict[
    type[Exception], Literal["succeeded", "locked", "not_ready", "not_found", "mismatch", "ignored", "paused"]
] = {
    TaskAlreadySucceededError: "succeeded",
    TaskLockedError: "locked",
    TaskNotReadyError: "not_ready",
    TaskNotFoundError: "not_found",
    PayloadMismatchError: "mismatch",
    TaskIgnoredError: "ignored",
    StepPausedError: "paused",
}
"""Why a task was not started, in the word that logs and metrics have for it."""


class GiveUp(TrackerError):  # noqa: N818 - an instruction of the user's block, not an error of the library
    """Raise it in the block to ignore the task at once, whether attempts are left or not; its message is the reason.

    Examples:
        >>> with Order.ship.start("o-2", skip_error=True):
        ...     raise GiveUp("nobody lives there")
    """


class RetryLater(TrackerError):  # noqa: N818 - an instruction of the user's block, not an error of the library
    """Raise it in the block to fail this attempt; the next one starts no earlier than `delay` from now.

    With `use_attempt=False`, it uses up no attempt, up to 1,000 times until the step succeeds or is reopened.

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

    def __reduce__(self) -> tuple[type[RetryLater], tuple[timedelta, str], dict[str, Any]]:
        """Pickle with all arguments: the default passes only the message."""
        return (type(self), (self.delay, str(self)), vars(self))
