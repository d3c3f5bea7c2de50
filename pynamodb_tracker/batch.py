"""A batch: one function on many tasks, on threads, each task once, and a report of what became of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.context import ExecutionContext
from pynamodb_tracker.exceptions import TaskIgnoredError, TrackerError
from pynamodb_tracker.model import TaskRow
from pynamodb_tracker.report import Report
from pynamodb_tracker.status import Codes

__all__ = ["Batch", "in_threads"]

T = TypeVar("T", bound=TaskRow)
Item = TypeVar("Item")


class Batch(Generic[T]):
    """The runs of one step over many tasks."""

    def __init__(
        self,
        codes: Codes,
        start: Callable[[str], AbstractContextManager[ExecutionContext[T], bool | None]],
        function: Callable[[ExecutionContext[T]], object],
    ) -> None:
        self._start = start
        self._function = function
        self._guard = threading.Lock()
        self.report = Report()
        self._lists = {
            codes.succeeded: self.report.succeeded,
            codes.failed: self.report.failed,
            codes.ignored: self.report.ignored,
        }

    def run(self, task_id: str) -> None:
        """Run one task, and note what became of it; an order to end, such as Ctrl-C, is recorded and leaves."""
        ctx: ExecutionContext[T] | None = None
        error: Exception | None = None
        try:
            with self._start(task_id) as ctx:
                self._function(ctx)
        except Exception as caught:  # noqa: BLE001 - of the function: it is on record, and in the report
            error = caught
        with self._guard:
            self._note(task_id, ctx, error)

    def _note(self, task_id: str, ctx: ExecutionContext[T] | None, error: Exception | None) -> None:
        if ctx is not None and (ids := self._lists.get(ctx.task.status)) is not None:
            ids.append(task_id)
        elif ctx is None and isinstance(error, TaskIgnoredError):
            self.report.ignored.append(task_id)
        elif error is not None and (ctx is not None or isinstance(error, TrackerError | PynamoDBException)):
            self.report.refused[task_id] = error
        elif error is not None:
            raise error


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
