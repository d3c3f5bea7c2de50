"""Who does what next: gives the tasks of several steps to threads, one step after the other, so that none starves."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.worker.cooldown import LAG
from pynamodb_tracker.worker.poller import Backlog

__all__ = ["Dispatcher"]


class Dispatcher:
    """Gives tasks to threads until it is stopped; a thread waits where there is nothing to do."""

    def __init__(self, backlogs: Sequence[Backlog], *, rate: float | None = None, until_idle: bool = False) -> None:
        """`rate` bounds the tasks in a second; `until_idle` stops once there is nothing to do now."""
        self.stopped = threading.Event()
        self._backlogs = list(backlogs)
        self._interval = timedelta(0) if rate is None else timedelta(seconds=1 / rate)
        self._until_idle = until_idle
        self._turn: datetime | None = None
        self._guard = threading.Lock()
        self._waiting: list[threading.Event] = []
        self._under_way = 0
        self._is_anything_new = False

    def take(self) -> tuple[Backlog, str] | None:
        """Return a task to try, and its step, as soon as there is one; None once it is stopped."""
        while not self.stopped.is_set():
            chosen = self._choose()
            if chosen is None:
                clock.sleep(LAG.total_seconds())
                self._look_again()
            elif isinstance(chosen, Backlog):
                task_id = chosen.take()
                self._let_go(chosen, found=task_id is not None)
                if task_id is not None:
                    return chosen, task_id
            else:
                woken, seconds = chosen
                clock.wait(woken, seconds)
                self._forget(woken)
        return None

    def done(self) -> None:
        """Note that a task which was taken has ended."""
        with self._guard:
            self._under_way -= 1
            self._is_anything_new = True
        self._wake_one()

    def stop(self) -> None:
        """Give nothing more."""
        self.stopped.set()
        with self._guard:
            for woken in self._waiting:
                woken.set()

    def _choose(self) -> Backlog | tuple[threading.Event, float] | None:
        """Return the next step in turn that may have a task; where none may, what to wait for, and how long.

        None where all seems to be done, of which the index may not have heard yet.
        """
        with self._guard:
            now = clock.now()
            # A clock that was put back does not make the wait for a turn longer.
            until = self._turn if self._turn is not None and now < self._turn <= now + self._interval else None
            ready = None if until else next((each for each in self._backlogs if each.is_ready(now)), None)
            if ready is not None:
                self._backlogs.remove(ready)
                self._backlogs.append(ready)
                ready.is_taken = True
                ready.turn = self._turn = now + self._interval if self._interval else None
                self._under_way += 1
                return ready
            if self._until_idle and not self._under_way and all(each.is_idle for each in self._backlogs):
                if self._is_anything_new:  # what was done since the last looks may have left something to do
                    self._is_anything_new = False
                    self._under_way += 1
                    return None
                self.stopped.set()
            return self._waiter(now, until)

    def _look_again(self) -> None:
        with self._guard:
            self._under_way -= 1
            for each in self._backlogs:
                each.next_look = clock.now()

    def _waiter(self, now: datetime, until: datetime | None) -> tuple[threading.Event, float]:
        """Return what wakes a thread up, and in how many seconds it does so by itself; holds the guard."""
        if self.stopped.is_set():
            for each in self._waiting:
                each.set()
            return threading.Event(), 0.0
        looks = (each.next_look for each in self._backlogs if not each.is_taken)
        until = until or min(looks, default=None)
        woken = threading.Event()
        self._waiting.append(woken)
        return woken, threading.TIMEOUT_MAX if until is None else (until - now).total_seconds()

    def _let_go(self, backlog: Backlog, *, found: bool) -> None:
        """Let others take from a step, and wake one of them up: it may find the next task, and wake up another one."""
        with self._guard:
            backlog.is_taken = False
            if not found:
                self._under_way -= 1
                if self._turn == backlog.turn:
                    self._turn = None  # a look that found nothing takes none
        self._wake_one()

    def _wake_one(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.pop(0).set()

    def _forget(self, woken: threading.Event) -> None:
        with self._guard:
            if woken in self._waiting:
                self._waiting.remove(woken)
