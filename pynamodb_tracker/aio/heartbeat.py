"""The heartbeat of a run on an event loop: an asyncio task that has its lock extended while the block runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Generic, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.aio.pool import HEARTBEATS, in_thread, wait_for_future
from pynamodb_tracker.dynamodb.connection import sharing_requests
from pynamodb_tracker.execution.heartbeat import MOMENT, Beats
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import Journal

T = TypeVar("T", bound=TaskRow)


class AsyncHeartbeat(Generic[T]):
    """The asyncio task that extends the lock of one run, until `end`, or until the lock is lost, whatever cancels it.

    A loop that hangs sends no beats, so that another worker takes its tasks over.
    """

    def __init__(
        self, journal: Journal[T], lock_for: timedelta, owner: Callable[[], asyncio.Task[object] | None]
    ) -> None:
        """Start the task; `owner` is the task of the run, and None once that is dropped, because nothing ends it."""
        self._beats = Beats(journal, lock_for)
        with sharing_requests(None):  # a beat does not wait for the writes of others
            self._task = asyncio.create_task(
                _beat(self._beats, owner), name=f"pynamodb_tracker heartbeat of {journal.claim.task.task_id!r}"
            )

    async def end(self) -> asyncio.CancelledError | None:
        """Send no further beat, and wait a moment for one on its way; return a CancelledError that came meanwhile."""
        self.stop()
        return await wait_for_future(self._task, within=MOMENT)

    def stop(self) -> None:
        """Send no further beat."""
        self._beats.stopped.set()
        if not self._task.get_loop().is_closed():
            self._task.cancel()


async def _beat(beats: Beats[T], owner: Callable[[], asyncio.Task[object] | None]) -> None:
    pause = beats.until_due()
    while True:
        try:
            await clock.wait_async(pause)
            if owner() is None or not beats.are_needed:
                return
            pause = beats.until_due() or await in_thread(beats.beat, HEARTBEATS)
        except asyncio.CancelledError:
            # Programs that end cancel all tasks, and the block may take long to clean up: it still needs its lock.
            task = owner()
            if task is None or task.done() or not beats.are_needed:
                raise
            pause = beats.until_due()
