"""The worker: it runs functions on the due tasks of steps, on threads or processes, until it is stopped."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pynamodb_tracker import arguments
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.functions import any_function_of
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.worker.liveness import signs_of_life
from pynamodb_tracker.worker.process_team import ProcessTeam, parent_pipe, run_to_the_end
from pynamodb_tracker.worker.settings import POLL_INTERVAL, WorkerSettings, check_tables, functions_by_step, log_start
from pynamodb_tracker.worker.shutdown import Message, Messages, handling, message_handlers
from pynamodb_tracker.worker.team import ThreadTeam

if TYPE_CHECKING:
    from os import PathLike

    from pynamodb_tracker.step.functions import StepFunction


class Worker:
    """Keeps running functions on the due tasks of steps, as `run_all` does once, until it is stopped.

    Steps take turns: each gives one task, however many it has. A poll asks up to 8 shards and stops at the first that
    has a due task. Shards take turns, and the oldest task of each is first. Tasks that a run of this process makes due,
    or that it creates, start without a poll. An async function gets an AsyncContext, and runs on one event loop of its
    process while a thread waits for it.

    Args:
        functions: Use cases, `[Order, Refund]`, or steps: the worker runs every step to which `does` has bound a
            function. Or a mapping of steps to functions of the context, `{Order.ship: print_label}`.
        threads: How many tasks each process runs at the same time.
        processes: How many processes run tasks. More than one are spawned, and import the functions and use cases.
        heartbeat: As in `start`.
        rate: The limit of starts per second. Each process has an equal share of it, so the busiest second may have one
            more start per process.
        grace: How long running tasks may take to end when the worker stops.
        max_poll_interval: The longest wait between two polls of a shard, and so until the worker finds a task that
            another process has created. A poll costs half a read unit per step and shard. Every 30 seconds, it costs
            one more.

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
        self._settings = WorkerSettings(
            functions=tuple(self._functions.items()),
            concurrency=arguments.check_threads(threads),
            heartbeat=heartbeat,
            rate=arguments.check_rate("rate", rate),
            grace=grace,
            max_poll_interval=max_poll_interval,
        )
        self._messages: Messages = Messages()
        self._is_stopped = False
        self._entered = threading.Lock()

    def run(
        self, *, until_idle: bool = False, health_file: str | PathLike[str] | None = None
    ) -> dict[BoundStep[Any], Tally]:
        """Work until `stop`, SIGTERM or SIGINT. Return, by step, how many tasks had each outcome.

        A stopping worker starts no new tasks. Running tasks have the grace time to end, and are then released. Their
        functions may continue, but no result is recorded, so end the process soon. A second SIGINT raises
        KeyboardInterrupt at once, and running tasks stay locked until their locks expire. SIGUSR1 prints the worker's
        status to stderr. Signals are handled only in the main thread. With `until_idle`, return when there is nothing
        to do now. Touch the `health_file` at the start, and then every five seconds as long as all threads are busy, or
        the worker looks for tasks at least once in `max_poll_interval` and two minutes.

        Exceptions of a function are recorded with their task. KeyboardInterrupt and SystemExit also stop the worker and
        are raised. A permanent error of the first request is raised at once. Later failures are logged, and the request
        is retried. Raise an OSError if the `health_file` cannot be written, RuntimeError if the worker was run before.
        """
        settings = replace(self._settings, until_idle=until_idle)
        if not self._entered.acquire(blocking=False):
            raise RuntimeError("this worker was run before: make another one")
        if self._is_stopped:
            return {step: Tally() for step in self._functions}
        check_tables(self._functions)  # before signals are handled: nothing runs yet, and a request may take minutes
        signals = {"SIGINT": Message.INTERRUPT, "SIGTERM": Message.STOP, "SIGUSR1": Message.PRINT_STATUS}
        with handling(message_handlers(self._messages, **signals)):
            if self._processes == 1:
                team: ThreadTeam | ProcessTeam = ThreadTeam(settings, self._messages)
            else:
                team = ProcessTeam(settings, self._processes, self._messages)
            log_start(self._functions, self._given)
            with signs_of_life(lambda: team.is_alive, partial(_touch, health_file)) if health_file else nullcontext():
                run_to_the_end(team, self._messages)
        for error in team.errors:
            raise error
        return dict(zip(self._functions, team.tallies, strict=True))

    def stop(self) -> None:
        """Stop gracefully, as SIGTERM does, and return at once. Any thread and the worker's functions may call this.

        A worker that is stopped before it runs starts nothing.

        Examples:
            >>> worker = Worker([Order])
            >>> worker.stop()
        """
        self._is_stopped = True
        self._messages.put(Message.STOP)
        if not self._entered.locked() and parent_pipe.leads_to_worker_of(self._functions):
            parent_pipe.send(Message.STOP)  # this object is a copy: the worker that runs is in another process


def _touch(path: str | PathLike[str]) -> None:
    with Path(path).open("a"):  # which refuses a directory
        os.utime(path)


def _check_processes(processes: object, functions: Mapping[BoundStep[Any], StepFunction[Any]]) -> int:
    """Return the number of processes. Raise a ValueError if they could not import the functions and use cases."""
    if type(processes) is not int or processes < 1:
        raise ValueError(f"processes must be a whole number from 1, not {arguments.shown(processes)}")
    if processes > 1:
        try:
            pickle.dumps(tuple(functions.items()))
        except Exception as error:
            raise ValueError(
                f"processes={processes} needs functions and use cases that another process can import, at the top "
                f"level of a module: {error}"
            ) from error
    return processes
