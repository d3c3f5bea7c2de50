"""An async function on many tasks, as asyncio tasks of one event loop, each task once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from pynamodb_tracker import clock
from pynamodb_tracker.aio.context import AsyncContext, call
from pynamodb_tracker.aio.pool import REQUESTS, in_thread, wait_for_call, wait_for_future
from pynamodb_tracker.aio.run import AsyncRun
from pynamodb_tracker.batch.batch import Admission, BaseBatch, Report, TaskAttempt, log_failed_requests
from pynamodb_tracker.batch.candidates import Feeding
from pynamodb_tracker.batch.thread_pool import Pace
from pynamodb_tracker.dynamodb.retries import stopped_by
from pynamodb_tracker.execution.interrupts import is_cancellation
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes

if TYPE_CHECKING:
    from pynamodb_tracker.control.slots import StepSlots

Item = TypeVar("Item")
T = TypeVar("T", bound=TaskRow)

_GLANCE = 0.01
"""Seconds between two looks at whether a task of this process has left its slot; no request is sent for that."""

AsyncStart = Callable[[str], AbstractAsyncContextManager[AsyncContext[T], bool | None]]
"""`step.astart`, with its options set: what returns the run of a task."""


class AsyncTaskAttempt(TaskAttempt[T]):
    """One attempt to run an async function on one task; `execute_async` in place of `execute`."""

    async def execute_async(
        self, start: AsyncStart[T], function: Callable[[AsyncContext[T]], Awaitable[object]]
    ) -> None:
        """Start the task and await the function with its context.

        An Exception is recorded with the task and kept in `error`. Anything else, such as CancelledError, is recorded
        and kept as well, and then raised.
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
        """Return that for a CancelledError, too, that the function has raised itself."""
        is_own = isinstance(error, asyncio.CancelledError) and not is_cancellation(error)
        return is_own or super()._is_failure(error)


class AsyncBatch(BaseBatch[AsyncStart[T], Callable[[AsyncContext[T]], Awaitable[object]]]):
    """The attempts of one step at many tasks; it asks for the pause in a thread."""

    async def run(self, *, limit: int | None, concurrency: int, rate: float | None) -> Report:
        """Try each task; if this is cancelled, the running ones are, and it ends once each of them has ended."""
        feeding, admission = Feeding({self.codes: self.feed}, limit=limit), Admission(self.slots)
        tasks = PacedTasks(iter(feeding), rate)

        async def next_task() -> tuple[Codes, str] | None:
            given = await tasks.next()
            if given is not None and self.slots is not None:
                await _admitted(self.slots, admission, given)
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


async def _admitted(slots: StepSlots, admission: Admission, task: tuple[Codes, str]) -> None:
    """Wait until a task has got a slot."""
    while not (slots.may_have and await in_thread(partial(admission.has, task))):  # noqa: ASYNC110 - threads leave slots
        await asyncio.sleep(_GLANCE)


class PacedTasks(Generic[Item]):
    """The tasks to try, at a limited rate; choosing one may wait for responses and ends, so it has its own thread.

    The thread is a daemon: if the program leaves the event loop before the running tasks have ended, they never do.
    """

    def __init__(self, tasks: Iterator[Item], rate: float | None = None) -> None:
        self._tasks = tasks
        self._pace = None if rate is None else Pace(rate)
        self._ahead: Future[Item | None] | None = None
        """The choice of the task after this one, so that tasks that start together share requests."""
        self._choices = SimpleQueue[Future[Item | None] | None]()
        in_context = copy_context().run
        Thread(target=in_context, args=(self._choose,), name="pynamodb_tracker feed", daemon=True).start()

    async def next(self) -> Item | None:
        """Return the next task, or None; if this is cancelled, it does not wait: choosing changes nothing."""
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
        """Let the thread end, once it has done what it was given."""
        self._choices.put(None)


async def in_tasks(
    begin: Callable[[Item], asyncio.Task[None]],
    next_item: Callable[[], Awaitable[Item | None]],
    concurrency: int,
) -> None:
    """Begin an asyncio task for each item; the next item is taken when there is room for its task.

    An exception stops the feeding, and is raised once the running tasks have ended. If this is cancelled, it cancels
    them, and waits until each of them has ended.
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
    """Forget the tasks that have ended; raise the exception of one that failed."""
    for task in [task for task in running if task.done()]:
        running.discard(task)
        task.result()


async def _after_the_rest(running: set[asyncio.Task[None]], error: BaseException) -> BaseException:
    """Wait until the running tasks have ended, and return what to raise; a cancellation is passed on to them."""
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
