"""The asyncio tasks in which a worker runs async functions, and the few threads that find due tasks for them.

    threads:     find ---- find ------ find ---- (all slots taken) ---- find
                   |         |           |                                |
    event loop:    claim, await the function, record the end   x as many as there are slots

Finding may block: it reads the index, or waits for responses to claims. That is why it has its own threads, apart from
those that send the requests of the tasks.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from pynamodb_tracker.aio.context import AsyncContext
from pynamodb_tracker.aio.pool import REQUESTS, shielded, wait_for_call
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.work.async_batch import AsyncTaskAttempt
from pynamodb_tracker.worker.poller import StepPoller
from pynamodb_tracker.worker.settings import WorkerSettings
from pynamodb_tracker.worker.team import GIVE_BACK_WITHIN, Team, WorkerAttempt

log = logging.getLogger("pynamodb_tracker")

AsyncFunction = Callable[[AsyncContext[Any]], Awaitable[object]]

_FINDERS = 8
"""The most threads that look for tasks. Each may have to wait for the claims of its step."""


class AsyncWorkerAttempt(WorkerAttempt, AsyncTaskAttempt[Any]):
    """An attempt in an asyncio task, which can be cancelled to release it."""

    async def run_async(self, function: AsyncFunction) -> None:
        """Await the function on the task and count the outcome. Raise only KeyboardInterrupt and SystemExit."""
        if self.is_stopped:
            self._has_ended.set()
            return
        try:
            await self.execute_async(partial(self._poller.step.astart, heartbeat=self._heartbeat), function)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._note_end()

    def _log_end(self) -> None:
        if self.outcome == "released" and isinstance(self.error, asyncio.CancelledError):
            log.warning("%s was cancelled, and its task was released", self, extra=self.details.log_fields)
        else:
            super()._log_end()


class TaskTeam(Team):
    """The running tasks of a worker on one event loop. It has to be made there."""

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings)
        self._functions = cast("dict[BoundStep[Any], AsyncFunction]", dict(settings.functions))
        self._loop = asyncio.get_running_loop()
        self._slots = threading.Semaphore(settings.concurrency)
        """A thread looks for a task only when there is room for it."""
        self._finding = min(len(settings.functions), settings.concurrency, _FINDERS)
        """How many threads still look for tasks."""
        self._tasks: dict[asyncio.Task[None], AsyncWorkerAttempt] = {}
        self._has_ended = asyncio.Event()
        self._is_stopping = False
        self._is_cut_short = False
        """Whether the grace time is over. Then nobody waits for threads that still look for tasks."""
        self._is_over = False
        """Whether no new task may begin, because the loop may be closed at any moment."""
        self._deadline: asyncio.TimerHandle | None = None

    async def run_to_the_end(self) -> None:
        """Run until there is nothing to do, or until `stop` or a cancellation. A second one ends the grace time."""
        for number in range(self._finding):
            name = f"pynamodb_tracker finder {number + 1}"
            in_context = copy_context().run  # a thread passes its context on to the tasks that it starts on the loop
            threading.Thread(target=in_context, args=(self._find,), name=name, daemon=True).start()
        try:
            await self._has_ended.wait()
        except asyncio.CancelledError:
            self.stop()
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
            if any(poller.slots is not None for poller in self.pollers):
                await wait_for_call(REQUESTS.submit(self.give_back_slots))

    def stop(self) -> None:
        """Start no new tasks, and give the running ones the grace time to end. Call it on the loop."""
        if self._is_stopping or self._has_ended.is_set():
            return
        self._is_stopping = True
        log.info("the worker stops: it starts no new tasks, and waits for the running ones to finish")
        self.dispatcher.stop()
        self._slots.release(self._finding or 1)  # for threads that wait for one
        self._cancel_lost()
        self._deadline = self._loop.call_later(self.settings.grace.total_seconds(), self._cut_short)

    def give_back_slots(self) -> None:
        """Also give back the slots of tasks that went to the loop and did not begin."""
        for poller in self.pollers:
            poller.leave_slots()
        super().give_back_slots()

    def _cancel_lost(self) -> None:
        """If the worker stops, cancel tasks that have lost their locks: their results cannot be recorded anyway."""
        for task, attempt in self._tasks.items():
            if self._is_stopping and attempt.has_lost_lock and not task.cancelling():
                task.cancel()

    def _cut_short(self) -> None:
        """Cancel the running tasks, which releases them. Calling it again has no further effect."""
        if self._is_cut_short:
            return
        self._is_cut_short = True
        if self._deadline is not None:
            self._deadline.cancel()
        for task in self._tasks:
            task.cancel()
        self._deadline = self._loop.call_later(GIVE_BACK_WITHIN, self._leave_behind)
        self._check_end()

    def _leave_behind(self) -> None:
        """Release tasks that ignore their cancellation, in a thread, and stop waiting for them."""

        def give_back() -> None:
            self.give_back()
            self.call(self._has_ended.set)

        threading.Thread(target=give_back, name="pynamodb_tracker release", daemon=True).start()

    def _find(self) -> None:
        """Look for tasks on one thread, and hand them to the loop, until there are none left."""

        def end_finding() -> None:
            self._finding -= 1
            self._check_end()

        try:
            while self._slots.acquire() and (taken := self.dispatcher.take()) is not None:
                if self._is_over or not self.call(self._begin, *taken):
                    poller, task_id = taken
                    poller.leave_slot(task_id)
                    return
        except BaseException as error:  # noqa: BLE001 - raised again by the worker, once all have ended
            self.errors.append(error)
            self.call(self.stop)
        finally:
            self.call(end_finding)

    def call(self, function: Callable[..., object], *arguments: object) -> bool:
        """Call a function on the loop. Return False if it is closed: the program did not wait for the worker."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            return False
        return True

    def _begin(self, poller: StepPoller, task_id: str) -> None:
        attempt = self.begin_attempt(AsyncWorkerAttempt, poller, task_id)
        running = self._run(attempt, self._functions[poller.step])
        task = self._loop.create_task(running, name=f"pynamodb_tracker {attempt}")
        self._tasks[task] = attempt
        attempt.on_loss = partial(self.call, self._cancel_lost)
        task.add_done_callback(partial(self._end, attempt))

    async def _run(self, attempt: AsyncWorkerAttempt, function: AsyncFunction) -> None:
        """Keep KeyboardInterrupt and SystemExit for later: an asyncio task that raises one would end the loop."""
        try:
            await attempt.run_async(function)
        except (KeyboardInterrupt, SystemExit) as error:
            self.errors.append(error)
            self.stop()

    def _end(self, attempt: AsyncWorkerAttempt, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        attempt.note_response()  # if it was not started, or cancelled before its first line
        self.end_attempt(attempt)
        self._slots.release()
        self._check_end()

    def _check_end(self) -> None:
        if not self._tasks and (self._is_cut_short or not self._finding):
            self._has_ended.set()
