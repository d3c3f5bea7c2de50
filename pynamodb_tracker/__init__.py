"""Tracks tasks in one DynamoDB table: one worker at a time holds a task, and only the holder can record a result."""

from importlib import import_module
from typing import TYPE_CHECKING

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
from pynamodb_tracker.model.schema import UseCase
from pynamodb_tracker.model.serialization import DecimalAttribute
from pynamodb_tracker.status import Status
from pynamodb_tracker.step import BoundStep, Page, State, Step
from pynamodb_tracker.task.task import Task

if TYPE_CHECKING:
    from pynamodb_tracker.aio.context import AsyncContext
    from pynamodb_tracker.batch.batch import Report
    from pynamodb_tracker.model.repeat import Repeat
    from pynamodb_tracker.step.glance import Glance, IndexEntry
    from pynamodb_tracker.task.group import Group
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


_LAZY = {
    "AsyncWorker": "pynamodb_tracker.worker.async_worker",
    "AsyncContext": "pynamodb_tracker.aio.context",
    "Glance": "pynamodb_tracker.step.glance",
    "Group": "pynamodb_tracker.task.group",
    "IndexEntry": "pynamodb_tracker.step.glance",
    "Merged": "pynamodb_tracker.transitions.merges",
    "Repeat": "pynamodb_tracker.model.repeat",
    "Report": "pynamodb_tracker.batch.batch",
    "Tally": "pynamodb_tracker.worker.poller",
    "Worker": "pynamodb_tracker.worker.worker",
}


def __getattr__(name: str) -> object:
    """Import what few cold starts need on first access: a cold start pays for every import."""
    if name in _LAZY:
        value: object = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
