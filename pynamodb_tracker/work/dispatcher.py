"""Gives out the next task of all steps. It is the only place that waits.

Steps take turns, and one that has to wait is skipped. Each look for a task consists of three moves: `_choose` takes a
step, `StepSource.next` asks it, and `_gave` returns it. The first and the last are atomic. tests/search goes through
all orders in which threads may make them.

Some tasks that dead workers have left behind may have killed them. So that they take no others with them:

- Of one dead worker, one task runs at a time.
- If that may kill its last attempt, a task runs alone: it waits until all others have ended, and none starts meanwhile.

The lock is held for arithmetic only, never during a request or a call of user code. Each change wakes one waiting
thread, which wakes another one if it finds a task. All are woken once there is nothing more to give.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.retries import NotSentError, is_stopped, may_be_stopped
from pynamodb_tracker.query.due import LeftBehind
from pynamodb_tracker.work.source import Given, StepSource
from pynamodb_tracker.writes.participants import MadeDue

log = logging.getLogger("pynamodb_tracker")

_LOOK_AGAIN = timedelta(seconds=5)
"""How often to look whether the task that waits to run alone has been taken by another worker."""

_GLANCE = 1.0
"""Seconds after which a wait checks whether it has to end because of the block around this, or of the time left."""


class Dispatcher:
    """Gives tasks to threads until none is left, or until it is stopped. While there is nothing to do, they wait."""

    def __init__(
        self,
        sources: Sequence[StepSource],
        *,
        limit: int | None = None,
        rate: float | None = None,
        goes_on: Callable[[], bool] | None = None,
        until_idle: bool = False,
    ) -> None:
        """Start at most `limit` tasks, at most `rate` per second, and none once `goes_on` returns False.

        `goes_on` is called for each task. With `until_idle`, stop once there is nothing to do now.
        """
        self.sources = sources
        self.stopped = threading.Event()
        self._order = list(sources)
        self._by_codes = {source.work.codes: source for source in sources}
        self._limit = math.inf if limit is None else limit
        self._interval = timedelta(0) if rate is None else timedelta(seconds=1 / rate)
        self._goes_on = goes_on
        self._until_idle = until_idle
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._waiting = deque[threading.Event]()
        self._is_closed = False
        self._started = 0
        """Tasks that were given and not refused. `limit` also bounds failing requests."""
        self._running = 0
        self._looking = 0
        self._last_look = clock.now()
        self._may_start = False  # only one thread looks at a time if a rate is set
        self._turn: datetime | None = None
        """When the next task may start, if a rate is set."""
        self._dead: set[str] = set()
        """The dead workers of which a task runs."""
        self._alone: Given | None = None
        """The task that runs alone."""
        self._next_alone: StepSource | None = None
        """The step whose next task waits to run alone."""
        self._look_again = self._last_look
        self._has_ended_any = False  # since all steps seemed to be idle
        for source in sources:
            source.dead = self._dead
            source.candidates.goes_on = self.goes_on
            if source.work.slots is not None:
                source.work.slots.wakes(self)

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that works, inside a block. It takes no tasks."""
        return os.getpid() != self._process

    def goes_on(self) -> bool:
        """Return whether it is worth looking further for a task."""
        if self.stopped.is_set() or self._is_closed:
            return False
        return self._goes_on is None or self._may_start or self._goes_on()

    def has_looked_within(self, time: timedelta) -> bool:
        """Return whether a thread has asked for a task within that time, is stopped, or waits because of the rate."""
        return self.stopped.is_set() or clock.now() - self._last_look <= time + self._interval

    def take(self) -> Given | None:
        """Wait for a task to try. Return None once there is none left, or after a stop.

        Raises:
            NotSentError: The block around this was stopped.
        """
        while not self.is_foreign:
            if is_stopped():
                raise NotSentError
            self._last_look = clock.now()
            if self._until_idle:
                self._stop_if_idle()
            woken = threading.Event()
            source, seconds = self._choose(woken)
            if source is None:
                if seconds is None:
                    return None
                self._wait(woken, seconds)
            elif (given := self._gave(source, self._asked(source, seconds or 0.0))) is not None:
                return given
        return None

    def _wait(self, woken: threading.Event, seconds: float) -> None:
        if may_be_stopped() or self._goes_on is not None:
            seconds = min(seconds, _GLANCE)
        clock.wait(woken, seconds)
        with self._guard:
            if woken in self._waiting:
                self._waiting.remove(woken)
        if not woken.is_set() and any(source.waits_for_slot for source in self.sources) and not self.goes_on():
            self.close()  # there is no time for a task that would start now

    def _choose(self, woken: threading.Event) -> tuple[StepSource | None, float | None]:
        """Take a step that may have a task, and return it with the seconds until its turn.

        Otherwise return None and for how many seconds to wait for `woken`, or None twice if there is nothing left.
        """
        with self._guard:
            now = clock.now()
            is_busy = bool(self._running or self._looking)
            is_over = not is_busy and (self._started >= self._limit or all(each.is_done for each in self.sources))
            if self.stopped.is_set() or self._is_closed or is_over:
                self._wake_all()
                return None, None
            if self._started + self._looking < self._limit and not (self._interval and self._looking):
                for source in self._order:
                    if self._may_ask(source, now) and source.is_ready(now):
                        self._order.remove(source)
                        self._order.append(source)
                        source.is_taken = True
                        self._looking += 1
                        return source, self._seconds_until_turn(now)
            self._waiting.append(woken)
            looks = [source.next_look for source in self._order if not (source.is_taken or source.is_done)]
            if self._next_alone is not None and self._running:
                looks.append(self._look_again)
            until = min((look for look in looks if look > now), default=None)
            return None, threading.TIMEOUT_MAX if until is None else (until - now).total_seconds()

    def _may_ask(self, source: StepSource, now: datetime) -> bool:
        """Return whether a task of this step may start, as far as tasks that run alone are concerned."""
        if self._next_alone is None or self._alone is not None:
            return self._alone is None
        return source is self._next_alone and (not self._running or now >= self._look_again)

    def _may_start_beside_others(self, given: Given) -> bool:
        if self._alone is not None or self._next_alone not in (None, given.source):
            return False
        left = given.left
        return left is None or not (left.worker in self._dead or (left.is_last and self._running))

    def _seconds_until_turn(self, now: datetime) -> float:
        """Return in how many seconds the next task may start. Setting the clock back does not lengthen that."""
        turn = self._turn
        if turn is None or not now < turn <= now + self._interval:
            self._turn = turn = now
        return (turn - now).total_seconds()

    def _asked(self, source: StepSource, seconds: float) -> Given | None:
        """Ask a step for its next task, after a pause if it is not its turn yet."""
        try:
            if seconds > 0 and source.has_next(self.stopped) and self.goes_on():
                self._may_start = True  # the time left was enough for the pause and the task
                while seconds > 0 and not (self.stopped.is_set() or is_stopped()):
                    clock.sleep_unless(self.stopped, min(seconds, _GLANCE))
                    seconds -= _GLANCE
            given = source.next(self.stopped)
            if given is not None and not self.goes_on():
                self.close()
        except BaseException:
            self._gave(source, None)
            raise
        finally:
            self._may_start = False
        return given

    def _gave(self, source: StepSource, given: Given | None) -> Given | None:
        """Let other threads ask a step, and count its task. Return None if it must not start any more, or not yet."""
        with self._guard:
            source.is_taken = False
            self._looking -= 1
            waits_alone = False
            if given is not None and not (self.stopped.is_set() or self._is_closed):
                if self._may_start_beside_others(given):
                    self._count_start(source, given)
                    self._wake_one()
                    return given
                source.take_back(given, until_others_end=given.left is not None and given.left.worker in self._dead)
                waits_alone = source.waits_alone and self._next_alone is None
            if waits_alone or source is self._next_alone:
                self._next_alone = source if source.waits_alone else None
                self._look_again = clock.now() + _LOOK_AGAIN
            self._wake_one()
        if given is not None and given.slot is not None:
            given.slot.leave()
        if given is not None and waits_alone:
            text = "%s of %r waits until all others have ended, because its last attempt may have killed its worker"
            log.warning(text, source.work.name, given.task_id, extra=source.work.log_fields)
        return None

    def _count_start(self, source: StepSource, given: Given) -> None:
        source.window.sent()
        self._started += 1
        self._running += 1
        if self._interval:
            self._turn = (self._turn or clock.now()) + self._interval
        if self._next_alone is source:
            self._next_alone = None
        if given.left is not None:
            self._dead.add(given.left.worker)
            self._alone = given if given.left.is_last else None

    def runs_alone(self, given: Given) -> bool:
        """Return whether a task that is running may have all for itself. From then on, nothing starts beside it."""
        with self._guard:
            if self._running == 1:
                self._alone = given
            return self._alone is given

    def answered(self, given: Given, *, was_taken: bool) -> None:
        """Note that a claim was answered or will not be sent, and whether another worker had the task first."""
        with self._guard:
            given.source.window.answered(was_taken=None if given.is_follow_up and was_taken else was_taken)
            self._wake_one()

    def ended(
        self, given: Given, made_due: Sequence[MadeDue] = (), *, was_refused: bool = False, again_alone: bool = False
    ) -> None:
        """Note the end of an attempt, whether it was refused or has to run again alone, and which tasks it made due."""
        with self._guard:
            if given.left is not None:
                self._dead.discard(given.left.worker)
            if given is self._alone:
                self._alone = None
            if again_alone:
                given.source.held[LeftBehind(given.task_id, "", is_last=True)] = None
            self._running -= 1
            self._started -= was_refused
            self._has_ended_any = True
            for task in made_due:
                self._note_due(task)
            self._wake_one()

    def note_created(self, task: MadeDue) -> None:
        """Note a task that this process has created."""
        if not self.is_foreign:
            with self._guard:
                if self._note_due(task):
                    self._wake_one()

    def _note_due(self, task: MadeDue) -> bool:
        codes = next((codes for codes in task.model.tracker.steps if codes.pending == task.status), None)
        source = None if codes is None else self._by_codes.get(codes)
        return source is not None and source.follow_up(task)

    def stop(self) -> None:
        """Give out no more tasks. Attempts that are about to begin see that, too."""
        self.stopped.set()
        self.wake()

    def close(self) -> None:
        """Give out no more tasks, and let those run that were given."""
        self._is_closed = True
        self.wake()

    def wake(self) -> None:
        """Let all waiting threads look again, for example because another engine has left a slot."""
        with self._guard:
            self._wake_all()

    def _wake_one(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()

    def _wake_all(self) -> None:
        while self._waiting:
            self._wake_one()

    def _stop_if_idle(self) -> None:
        """Stop if there is nothing to do, and no task has ended since all steps were polled.

        A task that has ended may be due for another step. The index may not show that yet, so wait and poll again.
        """
        with self._guard:
            now = clock.now()
            if self._running or self._looking or any(each.is_ready(now) or not each.is_idle for each in self.sources):
                return
            if not self._has_ended_any:
                self.stopped.set()
                self._wake_all()
                return
            self._has_ended_any = False
            self._looking += 1
        clock.sleep_unless(self.stopped, max(each.lag for each in self.sources).total_seconds())
        with self._guard:
            self._looking -= 1
            for each in self.sources:
                each.poll_now()
