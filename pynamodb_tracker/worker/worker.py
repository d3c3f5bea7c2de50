"""The worker: which functions it runs on which steps, and how; from `run` until it is told to stop."""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.arguments import (
    LONGEST,
    check_duration,
    check_flags,
    check_function,
    check_rate,
    check_threads,
    shown,
)
from pynamodb_tracker.dynamodb.error_codes import is_passing
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.worker import parent_pipe
from pynamodb_tracker.worker.attempt import Function
from pynamodb_tracker.worker.shutdown import steer
from pynamodb_tracker.worker.signals import Mailbox, Message
from pynamodb_tracker.worker.tally import Tally
from pynamodb_tracker.worker.thread_team import Crew, Settings

if TYPE_CHECKING:
    from pynamodb_tracker.worker.process_team import Fleet

__all__ = ["Worker"]

log = logging.getLogger("pynamodb_tracker")

_SIGNALS: dict[str, Message | None] = {
    "SIGINT": Message.INTERRUPT,
    "SIGTERM": Message.STOP,
    "SIGUSR1": Message.TELL,
}


class Worker:
    """Keeps running functions on what steps have to do, as `run_all` does once, until it is told to stop.

    `functions` maps steps, of any use cases and tables, to functions of the context; steps take turns. They run on
    `threads` in each of so many `processes`: with more than one, these are spawned, and import the functions and the
    use cases by their names. `heartbeat` is as of `start`, `rate` bounds the starts in a second. When it stops, what
    runs has the time `grace` to end. A task that becomes due meanwhile is found after `longest_pause` at the latest,
    which also bounds what an idle worker costs: 1.5 read units, per shard, each step and time that it looks.
    """

    def __init__(
        self,
        functions: Mapping[BoundStep[Any], Function],
        *,
        threads: int = 1,
        processes: int = 1,
        heartbeat: bool = False,
        rate: float | None = None,
        grace: timedelta = timedelta(seconds=30),
        longest_pause: timedelta = timedelta(seconds=30),
    ) -> None:
        check_flags(heartbeat=heartbeat)
        self._functions = _checked(functions)
        self._processes = _check_processes(processes, self._functions)
        self._options: dict[str, Any] = {
            "threads": check_threads(threads),
            "heartbeat": heartbeat,
            "rate": check_rate("rate", rate),
            "grace": _check_grace(grace),
            "longest_pause": check_duration("longest_pause", longest_pause),
        }
        self._mailbox = Mailbox()
        self._is_stopped = False
        self._entered = threading.Lock()

    def run(self, *, until_idle: bool = False) -> dict[BoundStep[Any], Tally]:
        """Work until `stop`, SIGTERM or SIGINT; return, by step, how many tasks were tried and what became of them.

        Then nothing more is started; what runs has the grace time to end, and is given back after it: its function
        may go on, but nothing of it is recorded, so end the process soon. A second SIGINT is a KeyboardInterrupt at
        once, and leaves what runs to its locks. SIGUSR1 prints to stderr what is being done. Signals are heard where
        this is called in the main thread. With `until_idle` it ends when there is nothing to do now.
        Exceptions of a function are on record with their task; KeyboardInterrupt and SystemExit in one stop the worker
        and leave. Where the first request is refused for a reason that does not pass, that leaves at once; later
        failures of requests are logged and waited for. RuntimeError for a worker that was run before.
        """
        check_flags(until_idle=until_idle)
        settings = Settings(tuple(self._functions.items()), until_idle=until_idle, **self._options)
        if not self._entered.acquire(blocking=False):
            raise RuntimeError("this worker was run before: make another one")
        if self._is_stopped:
            return {step: Tally() for step in self._functions}
        self._look_first()  # signals still do what they did: nothing runs yet, and a look may take minutes
        with self._mailbox.listening(_SIGNALS):
            team = self._team(settings)
            log.info("a worker runs %s", ", ".join(f"{step.model.__name__}.{step.name}" for step in self._functions))
            steer(team, self._mailbox)
        for error in team.errors:
            raise error
        return dict(zip(self._functions, team.tallies, strict=True))

    def stop(self) -> None:
        """Stop in order, as SIGTERM does; from any thread, a function of the worker included. Returns at once.

        A worker that is stopped before it runs starts nothing.
        """
        self._is_stopped = True
        self._mailbox.put(Message.STOP)
        if not self._entered.locked() and parent_pipe.parent.is_of(self._functions):  # of the copy in another process
            parent_pipe.parent.say(Message.STOP)

    def _team(self, settings: Settings) -> Crew | Fleet:
        if self._processes == 1:
            return Crew(settings, self._mailbox.put)
        from pynamodb_tracker.worker.process_team import Fleet  # noqa: PLC0415 - only here are processes needed

        return Fleet(settings, self._processes, self._mailbox.put)

    def _look_first(self) -> None:
        """Raise what would keep each look from being answered: a table that is not there, say."""
        for step in self._functions:
            try:
                step.next_due()
            except PynamoDBException as error:
                if not is_passing(error):
                    raise
                log.warning("%s.%s cannot be looked at yet; the worker goes on: %s", step.model.__name__, step, error)


def _checked(functions: object) -> dict[BoundStep[Any], Function]:
    if not isinstance(functions, Mapping) or not functions:
        raise TypeError(f"a worker takes a function for each step, {{Order.ship: print_label}}, not {shown(functions)}")
    for step, function in functions.items():
        if not isinstance(step, BoundStep):
            raise TypeError(f"{shown(step)} is no step of a use case: write Order.ship")
        check_function(function)
    return dict(functions)


def _check_processes(processes: object, functions: Mapping[BoundStep[Any], Function]) -> int:
    """Return the number of processes; ValueError where others could not import what they are to run."""
    if type(processes) is not int or processes < 1:
        raise ValueError(f"processes is a whole number from 1, not {shown(processes)}")
    if processes > 1:
        try:
            pickle.dumps(tuple(functions.items()))
        except Exception as error:
            raise ValueError(
                f"processes={processes} needs functions and use cases that another process can import, at the top "
                f"level of a module: {error}"
            ) from error
    return processes


def _check_grace(grace: object) -> timedelta:
    if not isinstance(grace, timedelta):
        raise TypeError(f"grace is a timedelta, not {shown(grace)}: write timedelta(seconds=...)")
    if not timedelta(0) <= grace <= LONGEST:
        raise ValueError(f"grace is zero or more and at most {LONGEST.days} days, not {grace!r}")
    return grace
