"""Tracks tasks in one DynamoDB table: one worker at a time holds a task, and only the holder can record a result."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pynamodb_tracker.aio.context import AsyncContext
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.control.limit import ConcurrencyLimit
    from pynamodb_tracker.exceptions import (
        ConcurrencyLimitReachedError,
        DefinitionError,
        GiveUp,
        LockLostError,
        NestedConcurrencyLimitError,
        PayloadMismatchError,
        RetryLater,
        SignalAlreadyReceivedError,
        StepPausedError,
        TaskAlreadyExistsError,
        TaskAlreadySucceededError,
        TaskCancelledError,
        TaskFormatError,
        TaskIgnoredError,
        TaskLockedError,
        TaskNotFoundError,
        TaskNotReadyError,
        TaskNotStartableError,
        TrackerError,
        ValueNotStorableError,
    )
    from pynamodb_tracker.execution.context import ExecutionContext
    from pynamodb_tracker.features.merges import Merged
    from pynamodb_tracker.features.signals import Sent
    from pynamodb_tracker.model.cancelled import CancelRecord
    from pynamodb_tracker.model.failure import Failure
    from pynamodb_tracker.model.repeat import Repeat
    from pynamodb_tracker.model.schema import UseCase
    from pynamodb_tracker.model.serialization import DecimalAttribute
    from pynamodb_tracker.model.signals import ReceivedSignal
    from pynamodb_tracker.model.status import Status
    from pynamodb_tracker.step.bound import BoundStep
    from pynamodb_tracker.step.declared import Step
    from pynamodb_tracker.step.pages import IndexEntry, IndexPage, TaskPage
    from pynamodb_tracker.step.signal import BoundSignal, Signal
    from pynamodb_tracker.step.state import State
    from pynamodb_tracker.task.find_by import FindBy
    from pynamodb_tracker.task.group import Group
    from pynamodb_tracker.task.task import Task
    from pynamodb_tracker.transitions.cancelling import Cancellation
    from pynamodb_tracker.work.outcomes import Report, Tally
    from pynamodb_tracker.worker.async_worker import AsyncWorker
    from pynamodb_tracker.worker.worker import Worker

__all__ = [
    "AsyncContext",
    "AsyncWorker",
    "BoundSignal",
    "BoundStep",
    "CancelRecord",
    "Cancellation",
    "ConcurrencyLimit",
    "ConcurrencyLimitReachedError",
    "DecimalAttribute",
    "DefinitionError",
    "ExecutionContext",
    "Failure",
    "FindBy",
    "GiveUp",
    "Group",
    "IndexEntry",
    "IndexPage",
    "LockLostError",
    "Merged",
    "NestedConcurrencyLimitError",
    "Pause",
    "PayloadMismatchError",
    "ReceivedSignal",
    "Repeat",
    "Report",
    "RetryLater",
    "Sent",
    "Signal",
    "SignalAlreadyReceivedError",
    "State",
    "Status",
    "Step",
    "StepPausedError",
    "Tally",
    "Task",
    "TaskAlreadyExistsError",
    "TaskAlreadySucceededError",
    "TaskCancelledError",
    "TaskFormatError",
    "TaskIgnoredError",
    "TaskLockedError",
    "TaskNotFoundError",
    "TaskNotReadyError",
    "TaskNotStartableError",
    "TaskPage",
    "TrackerError",
    "UseCase",
    "ValueNotStorableError",
    "Worker",
]

__version__ = "0.9.0"

_MODULES = {
    "ReceivedSignal": "pynamodb_tracker.model.signals",
    "AsyncContext": "pynamodb_tracker.aio.context",
    "AsyncWorker": "pynamodb_tracker.worker.async_worker",
    "Signal": "pynamodb_tracker.step.signal",
    "BoundSignal": "pynamodb_tracker.step.signal",
    "BoundStep": "pynamodb_tracker.step.bound",
    "CancelRecord": "pynamodb_tracker.model.cancelled",
    "Cancellation": "pynamodb_tracker.transitions.cancelling",
    "DecimalAttribute": "pynamodb_tracker.model.serialization",
    "ExecutionContext": "pynamodb_tracker.execution.context",
    "Failure": "pynamodb_tracker.model.failure",
    "FindBy": "pynamodb_tracker.task.find_by",
    "IndexPage": "pynamodb_tracker.step.pages",
    "Group": "pynamodb_tracker.task.group",
    "IndexEntry": "pynamodb_tracker.step.pages",
    "ConcurrencyLimit": "pynamodb_tracker.control.limit",
    "Merged": "pynamodb_tracker.features.merges",
    "TaskPage": "pynamodb_tracker.step.pages",
    "Pause": "pynamodb_tracker.control.item",
    "Repeat": "pynamodb_tracker.model.repeat",
    "Report": "pynamodb_tracker.work.outcomes",
    "Sent": "pynamodb_tracker.features.signals",
    "State": "pynamodb_tracker.step.state",
    "Status": "pynamodb_tracker.model.status",
    "Step": "pynamodb_tracker.step.declared",
    "Tally": "pynamodb_tracker.work.outcomes",
    "Task": "pynamodb_tracker.task.task",
    "UseCase": "pynamodb_tracker.model.schema",
    "Worker": "pynamodb_tracker.worker.worker",
}
"""The modules of public names, except exceptions."""

_SUBMODULES = {
    *("aio", "clock", "control", "dynamodb", "exceptions", "execution", "instrumentation"),
    *("model", "query", "step", "task", "transitions"),
}
"""Submodules that work without extras."""


def __getattr__(name: str) -> object:
    """Import a name at its first use, so that cold starts and every pytest run stay fast."""
    if name in __all__:
        value: object = getattr(import_module(_MODULES.get(name, "pynamodb_tracker.exceptions")), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
