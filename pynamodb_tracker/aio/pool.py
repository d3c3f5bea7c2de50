"""The threads that send the requests of event loops, and the wait for a request, which no cancellation cuts short."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from pynamodb_tracker.dynamodb.forking import in_forked_process
from pynamodb_tracker.dynamodb.retries import NotSentError, stopped_by
from pynamodb_tracker.model.failure import add_note

R = TypeVar("R")

THREADS, RUN_THREADS, HEARTBEAT_THREADS = 12, 25, 25
"""At 8 ms for a request and 3 ms of Python for a run, a core keeps a handful busy; the rest are for slow responses.

`arun_all` runs 25 tasks at a time by default. One request may carry the ends of them all, and if it hangs, so do they.
"""

_this_thread = threading.local()


class Pool:
    """Threads that are started when they are needed, and stay; a process that is forked starts its own."""

    def __init__(self, threads: int, name: str) -> None:
        self._new = partial(ThreadPoolExecutor, threads, thread_name_prefix=name, initializer=_note_pool)
        self._executor = self._new()
        in_forked_process(self._renew)

    def submit(self, function: Callable[[], R], stop: threading.Event | None = None) -> Future[R]:
        """Call a function in a thread, in a copy of this context; at once, if this is one of the pools' threads.

        What it sends is not sent again once `stop` is set.
        """
        if stop is not None:
            function = partial(_call_until, stop, function)
        if getattr(_this_thread, "is_of_pool", False):  # it waits, as in a retry_delay that calls asyncio.run
            return _called_here(function)
        try:
            return self._executor.submit(copy_context().run, function)
        except RuntimeError as error:
            if "shutdown" not in str(error):
                raise
        return _called_here(function)  # the main thread has ended: no pool takes anything more, and runs still end

    def _renew(self) -> None:
        self._executor = self._new()


def _note_pool() -> None:
    _this_thread.is_of_pool = True


def _call_until(stop: threading.Event, function: Callable[[], R]) -> R:
    with stopped_by(stop):
        return function()


def _called_here(function: Callable[[], R]) -> Future[R]:
    future: Future[R] = Future()
    try:
        future.set_result(function())
    except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
        future.set_exception(error)
    return future


REQUESTS = Pool(THREADS, "pynamodb_tracker requests")
"""For claims, and for all that concerns no run."""

# Threads of their own: where claims and reads hang, no lock expires because they keep all threads busy.
RUNS = Pool(RUN_THREADS, "pynamodb_tracker runs")
"""For what a run sends while it holds its task."""
HEARTBEATS = Pool(HEARTBEAT_THREADS, "pynamodb_tracker heartbeats")


async def in_thread(function: Callable[[], R], pool: Pool = REQUESTS) -> R:
    """Call a function in a thread, and return or raise what it does; a request that was begun is never abandoned.

    If this task is cancelled, no request is sent again, a function that changes many tasks takes no other one, and
    CancelledError is raised once the function has ended. If no thread has begun the function, it is raised at once.
    """
    stop = threading.Event()
    begun = pool.submit(function, stop)

    def withdraw() -> bool:
        stop.set()
        return begun.cancel()

    cancellation = await wait_for_call(begun, withdraw)
    if cancellation is None:
        return begun.result()
    error = None if begun.cancelled() else begun.exception()
    if error is not None and not isinstance(error, NotSentError):
        add_note(cancellation, f"pynamodb_tracker: a request that was on its way ended with {error!r}")
        raise cancellation from error  # whose notes may say that the task stays locked
    raise cancellation


async def wait_for_end(function: Callable[[], R]) -> tuple[Future[R], asyncio.CancelledError | None]:
    """Record the end of a run in a thread; return the call, and a CancelledError that came in the meantime.

    That waits for the request that is on its way, and nothing is sent again.
    """
    stop = threading.Event()
    begun = RUNS.submit(function, stop)

    def withdraw() -> bool:
        stop.set()
        return False

    return begun, await wait_for_call(begun, withdraw)


async def wait_for_call(
    begun: Future[Any], withdraw: Callable[[], bool] | None = None
) -> asyncio.CancelledError | None:
    """Wait for a call in a thread, as `wait_for_future` does; a coroutine that is closed meanwhile blocks for it."""
    try:
        return await wait_for_future(_end_of(begun), withdraw=withdraw)
    except GeneratorExit:  # it cannot await any more, and the call may not outlive what notes its outcome
        if withdraw is None or not withdraw():
            wait((begun,))
        raise


def _end_of(begun: Future[Any]) -> asyncio.Future[None]:
    """Return what is done once a call is; an error stays there, because `wrap_future` never ends by a StopIteration."""
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()

    def note(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end.set_result, None)

    begun.add_done_callback(note)
    return end


async def wait_for_future(
    future: asyncio.Future[Any], *, within: float | None = None, withdraw: Callable[[], bool] | None = None
) -> asyncio.CancelledError | None:
    """Wait until a future is done, or that many seconds; return the first CancelledError that came meanwhile.

    `withdraw` is called then: if it returns True, there is nothing more to wait for.
    """
    try:
        await asyncio.wait((future,), timeout=within)
    except asyncio.CancelledError as cancellation:
        if withdraw is None or not withdraw():
            await _keep_waiting(future, within)
        return cancellation
    return None


async def _keep_waiting(future: asyncio.Future[Any], within: float | None) -> None:
    """Wait on, even if it is cancelled again."""
    loop = asyncio.get_running_loop()
    end = None if within is None else loop.time() + within
    with shielded():
        while not future.done() and (end is None or loop.time() < end):
            try:
                await asyncio.wait((future,), timeout=None if end is None else end - loop.time())
            except asyncio.CancelledError:
                continue  # the first one is raised once the request has ended


def shielded() -> AbstractContextManager[object]:
    """Keep a scope of anyio from cancelling this task again at each turn of the loop while it waits."""
    anyio = sys.modules.get("anyio")  # if it was not imported, it cancels nothing
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)
