"""Gives out due tasks: which step is next, when a step is polled again, and when nothing is left to do."""

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.worker.poller import StepPoller


class Dispatcher:
    """Gives tasks to threads until it is stopped; a thread waits while there is nothing to do."""

    def __init__(self, pollers: Sequence[StepPoller], *, rate: float | None = None, until_idle: bool = False) -> None:
        """`rate` limits the tasks per second; with `until_idle` it stops once there is nothing to do now."""
        self.stopped = threading.Event()
        self._pollers = list(pollers)
        self._interval = timedelta(0) if rate is None else timedelta(seconds=1 / rate)
        self._until_idle = until_idle
        self._turn: datetime | None = None
        """Until when no task is started, if a rate is set."""
        self._guard = threading.RLock()
        self._waiting: list[threading.Event] = []
        self._under_way = 0
        """Threads that look for a task or run one."""
        self._has_ended_any = False
        """Whether a task has ended since all steps seemed to be idle."""
        self._last_look = clock.now()

    def take(self) -> tuple[StepPoller, str] | None:
        """Return a task to try, and the poller of its step, as soon as there is one; None once it is stopped."""
        while not self.stopped.is_set():
            self._last_look = clock.now()
            if self._until_idle:
                self._stop_if_idle()
            woken = threading.Event()
            poller, seconds = self._choose(woken)
            if poller is None:
                clock.wait(woken, seconds)
                with self._guard:
                    if woken in self._waiting:
                        self._waiting.remove(woken)
                continue
            task_id = poller.take()
            self._put_back(poller, found=task_id is not None)
            if task_id is not None:
                return poller, task_id
        return None

    def has_looked_within(self, time: timedelta) -> bool:
        """Return whether a thread has asked for a task within that time, or need not because of the rate or a stop."""
        return self.stopped.is_set() or clock.now() - self._last_look <= time + self._interval

    def note_end(self) -> None:
        """Note that a task which was taken has ended."""
        with self._guard:
            self._under_way -= 1
            self._has_ended_any = True
        self._wake_one()

    def stop(self) -> None:
        """Give out no further task."""
        self.stopped.set()
        with self._guard:
            for woken in self._waiting:
                woken.set()

    def _stop_if_idle(self) -> None:
        """Stop if there is nothing to do, and no task has ended since all steps were polled.

        If one has, it may be due for another step, which the index may not show yet: all are polled again after a wait.
        """
        with self._guard:
            now = clock.now()
            if self._under_way or any(each.is_ready(now) or not each.is_idle for each in self._pollers):
                return
            if not self._has_ended_any:
                self.stop()
                return
            self._has_ended_any = False
            self._under_way += 1
        clock.sleep(max(each.cooldown.lag for each in self._pollers).total_seconds())
        with self._guard:
            self._under_way -= 1
            for each in self._pollers:
                each.next_poll = clock.now()

    def _choose(self, woken: threading.Event) -> tuple[StepPoller | None, float]:
        """Return the poller of the next step that may have a task; if none may, for how many seconds to wait.

        The wait ends early when `woken` is set.
        """
        with self._guard:
            now = clock.now()
            if self.stopped.is_set():
                return None, 0.0
            # Setting the clock back does not lengthen the wait.
            until = self._turn if self._turn is not None and now < self._turn <= now + self._interval else None
            ready = None if until else next((each for each in self._pollers if each.is_ready(now)), None)
            if ready is not None:
                self._pollers.remove(ready)
                self._pollers.append(ready)
                ready.is_taken = True
                ready.turn = self._turn = now + self._interval if self._interval else None
                self._under_way += 1
                return ready, 0.0
            self._waiting.append(woken)
            until = until or min((each.next_poll for each in self._pollers if not each.is_taken), default=None)
            return None, threading.TIMEOUT_MAX if until is None else (until - now).total_seconds()

    def _put_back(self, poller: StepPoller, *, found: bool) -> None:
        """Let other threads take from a step, and wake one: it may find the next task, and then wakes another one."""
        with self._guard:
            poller.is_taken = False
            if not found:
                self._under_way -= 1
                if self._turn == poller.turn:
                    self._turn = None  # only a task that was found counts for the rate
        self._wake_one()

    def _wake_one(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.pop(0).set()
