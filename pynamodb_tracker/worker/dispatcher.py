"""Gives out due tasks: it decides which step is next, when to poll it again, and when nothing is left to do."""

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.worker.poller import StepPoller


class Dispatcher:
    """Gives tasks to threads until it is stopped. A thread waits while there is nothing to do."""

    def __init__(self, pollers: Sequence[StepPoller], *, rate: float | None = None, until_idle: bool = False) -> None:
        """`rate` limits the tasks per second. With `until_idle`, stop once there is nothing to do now."""
        self.stopped = threading.Event()
        self._pollers = list(pollers)
        self._interval = timedelta(0) if rate is None else timedelta(seconds=1 / rate)
        self._until_idle = until_idle
        self._turn: datetime | None = None
        """When the next task may start, if a rate is set."""
        self._guard = threading.RLock()
        self._waiting: list[threading.Event] = []
        self._under_way = 0
        """Threads that look for a task or run one."""
        self._has_ended_any = False  # since all steps seemed to be idle
        self._last_look = clock.now()

    def take(self) -> tuple[StepPoller, str] | None:
        """Wait for a task to try, and return it with its step's poller. Return None once this is stopped."""
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
        """Return whether a thread has asked for a task within that time, is stopped, or waits because of the rate."""
        return self.stopped.is_set() or clock.now() - self._last_look <= time + self._interval

    def note_end(self) -> None:
        """Note that a taken task has ended."""
        with self._guard:
            self._under_way -= 1
            self._has_ended_any = True
        self._wake_one()

    def stop(self) -> None:
        """Give out no more tasks."""
        self.stopped.set()
        with self._guard:
            for woken in self._waiting:
                woken.set()

    def _stop_if_idle(self) -> None:
        """Stop if there is nothing to do, and no task has ended since all steps were polled.

        A task that has ended may be due for another step. The index may not show that yet, so wait and poll again.
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
        """Return the next poller that may have a task, or None and for how many seconds to wait for `woken`."""
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
        """Let other threads take from a step, and wake one. It may find the next task, and then wakes another one."""
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
