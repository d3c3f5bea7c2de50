"""The work of one process of a worker: the steps, what finds their due tasks, and the attempts that run."""

import threading
import time
from typing import TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.write_batcher import batcher_for
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.worker.attempt import WorkerAttempt
from pynamodb_tracker.worker.dispatcher import Dispatcher
from pynamodb_tracker.worker.poller import StepPoller, Tally
from pynamodb_tracker.worker.settings import WorkerSettings
from pynamodb_tracker.worker.shutdown import print_to_stderr

A = TypeVar("A", bound=WorkerAttempt)

GIVE_BACK_WITHIN = 5.0
"""Seconds that giving tasks back may take: if the network is down, their locks expire instead."""


class Work:
    """What the threads, or the asyncio tasks, of a process share."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._pollers = [
            StepPoller(step, settings.longest_pause, threads=settings.concurrency, eager=settings.until_idle)
            for step, _ in settings.functions
        ]
        self.dispatcher = Dispatcher(self._pollers, rate=settings.rate, until_idle=settings.until_idle)
        self._batcher = batcher_for(settings.concurrency)
        self._running: dict[WorkerAttempt, None] = {}

    @property
    def tallies(self) -> list[Tally]:
        """What became of the tasks, by step."""
        return [poller.tally for poller in self._pollers]

    def begin(self, kind: type[A], poller: StepPoller, task_id: str) -> A:
        """Return a new attempt at a task that the dispatcher has given."""
        settings = self._settings
        stopped, batcher = self.dispatcher.stopped, self._batcher
        attempt = kind(poller, task_id, heartbeat=settings.heartbeat, stopped=stopped, batcher=batcher)
        self._running[attempt] = None
        return attempt

    def end(self, attempt: WorkerAttempt) -> None:
        """Note that an attempt has ended."""
        del self._running[attempt]
        attempt.leave_slot()
        self.dispatcher.note_end()

    @property
    def lost(self) -> int:
        """How many attempts still run although their locks are lost."""
        return sum(attempt.has_lost_lock for attempt in list(self._running))

    def give_back(self) -> None:
        """Release what still runs; each on a thread of its own, because without a network that takes long."""
        helpers = [
            threading.Thread(target=attempt.give_back, args=(GIVE_BACK_WITHIN,), daemon=True)
            for attempt in list(self._running)
        ]
        deadline = time.monotonic() + GIVE_BACK_WITHIN
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join(max(0.0, deadline - time.monotonic()))

    @property
    def has_limits(self) -> bool:
        """Whether any of the steps is within a limit."""
        return any(poller.slots is not None for poller in self._pollers)

    def give_back_slots(self) -> None:
        """Give back at once the slots of limits that no task uses, because no further one is started."""
        for poller in self._pollers:
            if poller.slots is not None:
                poller.slots.give_back()

    def print_status(self, are_busy: str) -> None:
        """Print what runs, and what each step is waiting for; `are_busy` says what is counted."""
        now, running = clock.now(), list(self._running)
        stopping = ", stopping" if self.dispatcher.stopped.is_set() else ""
        lines = [f"worker {this_worker()}: {len(running)} of {self._settings.concurrency} {are_busy}{stopping}"]
        lines += [f"  {attempt}: {(now - attempt.details.start_time).total_seconds():.1f} s" for attempt in running]
        for poller in self._pollers:
            wait = max(0.0, (poller.next_poll - now).total_seconds())
            then = poller.pause or f"next poll {f'in {wait:.1f} s' if wait else 'now'}"
            if poller.waits_for_slot and not poller.pause:
                then = f"{poller.slots}; next look {f'in {wait:.1f} s' if wait else 'now'}"
            lines.append(f"  {poller.name}: {poller.tally}; {then}")
        print_to_stderr("\n".join([*lines, ""]))
