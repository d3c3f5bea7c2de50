"""Runs attempts as asyncio tasks of one event loop.

    threads:     take ---- take ------ take ---- (no room) ---- take
                   |         |           |                        |
    event loop:    claim, await the function, record the end   x as many as may run at a time

Taking may block, so it has its own threads. They are daemons, because a program may leave the loop early.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

from pynamodb_tracker.aio.pool import REQUESTS, shielded, wait_for_call
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.work import executor
from pynamodb_tracker.work.attempt import Attempt
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.executor import Executor, OnEnded
from pynamodb_tracker.work.source import Given

_FINDERS = 8  # the most threads that look for tasks


class TaskExecutor(Executor):
    """Runs attempts as asyncio tasks. Create it on the loop."""

    def __init__(
        self, dispatcher: Dispatcher, concurrency: int, on_ended: OnEnded, *, grace: timedelta | None = None
    ) -> None:
        """Without a `grace` time, a cancellation cancels the running tasks at once."""
        super().__init__(dispatcher, concurrency, on_ended)
        self._grace = grace
        self._loop = asyncio.get_running_loop()
        self._room = threading.Semaphore(concurrency)
        self._finding = min(len(dispatcher.sources), concurrency, _FINDERS)  # threads that still look for tasks
        self._tasks: dict[asyncio.Task[None], Attempt] = {}
        self._handed: set[Given] = set()  # sent to the loop, but not begun there
        self._has_ended = asyncio.Event()
        self._is_stopping = False
        self._is_cut_short = False  # the grace time is over, so nobody waits for `_find`
        self._is_over = False  # the loop may close at any moment
        self._deadline: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Run attempts until none is left, or until `stop` or a cancellation. A second one ends the grace time."""
        for number in range(self._finding):
            name, run = f"pynamodb_tracker finder {number + 1}", self._base.copy().run
            threading.Thread(target=run, args=(self._find,), name=name, daemon=True).start()
        try:
            await self._has_ended.wait()
        except asyncio.CancelledError:
            self.stop()
            if self._grace is None:
                self._cut_short()
            with shielded():
                while not self._has_ended.is_set():
                    try:
                        await self._has_ended.wait()
                    except asyncio.CancelledError:
                        self._cut_short()
            raise
        finally:
            if self._deadline is not None:
                self._deadline.cancel()
            self._is_over = True
            self.dispatcher.stop()
            self._room.release(self._finding or 1)
            if any(source.work.slots is not None for source in self.dispatcher.sources):
                await wait_for_call(REQUESTS.submit(self.give_back_slots))

    def stop(self) -> None:
        """Start no new tasks, and give running ones the grace time to end. Call this on the loop."""
        if self._is_stopping or self._has_ended.is_set():
            return
        self._is_stopping = True
        self.dispatcher.stop()
        self._room.release(self._finding or 1)  # let waiting threads end
        self._cancel_lost()
        if self._grace is not None:
            log.info("stopping: starting no new tasks, waiting for the running ones to finish")
            self._deadline = self._loop.call_later(self._grace.total_seconds(), self._cut_short)

    def fail(self, error: BaseException) -> None:
        """Keep an error that ends the work, and stop if there is a grace time. Call this on the loop."""
        super().fail(error)
        if self._grace is not None:
            self.stop()
        self._room.release(self._finding or 1)

    def note_loss(self) -> None:
        self.call(self._cancel_lost)

    def _cancel_lost(self) -> None:
        """When stopping, cancel tasks with lost locks, because their results cannot be recorded."""
        for task, attempt in self._tasks.items():
            if self._is_stopping and attempt.has_lost_lock and not task.cancelling():
                task.cancel()

    def _cut_short(self) -> None:
        if self._is_cut_short:
            return
        self._is_cut_short = True
        if self._deadline is not None:
            self._deadline.cancel()
        for task in self._tasks:
            task.cancel()
        if self._grace is not None:
            self._deadline = self._loop.call_later(executor.GIVE_BACK_WITHIN, self._leave_behind)
        self._check_end()

    def _leave_behind(self) -> None:
        """Release tasks that ignore their cancellation, and stop waiting for them."""

        def give_back() -> None:
            self.give_back()
            self.call(self._has_ended.set)

        threading.Thread(target=give_back, name="pynamodb_tracker release", daemon=True).start()

    def _find(self) -> None:

        def end_finding() -> None:
            self._finding -= 1
            self._check_end()

        try:
            while self._room.acquire() and (given := self.dispatcher.take()) is not None:
                self._handed.add(given)
                if self._is_over or not self.call(self._begin, given):
                    self._leave_handed()
                    return
        except BaseException as error:  # noqa: BLE001 - raised again by the caller, once all have ended
            self.call(self.fail, error)
        finally:
            self._room.release()
            self.call(end_finding)

    def call(self, function: Callable[..., object], *arguments: object) -> bool:
        """Call a function on the loop. Return False if the program has closed it."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            return False
        return True

    def _leave_handed(self) -> None:
        while self._handed:
            given = self._handed.pop()
            if given.slot is not None:
                given.slot.leave()

    def give_back_slots(self) -> None:
        self._leave_handed()
        super().give_back_slots()

    def _begin(self, given: Given) -> None:
        try:
            self._handed.remove(given)
        except KeyError:  # another thread has left its slot, so nothing may begin
            return
        attempt = self.begin(given)
        name, context = f"pynamodb_tracker {attempt}", self._base.copy()
        task = self._loop.create_task(self._keep_exits(attempt), name=name, context=context)
        self._tasks[task] = attempt
        task.add_done_callback(partial(self._end, attempt))

    async def _keep_exits(self, attempt: Attempt) -> None:
        """Keep KeyboardInterrupt and SystemExit for later: in an asyncio task, they would end the loop."""
        try:
            await attempt.run_async()
        except (KeyboardInterrupt, SystemExit) as error:
            self.fail(error)

    def _end(self, attempt: Attempt, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        with suppress(asyncio.CancelledError):
            task.exception()  # it is kept with the attempt, and asyncio would log it
        try:
            self.end(attempt)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller, once all have ended
            self.fail(error)
        self._room.release()
        self._check_end()

    def _check_end(self) -> None:
        if not self._tasks and (self._is_cut_short or not self._finding):
            self._has_ended.set()
