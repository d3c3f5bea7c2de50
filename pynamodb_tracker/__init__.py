"""Tracks business-critical tasks in one DynamoDB table, on PynamoDB: at most one worker each, and nothing lost."""

from pynamodb_tracker.bound_step import BoundStep
from pynamodb_tracker.context import ExecutionContext
from pynamodb_tracker.exceptions import (
    DefinitionError,
    GiveUp,
    LockLostError,
    RetryLater,
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
from pynamodb_tracker.failure import Failure
from pynamodb_tracker.report import Report
from pynamodb_tracker.state import Page, State
from pynamodb_tracker.status import Status
from pynamodb_tracker.step import Step
from pynamodb_tracker.task import Task
from pynamodb_tracker.usecase import UseCase

__all__ = [
    "BoundStep",
    "DefinitionError",
    "ExecutionContext",
    "Failure",
    "GiveUp",
    "LockLostError",
    "Page",
    "Report",
    "RetryLater",
    "State",
    "Status",
    "Step",
    "Task",
    "TaskAlreadyExistsError",
    "TaskAlreadySucceededError",
    "TaskIgnoredError",
    "TaskLockedError",
    "TaskNotFoundError",
    "TaskNotReadyError",
    "TaskNotStartableError",
    "TrackerError",
    "UseCase",
    "ValueNotStorableError",
]
