"""Runs functions on the due tasks of steps, on threads or processes, until it is stopped."""

import os
import pickle
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from pynamodb_tracker.model import arguments
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.functions import StepFunction, any_function_of
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.worker.process_team import ProcessTeam, parent_pipe, run_to_the_end
from pynamodb_tracker.worker.shutdown import Message, Messages, handle_signals, message_handlers
from pynamodb_tracker.worker.team import (
    POLL_INTERVAL,
    ThreadTeam,
    WorkerSettings,
    check_tables,
    functions_by_step,
    give_signs_of_life,
    log_start,
)


class Worker:
    """Keeps running functions on the due tasks of steps until it is stopped. `run_all` does it once.

    Steps take turns, and each gives one task. A poll asks up to 8 shards and stops at the first with a due task. Shards
    take turns, too, and each begins with its oldest task. Tasks that this process creates, or that its runs make due,
    start without a poll. Async functions get an AsyncContext and run on one event loop per process, while a thread
    waits for each of them.

    Args:
        functions: Use cases or steps with bound functions, as `[Order, Refund]`, or a mapping of steps to functions
            that take the context, as `{Order.ship: print_label}`.
        threads: How many tasks each process runs at the same time.
        processes: How many processes run tasks. If more than one, they are spawned, and import the functions and use
            cases.
        heartbeat: As in `start`.
        rate: How many tasks start per second at most. Processes share it equally, so each may start one too many in a
            second.
        grace: How long running tasks may take to end when the worker stops.
        max_poll_interval: The longest wait between two polls, and so until the worker finds another process's new task.
            A poll costs half a read unit per step and shard, and one unit every 30 seconds.

    Examples:
        >>> tallies = Worker([Order], threads=8).run(until_idle=True)
    """

    def __init__(
        self,
        functions: Sequence[type[Task] | BoundStep[Any]] | Mapping[BoundStep[Any], StepFunction[Any]],
        *,
        threads: int = 1,
        processes: int = 1,
        heartbeat: bool = False,
        rate: float | None = None,
        grace: timedelta = timedelta(seconds=30),
        max_poll_interval: timedelta = POLL_INTERVAL,
    ) -> None:
        self._given = functions
        self._functions = functions_by_step(functions, any_function_of)
        self._processes = _check_processes(processes, self._functions)
        arguments.check_threads(threads)
        rate, steps = arguments.check_rate("rate", rate), tuple(self._functions.items())
        self._settings = WorkerSettings(steps, threads, heartbeat, rate, grace, max_poll_interval)
        self._messages: Messages = Messages()
        self._is_stopped = False
        self._entered = threading.Lock()

    def run(
        self, *, until_idle: bool = False, health_file: str | PathLike[str] | None = None
    ) -> dict[BoundStep[Any], Tally]:
        """Work until `stop`, SIGTERM or SIGINT. Return, by step, how many tasks had each outcome.

        A stopping worker starts no new tasks. It gives running tasks the grace time, and then releases them. Their
        functions may continue, but no result is recorded, so end the process soon. A second SIGINT raises
        KeyboardInterrupt at once, and running tasks stay locked until their locks expire. SIGUSR1 prints the worker's
        status to stderr. Only the main thread handles signals. With `until_idle`, return when there is nothing to do
        now. The `health_file` is touched at the start, and then every five seconds while all threads are busy, or the
        worker looks for tasks at least once in `max_poll_interval` and two minutes.

        A function's exceptions are recorded with their task. KeyboardInterrupt and SystemExit also stop the worker and
        are raised, as is a permanent error from the first request. Later failures are logged and retried. Raise an
        OSError if the `health_file` cannot be written, and a RuntimeError if the worker was run before, or if several
        processes need tables of `local_table`.
        """
        settings = replace(self._settings, until_idle=until_idle)
        if self._processes > 1 and any(step.model.tracker.table.is_in_memory for step in self._functions):
            raise RuntimeError(f"{self._processes} processes cannot share local_table's tables: use local_server")
        if not self._entered.acquire(blocking=False):
            raise RuntimeError("this worker was run before: create a new one")
        if self._is_stopped:
            return {step: Tally() for step in self._functions}
        check_tables(self._functions)  # before handling signals, because a request may take minutes
        signals = {"SIGINT": Message.INTERRUPT, "SIGTERM": Message.STOP, "SIGUSR1": Message.PRINT_STATUS}
        with handle_signals(message_handlers(self._messages, **signals)):
            if self._processes == 1:
                team: ThreadTeam | ProcessTeam = ThreadTeam(settings, self._messages)
            else:
                team = ProcessTeam(settings, self._processes, self._messages)
            log_start(self._functions, self._given)
            signs = give_signs_of_life(lambda: team.is_alive, partial(_touch, health_file)) if health_file else None
            with signs or nullcontext():
                run_to_the_end(team, self._messages)
        for error in team.errors:
            raise error
        return dict(zip(self._functions, team.tallies, strict=True))

    def stop(self) -> None:
        """Stop as SIGTERM does, and return at once. Any thread and function may call this, even before `run`.

        Examples:
            >>> worker = Worker([Order])
            >>> worker.stop()
        """
        self._is_stopped = True
        self._messages.put(Message.STOP)
        if not self._entered.locked() and parent_pipe.leads_to_worker_of(self._functions):
            parent_pipe.send(Message.STOP)  # the worker runs in another process


def _touch(path: str | PathLike[str]) -> None:
    with Path(path).open("a"):  # which refuses a directory
        os.utime(path)


def _check_processes(processes: object, functions: Mapping[BoundStep[Any], StepFunction[Any]]) -> int:
    if (number := arguments.check_threads(processes, "processes")) > 1:
        try:
            pickle.dumps(tuple(functions.items()))
        except Exception as error:
            raise ValueError(
                f"processes={number} needs functions and use cases at the top level of a module, where another "
                f"process can import them: {error}"
            ) from error
    return number
