"""An async function on many tasks, in asyncio tasks of one event loop, each task once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar, cast

from pynamodb_tracker import clock
from pynamodb_tracker.aio.context import AsyncContext, call
from pynamodb_tracker.aio.pool import REQUESTS, in_thread, wait_for_call, wait_for_future
from pynamodb_tracker.aio.run import AsyncRun
from pynamodb_tracker.dynamodb.retries import stopped_by
from pynamodb_tracker.execution.interrupts import is_cancellation
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes
from pynamodb_tracker.work.attempt import TaskAttempt
from pynamodb_tracker.work.batch import Admission, BaseBatch
from pynamodb_tracker.work.candidates import Feeding
from pynamodb_tracker.work.outcomes import Report, log_failed_requests
from pynamodb_tracker.work.threads import Pace

Item = TypeVar("Item")
T = TypeVar("T", bound=TaskRow)

_GLANCE = 0.01
"""Seconds between two checks that a task of this process has left its slot. They send no requests."""

AsyncStart = Callable[[str], AbstractAsyncContextManager[AsyncContext[T], bool | None]]
"""`step.astart` with its options: it returns the run of a task."""


class AsyncTaskAttempt(TaskAttempt[T]):
    """One attempt to run an async function on one task, by `execute_async` instead of `execute`."""

    async def execute_async(
        self, start: AsyncStart[T], function: Callable[[AsyncContext[T]], Awaitable[object]]
    ) -> None:
        """Start the task and await the function with its context.

        Record an error with the task and keep it in `error`. If it is not an Exception, such as CancelledError, also
        raise it.
        """
        sending, pausing = self._sharing()
        with self._keeping_error(), stopped_by(self.cut_short):
            run = cast("AsyncRun[T]", start(self.task_id))
            run.run.on_time = self._is_on_time
            self.follow(run.run)
            with sending:
                async with run as ctx:
                    self.note_response()
                    self._check_start()
                    with pausing, self._using_slot():
                        self.value = await call(function, ctx)

    def _is_failure(self, error: BaseException) -> bool:
        """Return the same, and True for a CancelledError that the function has raised itself."""
        is_own = isinstance(error, asyncio.CancelledError) and not is_cancellation(error)
        return is_own or super()._is_failure(error)


class AsyncBatch(BaseBatch[AsyncStart[T], Callable[[AsyncContext[T]], Awaitable[object]]]):
    """The attempts of one step at many tasks. A thread asks for the pause."""

    async def run(self, *, limit: int | None, concurrency: int, rate: float | None) -> Report:
        """Try each task. A cancellation cancels the running tasks, and this ends once they have all ended."""
        feeding, admission = Feeding({self.codes: self.feed}, limit=limit), Admission(self.slots)
        tasks = PacedTasks(iter(feeding), rate)

        async def next_task() -> tuple[Codes, str] | None:
            given = await tasks.next()
            if given is not None and self.slots is not None:
                has_slot = partial(admission.has, given)
                while not (self.slots.may_have and await in_thread(has_slot)):  # noqa: ASYNC110 - threads leave slots
                    await asyncio.sleep(_GLANCE)
            return given

        try:
            await in_tasks(partial(self._begin, feeding, admission), next_task, concurrency)
        finally:
            feeding.stop()
            tasks.end()
            if self.slots is not None:
                await wait_for_call(REQUESTS.submit(admission.end))
            log_failed_requests(self.codes, self.report)
        return self.report

    def _begin(self, feeding: Feeding, admission: Admission, given: tuple[Codes, str]) -> asyncio.Task[None]:
        slot = admission.slot_of(given)
        attempt: AsyncTaskAttempt[T] = AsyncTaskAttempt(*given, feed=self.feed, batcher=self.batcher, slot=slot)

        def note_end(ended: asyncio.Task[None]) -> None:
            attempt.leave_slot()
            attempt.note_response()  # a task that is cancelled before its first line does nothing
            if ended.cancelled() or ended.exception() is not None:
                feeding.stop()
            else:
                feeding.note_end(attempt.made_due, was_refused=attempt.was_refused)

        task = asyncio.create_task(self._run(attempt, feeding), name=f"pynamodb_tracker run of {attempt.task_id!r}")
        task.add_done_callback(note_end)
        return task

    async def _run(self, attempt: AsyncTaskAttempt[T], feeding: Feeding) -> None:
        if self.pause is not None and await in_thread(self.pause) is not None:
            self.report.paused = True
            feeding.leave_out(self.codes)
            return
        await attempt.execute_async(self.start, self.function)
        self.add(attempt)


class PacedTasks(Generic[Item]):
    """The tasks to try, at a limited rate. Choosing one may wait for others, so it has its own thread.

    The thread is a daemon: if the program leaves the event loop while tasks are running, they never end.
    """

    def __init__(self, tasks: Iterator[Item], rate: float | None) -> None:
        self._tasks = tasks
        self._pace = None if rate is None else Pace(rate)
        self._ahead: Future[Item | None] | None = None
        """The next task is chosen ahead, so that tasks that start together share requests."""
        self._choices = SimpleQueue[Future[Item | None] | None]()
        in_context = copy_context().run
        Thread(target=in_context, args=(self._choose,), name="pynamodb_tracker feed", daemon=True).start()

    async def next(self) -> Item | None:
        """Return the next task, or None. A cancellation does not wait for the choice, which changes nothing."""
        choice = self._ahead or self._begin_to_choose()
        task = await asyncio.shield(asyncio.wrap_future(choice))
        self._ahead = None
        if task is None:
            return None
        if self._pace is not None and (wait := self._pace.take_turn()) > 0:
            await clock.sleep_async(wait)
        self._ahead = self._begin_to_choose()
        return task

    def _begin_to_choose(self) -> Future[Item | None]:
        choice = Future[Item | None]()
        self._choices.put(choice)
        return choice

    def _choose(self) -> None:
        while (choice := self._choices.get()) is not None:
            try:
                choice.set_result(next(self._tasks, None))
            except BaseException as error:  # noqa: BLE001 - raised where the choice is awaited
                choice.set_exception(error)

    def end(self) -> None:
        """Let the thread end after its current choices."""
        self._choices.put(None)


async def in_tasks(
    begin: Callable[[Item], asyncio.Task[None]],
    next_item: Callable[[], Awaitable[Item | None]],
    concurrency: int,
) -> None:
    """Begin an asyncio task per item. Take the next item when there is room for its task.

    An exception stops the feeding, and is raised once the running tasks have ended. A cancellation cancels them, and
    waits until all have ended.
    """
    running: set[asyncio.Task[None]] = set()
    try:
        while (item := await next_item()) is not None:
            _take_out_ended(running)
            running.add(begin(item))
            while len(running) >= concurrency:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                _take_out_ended(running)
        while running:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            _take_out_ended(running)
    except BaseException as error:
        left = await _after_the_rest(running, error)
        if left is not error:
            raise left from None
        raise


def _take_out_ended(running: set[asyncio.Task[None]]) -> None:
    """Forget the tasks that have ended. Raise the exception of a failed one."""
    for task in [task for task in running if task.done()]:
        running.discard(task)
        task.result()


async def _after_the_rest(running: set[asyncio.Task[None]], error: BaseException) -> BaseException:
    """Wait until the running tasks have ended, and return the error to raise. A cancellation cancels them."""
    rest = asyncio.gather(*running, return_exceptions=True)
    if not isinstance(error, asyncio.CancelledError):
        try:
            await asyncio.wait((rest,))
        except asyncio.CancelledError as cancellation:
            error = cancellation
        else:
            return error
    for task in running:
        task.cancel()
    await wait_for_future(rest)
    return error
