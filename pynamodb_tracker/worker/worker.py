"""The worker: which functions it runs on which steps, and how; from `run` until it is stopped."""

from __future__ import annotations

import logging
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
from pynamodb_tracker.batch.batch import Tally
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.functions import any_function_of
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.worker.liveness import signs_of_life
from pynamodb_tracker.worker.process_team import ProcessTeam, parent_pipe
from pynamodb_tracker.worker.settings import WorkerSettings, check_tables, functions_by_step
from pynamodb_tracker.worker.shutdown import Handler, Message, Messages, handling, run_to_the_end, sender
from pynamodb_tracker.worker.team import ThreadTeam

if TYPE_CHECKING:
    from os import PathLike

    from pynamodb_tracker.step.functions import StepFunction

log = logging.getLogger("pynamodb_tracker")


class Worker:
    """Keeps running functions on the due tasks of steps, as `run_all` does once, until it is stopped.

    `functions` are use cases, `[Order, Refund]`, or steps of any tables: the worker runs every step of them to which
    `does` has bound a function. Or it maps steps to functions of the context, `{Order.ship: print_label}`. Steps take
    turns: each in turn gives one task, however many it has. They run on `threads` threads in each of `processes`
    processes. With more than one process, these are spawned, and import the functions and the use cases by their names.
    An async function gets an AsyncContext, and runs on one event loop of its process, while a thread waits for it.
    `heartbeat` is as of `start`; `rate` limits the starts per second. Each process has an equal share of it, so the
    busiest second may have one more start per process. When the worker stops, running tasks have the time `grace` to
    end. `max_poll_interval` is the longest wait between two polls of a shard, and so the longest delay until a task is
    found that has become due without the worker's doing. It also bounds what an idle worker costs: 2 read units per
    `max_poll_interval`, step and shard. A poll asks up to 8 shards and stops at the first that has something due; the
    shards take turns, the oldest task of each first.

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
        max_poll_interval: timedelta = timedelta(seconds=30),
    ) -> None:
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
        """Work until `stop`, SIGTERM or SIGINT; return, by step, how many tasks were tried and what became of them.

        After that, no further task is started; running ones have the grace time to end, and are then released: their
        functions may continue, but nothing of that is recorded, so end the process soon. A second SIGINT raises
        KeyboardInterrupt at once, and running tasks stay locked until their locks expire. SIGUSR1 prints to stderr what
        the worker is doing. Signals are handled only if this is called in the main thread. With `until_idle` it returns
        when there is nothing to do now. The `health_file` is touched at the start, and then every five seconds as long
        as the worker looks for tasks at least once in `max_poll_interval` and two minutes, or all its threads run one;
        an OSError if it cannot be written. Exceptions of a function are recorded with their task; KeyboardInterrupt and
        SystemExit also stop the worker and are raised. If the first request is refused for a reason that does not pass,
        that error is raised at once; later failures of requests are logged, and repeated. RuntimeError if the worker
        was run before.
        """
        settings = replace(self._settings, until_idle=until_idle)
        if not self._entered.acquire(blocking=False):
            raise RuntimeError("this worker was run before: make another one")
        if self._is_stopped:
            return {step: Tally() for step in self._functions}
        check_tables(self._functions)  # before signals are handled: nothing runs yet, and a request may take minutes
        handlers: dict[str, Handler] = {
            "SIGINT": sender(self._messages, Message.INTERRUPT),
            "SIGTERM": sender(self._messages, Message.STOP),
            "SIGUSR1": sender(self._messages, Message.PRINT_STATUS),
        }
        with handling(handlers):
            if self._processes == 1:
                team: ThreadTeam | ProcessTeam = ThreadTeam(settings, self._messages)
            else:
                team = ProcessTeam(settings, self._processes, self._messages)
            log.info("a worker runs %s", ", ".join(f"{step.model.__name__}.{step.name}" for step in self._functions))
            with signs_of_life(lambda: team.is_alive, partial(_touch, health_file)) if health_file else nullcontext():
                run_to_the_end(team, self._messages)
        for error in team.errors:
            raise error
        return dict(zip(self._functions, team.tallies, strict=True))

    def stop(self) -> None:
        """Stop gracefully, as SIGTERM does; from any thread, including a function of the worker. Returns at once.

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
    """Return the number of processes; ValueError if they could not import what they are to run."""
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
