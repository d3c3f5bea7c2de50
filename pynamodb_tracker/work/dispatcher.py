"""Gives out the next task, from any step. Apart from short pauses, nothing else here waits.

Steps take turns, and one that has to wait is skipped. A look for a task has three moves: `_choose` takes a step,
`StepSource.next` asks it, and `_return_source` returns it. The first and the last are atomic. tests/work/search.py goes
through all orders of these moves.

An abandoned task may have killed its worker. So that it does not take others with it:

- A dead worker's tasks run one at a time. After every eight that have ended, one more runs at the same time.
- A task on its last attempt runs alone: it waits until all others have ended, and none starts beside it.

The lock is never held during a request or a call of user code. Each change wakes one waiting thread, which wakes
another if it finds a task. All wake up once there is nothing left.
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
from pynamodb_tracker.query.due import LeftBehind
from pynamodb_tracker.work.source import Given, StepSource
from pynamodb_tracker.writes.participants import NewlyDue

_LOOK_AGAIN = timedelta(seconds=5)  # whether another worker took the task that waits to run alone
_GLANCE = 1.0  # seconds between two checks for a stop
_ENDED_PER_START = 8  # after so many ends, a dead worker's next task may run beside its others
_MOST_DEAD = 1000  # dead workers to remember


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
        self._dead: set[str] = set()  # workers with abandoned tasks that may not start now
        self._takeovers: dict[str, tuple[int, int]] = {}  # how many of them run, and have ended, by worker
        self._alone: Given | None = None  # the task that runs alone
        self._next_alone: StepSource | None = None  # its next task waits to run alone
        self._look_again = self._last_look
        self._has_ended_any = False  # since all steps seemed to be idle
        for source in sources:
            source.dead = self._dead
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
        if self._next_alone is None or self._alone is not None:
            return self._alone is None
        return source is self._next_alone and (not self._running or now >= self._look_again)

    def _may_start_beside_others(self, given: Given) -> bool:
        if self._alone is not None or self._next_alone not in (None, given.source):
            return False
        left = given.left
        return left is None or not (left.worker in self._dead or (left.is_last and self._running))

    def _seconds_until_turn(self, now: datetime) -> float:
        """Return the seconds until the next task may start, even if the clock was set back."""
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
            waits_alone = False
            if given is not None and not (self.stopped.is_set() or self._is_closed):
                if self._may_start_beside_others(given):
                    self._count_start(source, given)
                    self._wake_one()
                    return given
                source.keep_for_later(
                    given, until_others_end=given.left is not None and given.left.worker in self._dead
                )
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
        source.window.note_sent()
        self._started += 1
        self._running += 1
        if self._interval:
            self._turn = (self._turn or clock.now()) + self._interval
        if self._next_alone is source:
            self._next_alone = None
        if given.left is not None:
            self._note_takeover(given.left.worker, running=1)
            self._alone = given if given.left.is_last else None

    def _note_takeover(self, worker: str, *, running: int, ended: int = 0) -> None:
        if len(self._takeovers) >= _MOST_DEAD and worker not in self._takeovers:
            self._takeovers = {each: counts for each, counts in self._takeovers.items() if counts[0]}
        before = self._takeovers.get(worker, (0, 0))
        self._takeovers[worker] = running, ended = before[0] + running, before[1] + ended
        if running > ended // _ENDED_PER_START:
            self._dead.add(worker)
        else:
            self._dead.discard(worker)

    def try_to_run_alone(self, given: Given) -> bool:
        """If a task is the only one that runs, let nothing start beside it. Return whether it is."""
        with self._guard:
            if self._running == 1:
                self._alone = given
            return self._alone is given

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
            if given.left is not None:
                self._note_takeover(given.left.worker, running=-1, ended=not was_refused)
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
