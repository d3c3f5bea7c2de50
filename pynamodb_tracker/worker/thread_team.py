"""The threads of one process that run functions, and what they are doing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.worker.attempt import Function, WorkerAttempt
from pynamodb_tracker.worker.dispatcher import Dispatcher
from pynamodb_tracker.worker.poller import Backlog
from pynamodb_tracker.worker.signals import Message
from pynamodb_tracker.worker.status_print import say
from pynamodb_tracker.worker.tally import Tally
from pynamodb_tracker.worker_name import this_worker

__all__ = ["Crew", "Settings"]

log = logging.getLogger("pynamodb_tracker")

_GIVE_BACK_WITHIN = 5.0
"""Seconds that giving tasks back may take: where the network is down, their locks end by themselves."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process of a worker is told to do."""

    functions: Sequence[tuple[BoundStep[Any], Function]]
    threads: int
    heartbeat: bool
    rate: float | None
    grace: timedelta
    longest_pause: timedelta
    until_idle: bool


class Crew:
    """The threads; they are daemons, so that a function that hangs does not keep the process from ending."""

    def __init__(self, settings: Settings, tell: Callable[[Message], None]) -> None:
        """`tell` hears of each thread that has ended, and of the order to stop that a function gives."""
        self.errors: list[BaseException] = []
        self.grace = settings.grace
        longest, eager = settings.longest_pause, settings.until_idle
        self._backlogs = [
            Backlog(step, longest, threads=settings.threads, eager=eager) for step, _ in settings.functions
        ]
        self._functions = {id(each): pair[1] for each, pair in zip(self._backlogs, settings.functions, strict=True)}
        self._dispatcher = Dispatcher(self._backlogs, rate=settings.rate, until_idle=settings.until_idle)
        self._heartbeat = settings.heartbeat
        self._tell_all = tell
        self._running: dict[int, WorkerAttempt] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"pynamodb_tracker worker {number + 1}", daemon=True)
            for number in range(settings.threads)
        ]
        self._ended: list[None] = []

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether nothing runs any more."""
        return len(self._ended) == len(self._threads)

    @property
    def busy(self) -> int:
        """How many tasks run."""
        return len(self._running)

    @property
    def tallies(self) -> list[Tally]:
        """What became of the tasks, by step."""
        return [backlog.tally for backlog in self._backlogs]

    def stop(self) -> None:
        """Begin nothing more."""
        self._dispatcher.stop()

    def cut_short(self) -> None:
        """Give back what still runs; each on a thread of its own, for where nobody answers that may take long."""
        helpers = [
            threading.Thread(target=_give_back, args=(attempt,), daemon=True)
            for attempt in list(self._running.values())
        ]
        deadline = time.monotonic() + _GIVE_BACK_WITHIN
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join(max(0.0, deadline - time.monotonic()))

    def abandon(self) -> None:
        """Leave at once: the locks of what runs end by themselves."""
        self.stop()

    def tell(self) -> None:
        """Print what it is doing."""
        say("\n".join([*self._told(), ""]))

    def _told(self) -> list[str]:
        now, running = clock.now(), list(self._running.values())
        stopping = ", stopping" if self._dispatcher.stopped.is_set() else ""
        lines = [f"worker {this_worker()}: {len(running)} of {len(self._threads)} threads are busy{stopping}"]
        lines += [f"  {attempt}: {(now - attempt.since).total_seconds():.1f} s" for attempt in running]
        for backlog in self._backlogs:
            wait = max(0.0, (backlog.next_look - now).total_seconds())
            lines.append(f"  {backlog.name}: {backlog.tally}; looks again {f'in {wait:.1f} s' if wait else 'now'}")
        return lines

    def _work(self) -> None:
        """Do what one thread does."""
        try:
            while (taken := self._dispatcher.take()) is not None:
                self._try(*taken)
        except BaseException as error:  # noqa: BLE001 - raised again by the worker, once all have ended
            self.errors.append(error)
            self._dispatcher.stop()
            self._tell_all(Message.STOP)
        finally:
            self._ended.append(None)
            self._tell_all(Message.ENDED)

    def _try(self, backlog: Backlog, task_id: str) -> None:
        here = threading.get_ident()
        self._running[here] = attempt = WorkerAttempt(
            backlog, task_id, heartbeat=self._heartbeat, stopped=self._dispatcher.stopped
        )
        try:
            attempt.run(self._functions[id(backlog)])
        finally:
            del self._running[here]
            self._dispatcher.done()


def _give_back(attempt: WorkerAttempt) -> None:
    match attempt.give_back(_GIVE_BACK_WITHIN):
        case "given back":
            log.warning("%s still ran when the grace time was over: it was given back", attempt)
        case "locked":
            log.error("%s still ran when the grace time was over: it is locked until its lock ends", attempt)
        case "ended":
            pass
