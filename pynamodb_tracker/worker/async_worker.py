"""Runs async functions on the program's event loop until it is stopped."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from pynamodb_tracker.aio.context import AsyncContext, call
from pynamodb_tracker.aio.pool import REQUESTS
from pynamodb_tracker.model import arguments
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.functions import async_function_of
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.work.source import StepWork
from pynamodb_tracker.work.task_executor import TaskExecutor
from pynamodb_tracker.worker.shutdown import handle_signals, print_to_stderr
from pynamodb_tracker.worker.team import (
    POLL_INTERVAL,
    WorkerSettings,
    build_dispatcher,
    check_tables,
    functions_by_step,
    log_ended,
    log_start,
)

AsyncFunction = Callable[[AsyncContext[Any]], Awaitable[object]]


class AsyncWorker:
    """Keeps running async functions on the due tasks of steps until it is stopped. `arun_all` does it once.

    The functions run as asyncio tasks of the loop that awaits `run`, each in a copy of that call's context variables.
    Steps take turns, as in a Worker.

    Args:
        functions: Use cases or steps to which `does` has bound async functions, as `[Order, Refund]`, or a mapping of
            steps to async functions, as `{Order.ship: print_label}`.
        concurrency: How many tasks run at the same time.
        heartbeat: As in `astart`.
        rate: How many tasks start per second at most.
        grace: How long running tasks may take to end when the worker stops.
        max_poll_interval: The longest wait between two polls.

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
        max_poll_interval: timedelta = POLL_INTERVAL,
    ) -> None:
        self._given = functions
        self._functions = functions_by_step(functions, async_function_of)
        arguments.check_threads(concurrency, "concurrency")
        rate, steps = arguments.check_rate("rate", rate), tuple(self._functions.items())
        self._settings = WorkerSettings(steps, concurrency, heartbeat, rate, grace, max_poll_interval)
        self._entered = threading.Lock()
        self._is_stopped = False
        self._executor: TaskExecutor | None = None

    async def run(self, *, until_idle: bool = False) -> dict[BoundStep[Any], Tally]:
        """Work until `stop`, SIGTERM or a cancellation. Return, by step, how many tasks had each outcome.

        A stopping worker starts no new tasks. It gives running functions the grace time, and then cancels them, which
        releases their tasks: the attempts do not count. If a function ignores that for 5 seconds, its task is released
        and no result is recorded. If you cancel this call, it raises CancelledError once all of that is done. A second
        cancellation ends the grace time.

        SIGTERM stops the worker and SIGUSR1 prints its status to stderr, if this is the main thread and nobody else
        handles the signal. asyncio handles Ctrl-C by cancelling the main task. With `until_idle`, return when there is
        nothing to do now. Errors are handled as in `Worker.run`.
        """
        settings = replace(self._settings, until_idle=until_idle)
        if not self._entered.acquire(blocking=False):
            raise RuntimeError("this worker was run before: create a new one")
        if not self._is_stopped:
            await asyncio.wrap_future(REQUESTS.submit(lambda: check_tables(self._functions)))
        dispatcher = build_dispatcher(settings, partial(_build_work, settings))
        self._executor = executor = TaskExecutor(dispatcher, settings.concurrency, log_ended, grace=settings.grace)
        if not self._is_stopped:  # from now on, `stop` reaches the executor
            log_start(self._functions, self._given)
            with _receive_signals(self):
                await executor.run()
        executor.raise_errors()
        return dict(zip(self._functions, (source.tally for source in dispatcher.sources), strict=True))

    def stop(self) -> None:
        """Stop as SIGTERM does, and return at once. Any thread and function may call this, even before `run`."""
        self._is_stopped = True
        if self._executor is not None:
            self._executor.call(self._executor.stop)

    def _print_status(self) -> None:
        if (executor := self._executor) is not None:
            executor.call(lambda: print_to_stderr(executor.status()))


def _build_work(settings: WorkerSettings, step: BoundStep[Any], function: AsyncFunction) -> StepWork:
    return StepWork(step._definition, partial(step.astart, heartbeat=settings.heartbeat), partial(call, function))


_receivers: list[AsyncWorker] = []  # workers in the main thread, which share its signals

_handling = ExitStack()


@contextmanager
def _receive_signals(worker: AsyncWorker) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _receivers:
        for name, method in {"SIGTERM": AsyncWorker.stop, "SIGUSR1": AsyncWorker._print_status}.items():  # noqa: SLF001 - of this module
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # else the program handles it
                _handling.enter_context(handle_signals({name: partial(_tell_all, method)}))
    _receivers.append(worker)
    try:
        yield
    finally:
        _receivers.remove(worker)
        if not _receivers:
            _handling.close()


def _tell_all(method: Callable[[AsyncWorker], None], _number: int, _frame: object) -> None:
    for worker in _receivers:
        method(worker)
