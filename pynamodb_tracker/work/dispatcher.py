"""The dispatcher: gives threads the next task to try, from any step.

A thread that calls `take` makes three moves:

    _choose         chooses the next step in turn that may have a task, or says how long to wait for one
    _ask_source     asks the step's source for a task, which may send requests
    _return_source  counts the task and gives it out, unless it must not start now

The first and the last one hold a lock, which is never held during a request or a call of user code.
tests/work/search.py goes through all orders of these moves. Each change wakes one waiting thread, which wakes another
if it finds a task. Once nothing is left, all wake up. `takeovers` says which tasks must not start now.
"""

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.retries import NotSentError, is_stopped, may_be_stopped
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.work.source import Given, StepSource
from pynamodb_tracker.work.takeovers import Takeovers
from pynamodb_tracker.writes.participants import NewlyDue

_GLANCE = 1.0  # seconds between two checks for a stop


class Dispatcher:
    """Gives tasks to waiting threads until none is left or it is stopped."""

    def __init__(
        self,
        sources: Sequence[StepSource],
        *,
        limit: int | None = None,
        rate: float | None = None,
        goes_on: Callable[[], bool] | None = None,
        until_idle: bool = False,
    ) -> None:
        """Start at most `limit` tasks, and at most `rate` per second, while `goes_on` returns True before each."""
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
        self._started = 0  # without refused tasks, but with failed requests, which `limit` bounds, too
        self._running = 0
        self._looking = 0
        self._last_look = clock.now()
        self._may_start = False
        self._turn: datetime | None = None  # when the next task may start, if a rate is set
        self._takeovers = Takeovers(sources)
        self._has_ended_any = False  # since all steps seemed to be idle
        for source in sources:
            source.candidates.goes_on = self.goes_on
            if source.work.slots is not None:
                source.work.slots.wakes(self)

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked inside a block. Then it never takes a task."""
        return os.getpid() != self._process

    def goes_on(self) -> bool:
        if self.stopped.is_set() or self._is_closed:
            return False
        return self._goes_on is None or self._may_start or self._goes_on()

    def has_looked_within(self, time: timedelta) -> bool:
        """Return whether a thread has recently asked for a task, waits because of the rate, or is stopped."""
        return self.stopped.is_set() or clock.now() - self._last_look <= time + self._interval

    def take(self) -> Given | None:
        """Wait for a task, or return None once none is left. Raise NotSentError if the block around this is stopped."""
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
            elif (given := self._return_source(source, self._ask_source(source, seconds or 0.0))) is not None:
                return given
        return None

    def _wait(self, woken: threading.Event, seconds: float) -> None:
        if may_be_stopped() or self._goes_on is not None:
            seconds = min(seconds, _GLANCE)
        waits_for_slot = any(source.waits_for_slot for source in self.sources)
        if self._until_idle and not (self._running or self._looking or waits_for_slot):
            clock.sleep_unless(woken, seconds)  # only time helps, such as in an outage, so a stopped clock has to move
        else:
            clock.wait(woken, seconds)
        with self._guard:
            if woken in self._waiting:
                self._waiting.remove(woken)
        if not woken.is_set() and waits_for_slot and not self.goes_on():
            self.close()  # no time is left

    def _choose(self, woken: threading.Event) -> tuple[StepSource | None, float | None]:
        """Take a step that may have a task. Return it with the seconds until its turn.

        If none has, return None and the seconds to wait for `woken`, or None twice if nothing is left.
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
                    if self._takeovers.may_ask(source, self._running, now) and source.is_ready(now):
                        self._order.remove(source)
                        self._order.append(source)
                        source.is_taken = True
                        self._looking += 1
                        return source, self._seconds_until_turn(now) if self._interval else 0.0
            self._waiting.append(woken)
            looks = [source.next_look for source in self._order if not (source.is_taken or source.is_done)]
            if self._takeovers.next_alone is not None and self._running:
                looks.append(self._takeovers.look_again)
            until = min((look for look in looks if look > now), default=None)
            return None, threading.TIMEOUT_MAX if until is None else (until - now).total_seconds()

    def _seconds_until_turn(self, now: datetime) -> float:
        """Return the seconds until the rate lets the next task start, even if the clock was set back."""
        turn = self._turn
        if turn is None or not now < turn <= now + self._interval:
            self._turn = turn = now
        return (turn - now).total_seconds()

    def _ask_source(self, source: StepSource, seconds: float) -> Given | None:
        try:
            if seconds > 0 and source.has_next(self.stopped) and self.goes_on():
                self._may_start = True  # the time is enough for both, and only one thread looks
                while seconds > 0 and not (self.stopped.is_set() or is_stopped()):
                    clock.sleep_unless(self.stopped, min(seconds, _GLANCE))
                    seconds -= _GLANCE
            given = source.next(self.stopped)
            if given is not None and not self.goes_on():
                self.close()
        except BaseException:
            self._return_source(source, None)
            raise
        finally:
            self._may_start = False
        return given

    def _return_source(self, source: StepSource, given: Given | None) -> Given | None:
        """Return a step after asking it, and count its task. Return None if that must not start now."""
        with self._guard:
            source.is_taken = False
            self._looking -= 1
            found = None if self.stopped.is_set() or self._is_closed else given
            if found is not None and self._takeovers.may_start(found, self._running):
                self._count_start(found)
                self._wake_one()
                return found
            begins_to_wait = self._takeovers.set_aside(source, found)
            self._wake_one()
        if given is not None and given.slot is not None:
            given.slot.leave()
        if given is not None and begins_to_wait:
            text = "%s of %r waits until all others have ended, because its last attempt may have killed its worker"
            log.warning(text, source.work.name, given.task_id, extra=source.work.log_fields)
        return None

    def _count_start(self, given: Given) -> None:
        given.source.window.note_sent()
        self._takeovers.note_start(given)
        self._started += 1
        self._running += 1
        if self._interval:
            self._turn = (self._turn or clock.now()) + self._interval

    def try_to_run_alone(self, given: Given) -> bool:
        """If a task is the only one that runs, let nothing start beside it. Return whether it is."""
        with self._guard:
            return self._takeovers.try_to_run_alone(given, self._running)

    def note_answer(self, given: Given, *, lost_to_other: bool) -> None:
        """Note the response to a claim, or that it will not be sent."""
        with self._guard:
            given.source.window.note_answer(
                lost_to_other=None if given.is_follow_up and lost_to_other else lost_to_other
            )
            self._wake_one()

    def note_end(
        self, given: Given, made_due: Sequence[NewlyDue] = (), *, was_refused: bool = False, again_alone: bool = False
    ) -> None:
        with self._guard:
            self._takeovers.note_end(given, was_refused=was_refused, again_alone=again_alone)
            self._running -= 1
            self._started -= was_refused
            self._has_ended_any = True
            for task in made_due:
                self._note_due(task)
            self._wake_one()

    def note_created(self, task: NewlyDue) -> None:
        if not self.is_foreign:
            with self._guard:
                if self._note_due(task):
                    self._wake_one()

    def _note_due(self, task: NewlyDue) -> bool:
        codes = next((codes for codes in task.model.tracker.steps if codes.pending == task.status), None)
        source = None if codes is None else self._by_codes.get(codes)
        return source is not None and source.follow_up(task)

    def stop(self) -> None:
        """Give out no more tasks, and let no attempt begin."""
        self.stopped.set()
        self.wake()

    def close(self) -> None:
        """Give out no more tasks, but let attempts begin."""
        self._is_closed = True
        self.wake()

    def wake(self) -> None:
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

        The index may show an ended task's next step late, so wait and poll again.
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
