"""A batch: one function on many tasks, on threads, each task once, and a report of what became of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Generic, Literal, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.context import ExecutionContext
from pynamodb_tracker.exceptions import TaskIgnoredError, TaskNotFoundError, TaskNotStartableError, TrackerError
from pynamodb_tracker.feed import Feed
from pynamodb_tracker.model import TaskRow
from pynamodb_tracker.pace import Pace
from pynamodb_tracker.report import Report
from pynamodb_tracker.status import Codes

__all__ = ["Batch", "Outcome", "in_threads", "met_another", "outcome_of"]

T = TypeVar("T", bound=TaskRow)
Item = TypeVar("Item")


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


class Batch(Generic[T]):
    """The runs of one step over many tasks."""

    def __init__(
        self,
        codes: Codes,
        start: Callable[[str], AbstractContextManager[ExecutionContext[T], bool | None]],
        function: Callable[[ExecutionContext[T]], object],
        feed: Feed,
        *,
        pace: Pace,
        progress: Callable[[Report], object] | None,
    ) -> None:
        self._codes = codes
        self._start = start
        self._function = function
        self._feed = feed
        self._pace = pace
        self._progress = progress
        self._guard = threading.Lock()
        self.report = Report()
        self._lists: dict[Outcome, list[str]] = {
            "succeeded": self.report.succeeded,
            "failed": self.report.failed,
            "ignored": self.report.ignored,
        }

    def run(self, task_id: str) -> None:
        """Run one task, and note what became of it; an order to end, such as Ctrl-C, is recorded and leaves."""
        ctx: ExecutionContext[T] | None = None
        error: Exception | None = None
        self._pace.wait()
        try:
            with self._start(task_id) as ctx:
                self._function(ctx)
        except Exception as caught:  # noqa: BLE001 - of the function: it is on record, and in the report
            error = caught
        if met_another(ctx, error):
            self._feed.met()
        with self._guard:
            self._note(task_id, ctx, error)
            if self._progress is not None:
                self._progress(self.report)

    def _note(self, task_id: str, ctx: ExecutionContext[T] | None, error: Exception | None) -> None:
        outcome = outcome_of(self._codes, ctx, error)
        if outcome in self._lists:
            self._lists[outcome].append(task_id)
        elif error is not None:
            self.report.refused[task_id] = error


def in_threads(function: Callable[[Item], None], items: Iterable[Item], threads: int) -> None:
    """Call the function on each item, read lazily; an exception stops the feeding, and leaves when all have ended."""
    if threads == 1:
        for item in items:
            function(item)
        return
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait  # noqa: PLC0415 - for cold starts

    with ThreadPoolExecutor(threads, thread_name_prefix="pynamodb_tracker") as pool:
        running: set[Future[None]] = set()
        try:
            for item in items:
                running.add(pool.submit(function, item))
                if len(running) >= 2 * threads:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
            for future in running:
                future.result()
        finally:
            for future in running:
                future.cancel()
