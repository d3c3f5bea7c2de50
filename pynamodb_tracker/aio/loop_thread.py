"""The event loop that a process keeps for async functions that threads call, such as those of handlers and workers.

It has its own thread from the first call until the process ends, so later calls can reuse, for example, the session of
an HTTP client. Any thread may call, even one with another running loop, which stands still until the function ends.
"""

from __future__ import annotations

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

_LONGEST_CLOSE = 1.0
"""Seconds that the end of the process waits for cancelled tasks of the loop."""


class LoopThread:
    """A thread, and the event loop that runs in it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        """A forked process has no threads of its parent."""
        self._loop = asyncio.new_event_loop()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="pynamodb_tracker event loop", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def call(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine function with this thread's context variables, and return its result.

        If this thread is interrupted, as by Ctrl-C, cancel the function, and raise the interrupt once it has ended.
        Raise a RuntimeError if this is called on the loop itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "an async function that a handler or a worker runs has called another one that waits for the same "
                "event loop: call it in a thread, await asyncio.to_thread(handler, event, context)"
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
        """Cancel the remaining tasks of the loop, and end it. Do nothing in a forked process."""
        atexit.unregister(self.close)
        if self.process != os.getpid():
            return
        self._ends = True
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LONGEST_CLOSE)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            while not self._ends:
                with suppress(KeyboardInterrupt, SystemExit):  # of a task that a function has left behind
                    runner.get_loop().run_forever()


class _Call(Generic[R]):
    """A call of an async function by a thread that waits for its end."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, R]]) -> None:
        self.ended = threading.Event()
        self._work = work
        self._task: asyncio.Task[R | None] | None = None
        self._leaving: BaseException | None = None
        """KeyboardInterrupt or SystemExit of the function. A task that raises one would end the loop."""

    def start(self) -> None:
        """Start the function. Call this on the loop."""
        self._task = asyncio.get_running_loop().create_task(self._kept())
        self._task.add_done_callback(lambda _: self.ended.set())

    def cancel(self) -> None:
        """Cancel the function. Call this on the loop."""
        if self._task is None:  # the interrupt came before the function was to start
            self.ended.set()
        else:
            self._task.cancel()

    async def _kept(self) -> R | None:
        try:
            return await self._work()
        except (KeyboardInterrupt, SystemExit) as error:
            self._leaving = error
            return None

    def result(self) -> R:
        """Return the function's result, or raise its error."""
        if self._leaving is not None:
            raise self._leaving
        return cast("asyncio.Task[R]", self._task).result()


_loops: dict[int, LoopThread] = {}
"""By process, because a forked process needs its own."""


def loop_thread() -> LoopThread:
    """Return the loop of this process."""
    if (found := _loops.get(os.getpid())) is None:  # without a lock, which another thread might hold during a fork
        made = LoopThread()
        if (found := _loops.setdefault(os.getpid(), made)) is not made:
            made.close()
    return found


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that awaits an async one on the event loop of this process, and returns its result.

    It takes an ExecutionContext, and perhaps more arguments. The async function gets an AsyncContext instead.
    """

    def wait_for(ctx: ExecutionContext[Any], *arguments: object) -> Any:
        read_off_row(ctx.task)
        async_ctx = AsyncContext(ctx)
        async_ctx.invocation = ctx.invocation

        async def work() -> Any:
            try:
                await hold_on_loop(ctx)
            except Exception as error:
                ctx._journal.unstarted = error  # noqa: SLF001 - no name for it among what users see
                raise
            return await call(lambda given: function(given, *arguments), async_ctx)

        return loop_thread().call(work)

    return update_wrapper(wait_for, function)
