"""The worker of async functions: runs them on due tasks, on the event loop of the program, until it is stopped."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pynamodb_tracker import arguments
from pynamodb_tracker.aio.pool import REQUESTS
from pynamodb_tracker.batch.batch import Tally
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.functions import async_function_of
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.worker.settings import WorkerSettings, check_tables, functions_by_step
from pynamodb_tracker.worker.shutdown import Handler, handling
from pynamodb_tracker.worker.task_team import AsyncFunction, TaskTeam

log = logging.getLogger("pynamodb_tracker")


class AsyncWorker:
    """Keeps running async functions on the due tasks of steps, as `arun_all` does once, until it is stopped.

    `functions` are use cases, `[Order, Refund]`, or steps of any tables, to which `does` has bound async functions, or
    a mapping of steps to such functions, `{Order.ship: print_label}`. They run as asyncio tasks of the loop in which
    `run` is awaited, up to `concurrency` at a time, each in a copy of the context variables of that call. Everything
    else is as of Worker: steps take turns, `heartbeat` is as of `astart`, `rate` limits the starts per second, tasks
    that run when the worker stops have the time `grace` to end, and `max_poll_interval` is the longest wait between two
    polls.

    Examples:
        >>> async def pack(ctx):
        ...     ctx.task.data["packed"] = True
        >>> tallies = await AsyncWorker({Order.confirm_payment: pack}).run(until_idle=True)
    """

    def __init__(
        self,
        functions: Sequence[type[Task] | BoundStep[Any]] | Mapping[BoundStep[Any], AsyncFunction],
        *,
        concurrency: int = 25,
        heartbeat: bool = False,
        rate: float | None = None,
        grace: timedelta = timedelta(seconds=30),
        max_poll_interval: timedelta = timedelta(seconds=30),
    ) -> None:
        self._functions = functions_by_step(functions, async_function_of)
        self._settings = WorkerSettings(
            functions=tuple(self._functions.items()),
            concurrency=arguments.check_threads(concurrency, "concurrency"),
            heartbeat=heartbeat,
            rate=arguments.check_rate("rate", rate),
            grace=grace,
            max_poll_interval=max_poll_interval,
        )
        self._entered = threading.Lock()
        self._is_stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._team: TaskTeam | None = None

    async def run(self, *, until_idle: bool = False) -> dict[BoundStep[Any], Tally]:
        """Work until `stop`, SIGTERM, or this is cancelled; return, by step, how many tasks had each outcome.

        After that, no further task is started; running functions have the grace time to end, and are then
        cancelled, which releases their tasks: the attempts do not count. If this is cancelled, CancelledError is raised
        when all of that is done; a second cancellation ends the grace time. A function that ignores its cancellation
        for 5 seconds is left behind: its task is released, and nothing of it is recorded. SIGTERM stops the worker, and
        SIGUSR1 prints to stderr what is being done, if this runs in the main thread, and neither the program nor its
        server handles that signal when this begins. Ctrl-C is left to asyncio, which cancels the main task. With
        `until_idle` it returns when there is nothing to do now. Exceptions of a function are recorded with their task;
        KeyboardInterrupt and SystemExit also stop the worker and are raised. If the first request is refused for a
        reason that does not pass, that error is raised at once; later failures of requests are logged, and repeated.
        RuntimeError if the worker was run before.
        """
        settings = replace(self._settings, until_idle=until_idle)
        if not self._entered.acquire(blocking=False):
            raise RuntimeError("this worker was run before: make another one")
        if not self._is_stopped:
            await asyncio.wrap_future(REQUESTS.submit(lambda: check_tables(self._functions)))
        self._team = team = TaskTeam(settings)
        self._loop = asyncio.get_running_loop()
        if not self._is_stopped:  # a call of `stop` from now on reaches the team
            log.info("a worker runs %s", ", ".join(f"{step.model.__name__}.{step.name}" for step in self._functions))
            with _receiving_signals(self):
                await team.run_to_the_end()
        for error in team.errors:
            raise error
        return dict(zip(self._functions, team.tallies, strict=True))

    def stop(self) -> None:
        """Stop gracefully, as SIGTERM does; from any thread, including a function of the worker. Returns at once.

        A worker that is stopped before it runs starts nothing.
        """
        self._is_stopped = True
        if self._team is not None:
            self._call(self._team.stop)

    def _print_status(self) -> None:
        if self._team is not None:
            self._call(self._team.print_status)

    def _call(self, function: Callable[[], None]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._loop.call_soon_threadsafe(function)


_receivers: list[AsyncWorker] = []
"""The workers that run in the main thread; several may share its loop, and a signal is for all of them."""

_handling = ExitStack()


@contextmanager
def _receiving_signals(worker: AsyncWorker) -> Iterator[None]:
    """Let signals reach the worker in the main thread; they are handled from the first start to the last end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _receivers:
        _handling.enter_context(handling(_unhandled_signals()))
    _receivers.append(worker)
    try:
        yield
    finally:
        _receivers.remove(worker)
        if not _receivers:
            _handling.close()


def _unhandled_signals() -> dict[str, Handler]:
    """Return what to do at signals for which there is no handler: a server, or the program, may have its own."""

    def stop(_number: int, _frame: object) -> None:
        for worker in _receivers:
            worker.stop()

    def print_status(_number: int, _frame: object) -> None:
        for worker in _receivers:
            worker._print_status()  # noqa: SLF001 - of this module

    handlers: dict[str, Handler] = {"SIGTERM": stop, "SIGUSR1": print_status}
    return {
        name: handler
        for name, handler in handlers.items()
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_DFL
    }
