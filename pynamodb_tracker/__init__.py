"""Tracks tasks in one DynamoDB table: one worker at a time holds a task, and only the holder can record a result."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pynamodb_tracker.aio.context import AsyncContext
    from pynamodb_tracker.batch.batch import Report
    from pynamodb_tracker.exceptions import (
        DefinitionError,
        GiveUp,
        LockLostError,
        PayloadMismatchError,
        RetryLater,
        TaskAlreadyExistsError,
        TaskAlreadySucceededError,
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
    from pynamodb_tracker.model.failure import Failure
    from pynamodb_tracker.model.repeat import Repeat
    from pynamodb_tracker.model.schema import UseCase
    from pynamodb_tracker.model.serialization import DecimalAttribute
    from pynamodb_tracker.status import Status
    from pynamodb_tracker.step import BoundStep, Page, State, Step
    from pynamodb_tracker.step.glance import Glance, IndexEntry
    from pynamodb_tracker.task.group import Group
    from pynamodb_tracker.task.task import Task
    from pynamodb_tracker.transitions.merges import Merged
    from pynamodb_tracker.worker.async_worker import AsyncWorker
    from pynamodb_tracker.worker.poller import Tally
    from pynamodb_tracker.worker.worker import Worker

__all__ = [
    "AsyncContext",
    "AsyncWorker",
    "BoundStep",
    "DecimalAttribute",
    "DefinitionError",
    "ExecutionContext",
    "Failure",
    "GiveUp",
    "Glance",
    "Group",
    "IndexEntry",
    "LockLostError",
    "Merged",
    "Page",
    "PayloadMismatchError",
    "Repeat",
    "Report",
    "RetryLater",
    "State",
    "Status",
    "Step",
    "Tally",
    "Task",
    "TaskAlreadyExistsError",
    "TaskAlreadySucceededError",
    "TaskFormatError",
    "TaskIgnoredError",
    "TaskLockedError",
    "TaskNotFoundError",
    "TaskNotReadyError",
    "TaskNotStartableError",
    "TrackerError",
    "UseCase",
    "ValueNotStorableError",
    "Worker",
]


_MODULES = {
    "AsyncContext": "pynamodb_tracker.aio.context",
    "AsyncWorker": "pynamodb_tracker.worker.async_worker",
    "BoundStep": "pynamodb_tracker.step",
    "DecimalAttribute": "pynamodb_tracker.model.serialization",
    "DefinitionError": "pynamodb_tracker.exceptions",
    "ExecutionContext": "pynamodb_tracker.execution.context",
    "Failure": "pynamodb_tracker.model.failure",
    "GiveUp": "pynamodb_tracker.exceptions",
    "Glance": "pynamodb_tracker.step.glance",
    "Group": "pynamodb_tracker.task.group",
    "IndexEntry": "pynamodb_tracker.step.glance",
    "LockLostError": "pynamodb_tracker.exceptions",
    "Merged": "pynamodb_tracker.transitions.merges",
    "Page": "pynamodb_tracker.step",
    "PayloadMismatchError": "pynamodb_tracker.exceptions",
    "Repeat": "pynamodb_tracker.model.repeat",
    "Report": "pynamodb_tracker.batch.batch",
    "RetryLater": "pynamodb_tracker.exceptions",
    "State": "pynamodb_tracker.step",
    "Status": "pynamodb_tracker.status",
    "Step": "pynamodb_tracker.step",
    "Tally": "pynamodb_tracker.worker.poller",
    "Task": "pynamodb_tracker.task.task",
    "TaskAlreadyExistsError": "pynamodb_tracker.exceptions",
    "TaskAlreadySucceededError": "pynamodb_tracker.exceptions",
    "TaskFormatError": "pynamodb_tracker.exceptions",
    "TaskIgnoredError": "pynamodb_tracker.exceptions",
    "TaskLockedError": "pynamodb_tracker.exceptions",
    "TaskNotFoundError": "pynamodb_tracker.exceptions",
    "TaskNotReadyError": "pynamodb_tracker.exceptions",
    "TaskNotStartableError": "pynamodb_tracker.exceptions",
    "TrackerError": "pynamodb_tracker.exceptions",
    "UseCase": "pynamodb_tracker.model.schema",
    "ValueNotStorableError": "pynamodb_tracker.exceptions",
    "Worker": "pynamodb_tracker.worker.worker",
}

_SUBMODULES = {
    *("aio", "arguments", "clock", "dynamodb", "exceptions", "execution", "instrumentation"),
    *("model", "query", "status", "step", "task", "transitions"),
}
"""Those that need no extra: `pynamodb_tracker.exceptions` works after `import pynamodb_tracker` alone."""


def __getattr__(name: str) -> object:
    """Import a name on first access: cold starts pay for each import, and with our plugin every run of pytest does."""
    if name in _MODULES:
        value: object = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    """Return the names that are there, and those that are still to be imported."""
    return sorted({*globals(), *__all__})
