"""One run on an event loop. Threads send its requests, but its block, heartbeat and hooks stay on the loop."""

import asyncio
import weakref
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.aio.context import AsyncContext, hold_on_loop, read_off_row
from pynamodb_tracker.aio.pool import HEARTBEATS, in_thread, wait_for_end, wait_for_future
from pynamodb_tracker.dynamodb.connection import sharing_requests
from pynamodb_tracker.dynamodb.retries import ending_by
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.heartbeat import MOMENT, Beats
from pynamodb_tracker.execution.interrupts import cancel_requests, is_cancellation
from pynamodb_tracker.execution.run import CLOSE_WITHIN, Run
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import Journal

T = TypeVar("T", bound=TaskRow)


class AsyncRun(AbstractAsyncContextManager[AsyncContext[T], bool | None], Generic[T]):
    """The async context manager that `astart` returns. You can enter it once.

    How a cancellation is recorded depends on where it comes from and when:

        claim ---------------- block ------------------ end --------
        awaited and            this task is cancelled:  awaited, as it
        released, and then     released                 was to be, then
        CancelledError         raised inside: failure   CancelledError
    """

    def __init__(self, run: Run[T], *, heartbeat: bool) -> None:
        self.run = run
        self._has_heartbeat = heartbeat
        self._heartbeat: _AsyncHeartbeat[T] | None = None
        self.asyncio_task: asyncio.Task[object] | None = None
        self._cancelled_before = 0  # how often the asyncio task was cancelled before the block

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an AttributeError that says how to use the context."""
            if name.startswith("_") or not hasattr(AsyncContext, name):
                raise AttributeError(f"a run has no attribute {name!r}")
            start = self.run.call_of("astart")
            raise AttributeError(
                f"{start} is for async with: write `async with {start} as ctx:`, and ctx.{name} in its block"
            )

        def __enter__(self) -> NoReturn:
            """Raise a TypeError that says how to use the run."""
            self.run.phase = "ended"
            call = self.run.call_of
            raise TypeError(f"{call('astart')} is for `async with`: write that, or `with {call('start')}`")

        __exit__ = __enter__

    async def __aenter__(self) -> AsyncContext[T]:
        run = self.run
        if run.journal is not None:
            raise RuntimeError(f"this run of {run.task_id!r} was entered before: call astart() for each run")
        self.asyncio_task = asyncio.current_task()
        self._cancelled_before = cancel_requests()
        try:
            ctx = await in_thread(self._claim)
            if run.observation is not None:
                run.observation.begin()
            await hold_on_loop(ctx)  # nothing is awaited from here to the block
            run.begin_block()
            if self._has_heartbeat:
                journal = ctx._journal  # noqa: SLF001 - hidden from users
                self._heartbeat = _AsyncHeartbeat(journal, run.lock_for, partial(_task_of, weakref.ref(self)))
        except BaseException as error:
            await self._abandon(error)
            raise
        return AsyncContext(ctx)

    def _claim(self) -> ExecutionContext[T]:
        ctx = self.run.claim()
        read_off_row(ctx.task)
        return ctx

    async def _abandon(self, error: BaseException) -> None:
        try:
            if self.run.journal is None:  # nothing has to be sent
                return
            if issubclass(type(error), GeneratorExit):  # a closed coroutine cannot await, nor does it need a loop
                self.run.undo_claim(error)
                return
            begun, cancellation = await wait_for_end(partial(self.run.undo_claim, error))
            begun.result()
        finally:
            self.run.refuse(error)
        if cancellation is not None and not issubclass(type(error), asyncio.CancelledError):
            raise cancellation

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Record success, release or failure. With `skip_error`, suppress the block's exception once it is recorded."""
        left = error
        try:
            return await self._end(error)
        except BaseException as raised:
            left = raised
            raise
        finally:
            self._heartbeat = None
            self.run.leave(left)

    async def _end(self, error: BaseException | None) -> bool:
        """Send the end's requests, then raise a CancelledError that came in the meantime."""
        run = self.run
        if issubclass(type(error), GeneratorExit):
            return self._end_at_once(error)
        earlier = self._cancelled_before if asyncio.current_task() is self.asyncio_task else 0
        run.is_cancelled = error is not None and is_cancellation(error, earlier=earlier)
        try:
            cancellation = None if self._heartbeat is None else await self._heartbeat.end()
        except GeneratorExit:  # the coroutine is closed: in 3.11 even by aclose(), if that is cancelled at once
            self._end_at_once(error)
            raise
        begun, late = await wait_for_end(partial(run.end, error))
        cancellation = late or cancellation
        if cancellation is None or run.is_cancelled:
            return begun.result()
        unrecorded = begun.exception()
        if unrecorded is None:
            unrecorded = run.unrecorded
        if unrecorded is not None:
            claim = None if run.journal is None else run.journal.claim
            add_note(cancellation, f"pynamodb_tracker: the end of {claim} failed with {unrecorded!r}")
            raise cancellation from unrecorded
        raise cancellation

    def _end_at_once(self, error: BaseException | None) -> bool:
        """Send the end's requests, which blocks the loop."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
        with ending_by(clock.now() + CLOSE_WITHIN):
            return self.run.end(error)


def _task_of(run: weakref.ref[AsyncRun[T]]) -> asyncio.Task[object] | None:
    found = run()
    return None if found is None else found.asyncio_task


class _AsyncHeartbeat(Generic[T]):
    """The asyncio task that extends a run's lock until `end`, or until the lock is lost.

    A cancellation from elsewhere does not stop it. While the loop hangs, it sends no beats, so other workers take over.
    """

    def __init__(
        self, journal: Journal[T], lock_for: timedelta, owner: Callable[[], asyncio.Task[object] | None]
    ) -> None:
        """`owner` returns the run's task, or None once that is dropped."""
        self._beats = Beats(journal, lock_for)
        with sharing_requests(None):  # do not wait for writes of others
            self._task = asyncio.create_task(
                _beat(self._beats, owner), name=f"pynamodb_tracker heartbeat of {journal.claim.task.task_id!r}"
            )

    async def end(self) -> asyncio.CancelledError | None:
        """Stop, and wait a moment for a beat on its way. Return a CancelledError that came then."""
        self.stop()
        return await wait_for_future(self._task, within=MOMENT)

    def stop(self) -> None:
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
            pause = beats.until_due() or await in_thread(beats.beat, HEARTBEATS) or beats.until_due()
        except asyncio.CancelledError:
            # A program cancels all tasks when it ends. The block may take long to clean up, and still needs its lock.
            task = owner()
            if task is None or task.done() or not beats.are_needed:
                raise
            pause = beats.until_due()
