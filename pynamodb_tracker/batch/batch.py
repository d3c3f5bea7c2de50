"""A batch: one function on many tasks, on threads, each task once, and a report of what became of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.batch.thread_pool import in_threads
from pynamodb_tracker.exceptions import TaskIgnoredError, TaskNotFoundError, TaskNotStartableError, TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.report import Report
from pynamodb_tracker.status import Codes

__all__ = ["Batch", "Outcome", "met_another", "outcome_of"]

T = TypeVar("T", bound=TaskRow)

Outcome = Literal["succeeded", "failed", "ignored", "refused", "released"]
"""What became of a task that was tried; released: the attempt was given back."""

_OWN_FAULT = (TaskIgnoredError, TaskNotFoundError)
"""Why a task cannot be started though no other worker has it."""


def outcome_of(codes: Codes, ctx: ExecutionContext[T] | None, error: BaseException | None) -> Outcome:
    """Return what became of a task; `ctx` is None where it was not started, by an error that is raised if it is odd."""
    if ctx is not None:
        outcomes: dict[int, Outcome] = {
            codes.succeeded: "succeeded",
            codes.failed: "failed",
            codes.ignored: "ignored",
            codes.pending: "released",
        }
        return outcomes.get(ctx.task.status, "refused")
    if isinstance(error, TaskIgnoredError):
        return "ignored"
    if error is not None and not isinstance(error, TrackerError | PynamoDBException):
        raise error
    return "refused"


def met_another(ctx: ExecutionContext[T] | None, error: BaseException | None) -> bool:
    """Tell whether a task was not started because another worker had it first."""
    return ctx is None and isinstance(error, TaskNotStartableError) and not isinstance(error, _OWN_FAULT)


@dataclass(slots=True)
class Batch(Generic[T]):
    """The runs of one step over many tasks."""

    codes: Codes
    start: Callable[[str], AbstractContextManager[ExecutionContext[T], bool | None]]
    function: Callable[[ExecutionContext[T]], object]
    met: Callable[[], object] | None = None
    """Called when another worker had a task first."""
    progress: Callable[[Report], object] | None = None
    report: Report = field(default_factory=Report)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def run(self, task_ids: Iterable[str], threads: int) -> Report:
        """Run each task, its id read when it is its turn; an order to end, such as Ctrl-C, is recorded and leaves."""
        in_threads(self._run, task_ids, threads)
        return self.report

    def _run(self, task_id: str) -> None:
        """Run one task, and note what became of it."""
        ctx: ExecutionContext[T] | None = None
        error: Exception | None = None
        try:
            with self.start(task_id) as ctx:
                self.function(ctx)
        except Exception as caught:  # noqa: BLE001 - of the function: it is on record, and in the report
            error = caught
        if self.met is not None and met_another(ctx, error):
            self.met()
        with self._guard:
            self._note(task_id, ctx, error)
            if self.progress is not None:
                self.progress(self.report)

    def _note(self, task_id: str, ctx: ExecutionContext[T] | None, error: Exception | None) -> None:
        outcome = outcome_of(self.codes, ctx, error)
        if outcome in ("succeeded", "failed", "ignored"):
            getattr(self.report, outcome).append(task_id)
        elif error is not None:
            self.report.refused[task_id] = error
