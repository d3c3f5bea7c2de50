"""A process's event loop for async functions that threads call, as handlers and workers do.

It lasts until the process ends, so later calls can reuse an HTTP session, for example. Any thread may call, even one
with a running loop, which blocks until the function ends.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import update_wrapper
from typing import Any, Generic, TypeVar, cast

from pynamodb_tracker.aio.context import AsyncContext, call, hold_on_loop, read_off_row
from pynamodb_tracker.execution.context import ExecutionContext

R = TypeVar("R")

_LONGEST_CLOSE = 1.0  # seconds to wait for cancelled tasks when the process ends


class LoopThread:
    def __init__(self) -> None:
        self.process = os.getpid()  # a forked process lacks the thread
        self._loop = asyncio.new_event_loop()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="pynamodb_tracker event loop", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def call(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine function with this thread's context variables, and return its result.

        An interrupt, such as Ctrl-C, cancels the function, and is raised once that has ended. Raise a RuntimeError on
        the loop itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "an async function called a handler or a worker, which waits for the same event loop: call it in a "
                "thread, await asyncio.to_thread(handler, event, context)"
            )
        call = _Call(work)
        try:
            self._loop.call_soon_threadsafe(call.start)
            call.ended.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            call.ended.wait()
            raise
        return call.result()

    def close(self) -> None:
        """Cancel the remaining tasks and end the loop. Do nothing in a forked process."""
        atexit.unregister(self.close)
        if self.process != os.getpid():
            return
        self._ends = True
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LONGEST_CLOSE)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            while not self._ends:
                with suppress(KeyboardInterrupt, SystemExit):  # from a task that a function left behind
                    runner.get_loop().run_forever()


class _Call(Generic[R]):
    def __init__(self, work: Callable[[], Coroutine[Any, Any, R]]) -> None:
        self.ended = threading.Event()
        self._work = work
        self._task: asyncio.Task[R | None] | None = None
        self._leaving: BaseException | None = None  # an error that would end the loop if its task raised it

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep_exits())
        self._task.add_done_callback(lambda _: self.ended.set())

    def cancel(self) -> None:
        if self._task is None:  # the interrupt came before the start
            self.ended.set()
        else:
            self._task.cancel()

    async def _keep_exits(self) -> R | None:
        try:
            return await self._work()
        except (KeyboardInterrupt, SystemExit) as error:
            self._leaving = error
            return None

    def result(self) -> R:
        if self._leaving is not None:
            raise self._leaving
        return cast("asyncio.Task[R]", self._task).result()


_loops: dict[int, LoopThread] = {}  # by process


def loop_thread() -> LoopThread:
    if (found := _loops.get(os.getpid())) is None:  # without a lock, because a thread might hold it during a fork
        made = LoopThread()
        if (found := _loops.setdefault(os.getpid(), made)) is not made:
            made.close()
    return found


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a blocking function that runs an async one, with an AsyncContext, on this process's event loop."""

    def wait_for(ctx: ExecutionContext[Any], *arguments: object) -> Any:
        read_off_row(ctx.task)
        async_ctx = AsyncContext(ctx)
        async_ctx.invocation = ctx.invocation

        async def work() -> Any:
            try:
                await hold_on_loop(ctx)
            except Exception as error:
                ctx._journal.unstarted = error  # noqa: SLF001 - hidden from users
                raise
            return await call(lambda given: function(given, *arguments), async_ctx)

        return loop_thread().call(work)

    return update_wrapper(wait_for, function)
