"""Ignored tasks that are run again: each is claimed from where it is, as the first attempt of a fresh set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.batch import in_threads
from pynamodb_tracker.bound_step import BoundStep
from pynamodb_tracker.context import ExecutionContext
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.pace import Pace
from pynamodb_tracker.report import Report

__all__ = ["Reopening"]


@dataclass(slots=True)
class Reopening:
    """A batch over ignored tasks; one that it does not reach stays ignored."""

    step: BoundStep[Any]
    function: Callable[[ExecutionContext[Any]], object]
    progress: Callable[[Report], object]
    heartbeat: bool = False
    report: Report = field(default_factory=Report)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def run(self, task_ids: Iterable[str], threads: int, rate: float | None) -> None:
        """Run them, once each."""
        in_threads(partial(self._run, Pace(rate)), task_ids, threads)

    def _run(self, pace: Pace, task_id: str) -> None:
        ctx: ExecutionContext[Any] | None = None
        error: Exception | None = None
        pace.wait()
        try:
            with self.step.start(task_id, also_from=(self.step.ignored,), heartbeat=self.heartbeat) as ctx:
                self.function(ctx)
        except Exception as caught:  # noqa: BLE001 - of the function: it is on record, and in the report
            error = caught
        with self._guard:
            self._note(task_id, ctx, error)
            self.progress(self.report)

    def _note(self, task_id: str, ctx: ExecutionContext[Any] | None, error: Exception | None) -> None:
        ids = {
            self.step.succeeded: self.report.succeeded,
            self.step.failed: self.report.failed,
            self.step.ignored: self.report.ignored,
        }
        if ctx is not None and ctx.task.state in ids:
            ids[ctx.task.state].append(task_id)
        elif error is not None and (ctx is not None or isinstance(error, TrackerError | PynamoDBException)):
            self.report.refused[task_id] = error
        elif error is not None:
            raise error
