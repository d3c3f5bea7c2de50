"""Sends the requests of event loops in threads. No cancellation ends the wait for a request."""

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

# At 8 ms per request and 3 ms of Python per run, a core keeps a handful busy. The others wait for slow responses.
# `arun_all` runs 25 tasks at a time, and all their ends may hang in one request.
THREADS, RUN_THREADS, HEARTBEAT_THREADS = 12, 25, 25

_this_thread = threading.local()


class Pool:
    """Threads that start when they are needed, and stay. A forked process starts its own."""

    def __init__(self, threads: int, name: str) -> None:
        self._new = partial(ThreadPoolExecutor, threads, thread_name_prefix=name, initializer=_note_pool)
        self._executor = self._new()
        in_forked_process(self._renew)

    def submit(self, function: Callable[[], R], stop: threading.Event | None = None) -> Future[R]:
        """Call a function in a thread, or here if this is one, in this context. It retries no requests after `stop`."""
        if stop is not None:
            function = partial(_call_until, stop, function)
        if getattr(_this_thread, "is_of_pool", False):  # as in a retry_delay that calls asyncio.run
            return _call_here(function)
        try:
            return self._executor.submit(copy_context().run, function)
        except RuntimeError as error:
            if "shutdown" not in str(error):
                raise
        return _call_here(function)  # the main thread has ended, so pools refuse calls, but runs still end

    def _renew(self) -> None:
        self._executor = self._new()


def _note_pool() -> None:
    _this_thread.is_of_pool = True


def _call_until(stop: threading.Event, function: Callable[[], R]) -> R:
    with stopped_by(stop):
        return function()


def _call_here(function: Callable[[], R]) -> Future[R]:
    future: Future[R] = Future()
    try:
        future.set_result(function())
    except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
        future.set_exception(error)
    return future


REQUESTS = Pool(THREADS, "pynamodb_tracker requests")  # for claims, and outside of runs

# Runs and heartbeats have their own threads, so that hanging claims and reads do not let locks expire.
RUNS = Pool(RUN_THREADS, "pynamodb_tracker runs")
HEARTBEATS = Pool(HEARTBEAT_THREADS, "pynamodb_tracker heartbeats")


async def in_thread(function: Callable[[], R], pool: Pool = REQUESTS) -> R:
    """Call a function in a thread and return its result. A request that has begun is never abandoned.

    After a cancellation, the function retries no requests and changes no more tasks, and CancelledError is raised once
    it has ended, or at once if it has not begun.
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
        raise cancellation from error  # its notes may say that the task stays locked
    raise cancellation


async def wait_for_end(function: Callable[[], R]) -> tuple[Future[R], asyncio.CancelledError | None]:
    """Record a run's end in a thread. Return the call, and a CancelledError, after which it retries no requests."""
    stop = threading.Event()
    begun = RUNS.submit(function, stop)
    return begun, await wait_for_call(begun, stop.set)  # `set` returns None: the call cannot be withdrawn


async def wait_for_call(
    begun: Future[Any], withdraw: Callable[[], bool | None] | None = None
) -> asyncio.CancelledError | None:
    """Wait for a call in a thread, as `wait_for_future` does. A closed coroutine blocks until it ends."""
    # `wrap_future` would not pass on a StopIteration.
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()

    def note(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end.set_result, None)

    begun.add_done_callback(note)
    try:
        return await wait_for_future(end, withdraw=withdraw)
    except GeneratorExit:  # a closed coroutine cannot await, and the call must not outlive it
        if withdraw is None or not withdraw():
            wait((begun,))
        raise


async def wait_for_future(
    future: asyncio.Future[Any], *, within: float | None = None, withdraw: Callable[[], bool | None] | None = None
) -> asyncio.CancelledError | None:
    """Wait until a future is done, or that many seconds. Return the first CancelledError that came in the meantime.

    Then call `withdraw`. If that returns True, stop waiting. Otherwise, wait through more cancellations.
    """
    try:
        await asyncio.wait((future,), timeout=within)
    except asyncio.CancelledError as cancellation:
        if withdraw is not None and withdraw():
            return cancellation
        loop = asyncio.get_running_loop()
        end = None if within is None else loop.time() + within
        with shielded():
            while not future.done() and (end is None or loop.time() < end):
                with suppress(asyncio.CancelledError):  # the caller raises the first one
                    await asyncio.wait((future,), timeout=None if end is None else end - loop.time())
        return cancellation
    return None


def shielded() -> AbstractContextManager[object]:
    """Keep an anyio scope from cancelling this task again and again."""
    anyio = sys.modules.get("anyio")
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)
