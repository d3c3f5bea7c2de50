"""The threads of one process that run functions: the tasks that they are given, and the attempts that they make."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.write_batcher import batcher_for
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.worker.attempt import Function, WorkerAttempt
from pynamodb_tracker.worker.dispatcher import Dispatcher
from pynamodb_tracker.worker.poller import StepPoller, Tally
from pynamodb_tracker.worker.shutdown import Message, Messages, print_to_stderr
from pynamodb_tracker.worker_name import this_worker

_GIVE_BACK_WITHIN = 5.0
"""Seconds that giving tasks back may take: if the network is down, their locks expire instead."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a process of a worker needs to know; it is sent to other processes."""

    functions: Sequence[tuple[BoundStep[Any], Function]]
    threads: int
    heartbeat: bool
    rate: float | None
    grace: timedelta
    longest_pause: timedelta
    until_idle: bool


class ThreadTeam:
    """The threads; they are daemons, so that a function that hangs does not keep the process from ending."""

    def __init__(self, settings: WorkerSettings, messages: Messages) -> None:
        """`messages` gets ENDED for each thread that has ended, and STOP if a function stops the worker."""
        self.errors: list[BaseException] = []
        self.grace = settings.grace
        longest, eager = settings.longest_pause, settings.until_idle
        self._pollers = [
            StepPoller(step, longest, threads=settings.threads, eager=eager) for step, _ in settings.functions
        ]
        self._functions = dict(settings.functions)
        self._dispatcher = Dispatcher(self._pollers, rate=settings.rate, until_idle=settings.until_idle)
        self._heartbeat = settings.heartbeat
        self._batcher = batcher_for(settings.threads)
        self._messages = messages
        self._running: dict[int, WorkerAttempt] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"pynamodb_tracker worker {number + 1}", daemon=True)
            for number in range(settings.threads)
        ]
        self._ended: list[None] = []

    def start(self) -> None:
        """Start to work."""
        for thread in self._threads:
            thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether all threads have ended."""
        return len(self._ended) == len(self._threads)

    @property
    def tallies(self) -> list[Tally]:
        """What became of the tasks, by step."""
        return [poller.tally for poller in self._pollers]

    def stop(self) -> None:
        """Start no further task."""
        self._dispatcher.stop()

    def cut_short(self) -> None:
        """Give back what still runs; each on a thread of its own, because without a network that takes long."""
        helpers = [
            threading.Thread(target=attempt.give_back, args=(_GIVE_BACK_WITHIN,), daemon=True)
            for attempt in list(self._running.values())
        ]
        deadline = time.monotonic() + _GIVE_BACK_WITHIN
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join(max(0.0, deadline - time.monotonic()))

    def abandon(self) -> None:
        """Leave at once: the tasks that run stay locked until their locks expire."""
        self.stop()

    def print_status(self) -> None:
        """Print what each thread and each step is doing."""
        now, running = clock.now(), list(self._running.values())
        stopping = ", stopping" if self._dispatcher.stopped.is_set() else ""
        lines = [f"worker {this_worker()}: {len(running)} of {len(self._threads)} threads are busy{stopping}"]
        lines += [f"  {attempt}: {(now - attempt.began).total_seconds():.1f} s" for attempt in running]
        for poller in self._pollers:
            wait = max(0.0, (poller.next_poll - now).total_seconds())
            lines.append(f"  {poller.name}: {poller.tally}; next poll {f'in {wait:.1f} s' if wait else 'now'}")
        print_to_stderr("\n".join([*lines, ""]))

    def _work(self) -> None:
        """Run tasks on one thread until there are no more."""
        try:
            while (taken := self._dispatcher.take()) is not None:
                self._try(*taken)
        except BaseException as error:  # noqa: BLE001 - raised again by the worker, once all have ended
            self.errors.append(error)
            self._dispatcher.stop()
            self._messages.put(Message.STOP)
        finally:
            self._ended.append(None)
            self._messages.put(Message.ENDED)

    def _try(self, poller: StepPoller, task_id: str) -> None:
        thread, stopped = threading.get_ident(), self._dispatcher.stopped
        attempt = WorkerAttempt(poller, task_id, heartbeat=self._heartbeat, stopped=stopped, batcher=self._batcher)
        self._running[thread] = attempt
        try:
            attempt.run(self._functions[poller.step])
        finally:
            del self._running[thread]
            self._dispatcher.note_end()
