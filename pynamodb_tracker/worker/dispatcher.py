"""Distributes the tasks of several steps to threads, one step after the other, so that no step starves."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.worker.poller import INDEX_LAG, StepPoller


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
        self._guard = threading.Lock()
        self._waiting: list[threading.Event] = []
        self._under_way = 0
        """Threads that look for a task or run one."""
        self._has_ended_any = False
        """Whether a task has ended since all steps seemed to be idle."""

    def take(self) -> tuple[StepPoller, str] | None:
        """Return a task to try, and the poller of its step, as soon as there is one; None once it is stopped."""
        while not self.stopped.is_set():
            chosen = self._choose()
            if chosen is None:
                clock.sleep(INDEX_LAG.total_seconds())
                self._poll_all_again()
            elif isinstance(chosen, StepPoller):
                task_id = chosen.take()
                self._put_back(chosen, found=task_id is not None)
                if task_id is not None:
                    return chosen, task_id
            else:
                woken, seconds = chosen
                clock.wait(woken, seconds)
                self._end_wait(woken)
        return None

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

    def _choose(self) -> StepPoller | tuple[threading.Event, float] | None:
        """Return the poller of the next step that may have a task; if none may, what to wait for, and how long.

        Return None if everything seems to be done, but the index may not show yet what the last tasks have become.
        """
        with self._guard:
            now = clock.now()
            # Setting the clock back does not lengthen the wait.
            until = self._turn if self._turn is not None and now < self._turn <= now + self._interval else None
            ready = None if until else next((each for each in self._pollers if each.is_ready(now)), None)
            if ready is not None:
                self._pollers.remove(ready)
                self._pollers.append(ready)
                ready.is_taken = True
                ready.turn = self._turn = now + self._interval if self._interval else None
                self._under_way += 1
                return ready
            if self._until_idle and not self._under_way and all(each.is_idle for each in self._pollers):
                if self._has_ended_any:  # it may have become due for another step since the last polls
                    self._has_ended_any = False
                    self._under_way += 1
                    return None
                self.stopped.set()
            return self._wait_for(now, until)

    def _poll_all_again(self) -> None:
        with self._guard:
            self._under_way -= 1
            for each in self._pollers:
                each.next_poll = clock.now()

    def _wait_for(self, now: datetime, until: datetime | None) -> tuple[threading.Event, float]:
        """Return what wakes this thread, and after how many seconds it wakes by itself; the caller holds the guard."""
        if self.stopped.is_set():
            for each in self._waiting:
                each.set()
            return threading.Event(), 0.0
        polls = (each.next_poll for each in self._pollers if not each.is_taken)
        until = until or min(polls, default=None)
        woken = threading.Event()
        self._waiting.append(woken)
        return woken, threading.TIMEOUT_MAX if until is None else (until - now).total_seconds()

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

    def _end_wait(self, woken: threading.Event) -> None:
        with self._guard:
            if woken in self._waiting:
                self._waiting.remove(woken)
