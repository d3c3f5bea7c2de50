"""Polls one step forever.

A poll asks a few shards for their first pending index entry, which says when its task is due. From the first due task,
a scan continues through the other shards, as in a batch. Polls and long scans ask for urgent tasks first. The source
remembers when tasks become due, so waiting for them costs nothing.

It asks less often for failed tasks and expired locks, unless it has seen the task fail, or knows when the shard's next
lock expires.

The index is late with tasks that this process creates or makes due, so it tries them by their ids. While requests fail,
polls become rarer.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_temporary
from pynamodb_tracker.exceptions import DefinitionError, TaskError, TaskFormatError, TaskNotReadyError
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.query.due import LeftBehind
from pynamodb_tracker.work.candidates import ANSWER, Candidates, Next
from pynamodb_tracker.work.source import EARLIEST, FAILURES_IN_A_ROW, NextId, StepSource, StepWork
from pynamodb_tracker.writes.participants import NewlyDue

_INDEX_LAG = timedelta(seconds=1)  # how far the index may lag behind the table
_COOLDOWN = timedelta(seconds=10)  # after a refusal, and doubled each time if the task itself makes requests fail
_LONGEST_COOLDOWN = timedelta(hours=1)
_LEFT_TO_OTHERS = timedelta(minutes=10)
_SHARDS_PER_POLL = 8  # more would delay the first task, so shorter pauses give each shard its turn
_MOST_PER_SCAN = 1000  # tasks, because the order gets out of date
_SCAN_LIFETIME = timedelta(seconds=30)
_RARELY = timedelta(seconds=30)  # between looks for unknown failed tasks and expired locks
_ANNOUNCED_FOR = timedelta(seconds=2)  # how long to try a task by its id, until the index has it
_MOST_ANNOUNCED = 1000  # the index shows any others
_SHORTEST = timedelta(seconds=0.5)  # the first pause, and the most jitter
_STEADY = 0.9  # so that an idle worker polls about as often as its user expects
_LOG_INTERVAL = timedelta(minutes=1)  # between two warnings about an outage
_LATEST = datetime.max.replace(tzinfo=UTC)


class Backoff:
    """Pauses that double until `reset`. `least` is the share of each pause that is not random."""

    def __init__(self, longest: timedelta, *, least: float = 0.5) -> None:
        self._longest = longest
        self._least = least
        self.reset()

    def reset(self) -> None:
        self._next = min(_SHORTEST, self._longest)

    def draw(self) -> timedelta:
        whole, self._next = self._next, min(2 * self._next, self._longest)
        return whole * RANDOM.uniform(self._least, 1)


class Outage:
    def __init__(self, work: StepWork, longest: timedelta) -> None:
        self._work = work
        self._backoff = Backoff(longest)
        self.since: datetime | None = None  # None if the last request was answered
        self._failures = 0
        self._next_log = clock.now()

    def note_failure(self, error: Exception) -> timedelta:
        """Count a failure, log it at most once a minute, and return how long to wait."""
        now, pause = clock.now(), self._backoff.draw()
        self._failures += 1
        since = self.since = self.since or now
        if now >= self._next_log:
            self._next_log = now + _LOG_INTERVAL
            text = "requests about %s have failed %s since %s, the worker keeps trying: %s: %s"
            times = "once" if self._failures == 1 else f"{self._failures} times"
            about = self._work.name, times, since.isoformat(timespec="seconds"), type(error).__name__, error
            trace = None if isinstance(error, PynamoDBException) else error
            log.warning(text, *about, exc_info=trace, extra=self._work.log_fields)
        return pause

    def note_success(self) -> None:
        if self.since is not None:
            text = "requests about %s succeed again, after %d failures"
            log.info(text, self._work.name, self._failures, extra=self._work.log_fields)
            self.since, self._failures = None, 0
            self._backoff.reset()


class Cooldown:
    """Tasks that a worker must not try now, because it runs them or has just tried them."""

    def __init__(self, lag: timedelta = _INDEX_LAG) -> None:
        self._lag = lag
        self._until: dict[str, datetime] = {}
        self._failures: dict[str, int] = {}  # in a row, due to the task
        self._logged: dict[str, datetime] = {}
        self._guard = threading.Lock()

    def begin_run(self, task_id: str) -> None:
        with self._guard:
            self._until[task_id] = _LATEST

    def end_run(self, task_id: str) -> None:
        """Do not try an ended task until the index shows its new state."""
        with self._guard:
            self._failures.pop(task_id, None)
            self._logged.pop(task_id, None)
            self._until[task_id] = clock.now() + self._lag

    def lift(self, task_id: str) -> None:
        with self._guard:
            self._until.pop(task_id, None)

    def ends(self, task_id: str) -> datetime:
        return clock.now() if self.is_over(task_id) else self._until.get(task_id, EARLIEST)

    def note_refusal(self, task_id: str, *, due: datetime | None = None) -> None:
        """Wait about ten seconds after a refusal, or until the task is `due` if that is earlier."""
        now = clock.now()
        until = now + _COOLDOWN * RANDOM.uniform(0.5, 1.5)
        with self._guard:
            self._until[task_id] = due if due is not None and now < due < until else until

    def note_failure(self, task_id: str, *, is_of_this_machine: bool = False) -> None:
        """Do not try a task that cannot start, for longer each time, or for ten minutes if `is_of_this_machine`."""
        with self._guard:
            times = self._failures[task_id] = self._failures.get(task_id, 0) + 1
            pause = min(_COOLDOWN * 2 ** min(times, 20), _LONGEST_COOLDOWN / 2) * RANDOM.uniform(0.5, 1.5)
            self._until[task_id] = clock.now() + (_LEFT_TO_OTHERS if is_of_this_machine else pause)

    def log_level(self, task_id: str) -> int:
        """Return the log level for a task that cannot start: ERROR once an hour."""
        now = clock.now()
        with self._guard:
            last = self._logged.get(task_id)
            if last is not None and last <= now < last + _LONGEST_COOLDOWN:
                return logging.DEBUG
            self._logged[task_id] = now
            return logging.ERROR

    def is_over(self, task_id: str) -> bool:
        """Return whether a task may be tried, even if the clock was set back."""
        now, until = clock.now(), self._until.get(task_id)
        return until is None or until <= now or now + _LONGEST_COOLDOWN < until < _LATEST

    def forget(self, now: datetime) -> None:
        """Forget tasks that may be tried, except if they could not start within the last hour."""
        with self._guard:
            until, begin = self._until, now - _LONGEST_COOLDOWN
            self._failures = {each: times for each, times in self._failures.items() if until.get(each, begin) > begin}
            self._logged = {each: time for each, time in self._logged.items() if time > begin}
            self._until = {each: time for each, time in until.items() if time > now or each in self._failures}


class _Announced(NamedTuple):
    ready_at: datetime
    ends: datetime


class Polling(StepSource):
    def __init__(self, work: StepWork, longest: timedelta, *, threads: int = 1, eager: bool = False) -> None:
        """`longest` is the longest pause. If `eager`, poll again after finding tasks, and always ask for all states."""
        of = self._of = work.of
        self._longest = longest
        self._eager = eager
        self._shards_per_poll = of.shards if eager else min(of.shards, _SHARDS_PER_POLL)
        self.lag = timedelta(0) if of.model.tracker.table.is_in_memory else _INDEX_LAG
        self.cooldown = Cooldown(self.lag)
        is_wanted, patience = self.cooldown.is_over, self._shards_per_poll
        shards: dict[str, Any] = {"shards": of.shards, "lane": of.model.tracker.lane}
        found = Candidates(self._ids_in, **shards, threads=threads, is_wanted=is_wanted, patience=patience)
        super().__init__(work, found)
        self._backoff = Backoff(longest * self._shards_per_poll / of.shards, least=_STEADY)
        self._outage = Outage(work, longest)
        self._is_open = False  # a scan has begun and not ended
        self._scan: Iterator[Next] = iter(())
        self._scan_ends = EARLIEST
        self._lane_at = _LATEST
        self._is_cut = False  # because requests fail
        self._found = 0
        self._poll_at = EARLIEST
        self._busy_shards: set[int] = set()  # the scan found tasks there, and others may become due soon
        self._failures = 0  # of claims, since the last poll that was answered
        self._due_ids: dict[int, Callable[[int | None], Iterator[str]]] = {}  # a reader per shard
        self._abandoned = deque[LeftBehind]()
        self._announced: dict[str, _Announced] = {}  # tasks that this process created or made due
        self._asked_at: dict[tuple[int, int], datetime] = {}  # by shard and state
        self._due_at: dict[tuple[int, int], datetime] = {}  # when the first task is due, by shard and state
        self._known_since = _LATEST  # when the first task is due that became known since the last look
        # By shard: when the index shows the latest failures in this process, and when the first of these tasks is due.
        self._unseen: dict[int, tuple[datetime, datetime]] = {}
        self._extended: dict[int, dict[str, datetime]] = {}  # when extended locks expire, by shard and task

    @property
    def is_idle(self) -> bool:
        """Whether the last poll found nothing to do now, or the step is paused."""
        has_polled = not (self._is_open or self._found or self._announced or self.aside) and self._poll_at > EARLIEST
        return self.pause is not None or (has_polled and self._outage.since is None)

    def poll_now(self) -> None:
        self._poll_at = self.look_at = clock.now()

    @property
    def next_look(self) -> datetime:
        if self._is_cut or self.pause is not None:
            return self.look_at
        return min(self.look_at, self._known_since, *[each.ready_at for each in list(self._announced.values())])

    def _may_have_more(self, now: datetime) -> bool:
        is_pausing = now < self.next_look <= now + self._longest  # not longer if the clock was set back
        return not is_pausing or (self._is_open and not self._is_cut)

    def has_next(self, stopped: threading.Event) -> bool:
        """Return whether there is a task to try. Log an error, which ends the scan."""
        try:
            has_next = super().has_next(stopped)
        except DefinitionError:
            raise
        except Exception as error:  # noqa: BLE001 - a worker keeps trying until it is stopped
            self._cut(self._outage.note_failure(error))
            return False
        if self.pause is not None:
            self._is_open, self._found = False, 0
            self._poll_at = self.look_at = clock.now() + min(_SHORTEST, self._longest)
        return has_next

    def _note_slot_failure(self, error: PynamoDBException, stopped: threading.Event) -> None:  # noqa: ARG002 - as of any source
        self._cut(self._outage.note_failure(error))

    def _put_back(self, task_id: str, is_follow_up: bool) -> None:  # noqa: ARG002, FBT001 - as of any source
        self.cooldown.lift(task_id)
        self.candidates.put_back(task_id)

    def _may_still_run_alone(self) -> bool:
        return self.waits_alone and self._ahead is not None and self._of.is_startable(self._ahead[0])

    def follow_up(self, task: NewlyDue) -> bool:
        """Note a task that is due soon. The index has the others."""
        now, longest = clock.now(), max(self._longest, _ANNOUNCED_FOR)
        ready_at = max(task.due_time, self.cooldown.ends(task.task_id))
        if ready_at > now + longest or self.pause is not None:
            return False
        if self.window.is_careful and (self._eager or self._is_open):  # others are busy here, and the index has it soon
            return False
        if len(self._announced) >= _MOST_ANNOUNCED:
            self.poll_now()
            return True
        self._announced[task.task_id] = _Announced(ready_at, max(now, ready_at) + _ANNOUNCED_FOR)
        return True

    def note_ended(self, attempt: Any) -> None:
        super().note_ended(attempt)
        task_id, error = attempt.task_id, attempt.error
        if attempt.outcome != "refused":
            self.candidates.tried.add(task_id)  # the index may still show it
            self.cooldown.end_run(task_id)
            if attempt.outcome == "failed":
                if self._eager:
                    self.cooldown.lift(task_id)
                self._note_failed(attempt.task)
            self._outage.note_success()
            return
        is_format = type(error) is TaskFormatError
        if is_format or type(error) is TaskError or (isinstance(error, PynamoDBException) and not is_temporary(error)):
            self.cooldown.note_failure(task_id, is_of_this_machine=is_format)
            fields = log_fields(self.work.codes.use_case_id, self.work.codes.step, task_id)
            text = "%s of %r cannot start, so this worker leaves it alone for a while: %s"
            level = self.cooldown.log_level(task_id)
            level = min(level, logging.WARNING) if is_format else level
            log.log(level, text, self.work.name, task_id, error, extra=fields)
        else:
            row = error.task if isinstance(error, TaskNotReadyError) else None  # if it waits again
            self.cooldown.note_refusal(task_id, due=None if row is None else row.due_time)
        if not isinstance(error, PynamoDBException) or is_invalid(error):  # due to the task's row
            self._outage.note_success()
            return
        pause = self._outage.note_failure(error)
        self._failures += 1
        if is_temporary(error) or self._failures >= FAILURES_IN_A_ROW:
            self._cut(pause)

    def _note_failed(self, task: Any) -> None:
        """Look for a failed task once it is due and the index shows it."""
        shard, now = task.tracker.shard_of(task.status_key), clock.now()
        at, shown = (shard, self.work.codes.failed), now if self._eager else now + self.lag
        due = max(task.due_time, shown)
        with self._guard:
            shown_before, first = self._unseen.get(shard, (EARLIEST, due))
            self._unseen[shard] = shown, min(due, first) if now < shown_before else due
            self._due_at[at] = min(due, self._due_at.get(at, due))
            self._known_since = min(due, self._known_since)

    def _next_id(self) -> NextId:
        now, self._known_since = clock.now(), _LATEST
        self._prepare_look(now)
        while self._abandoned:
            if not self.window.may_go:
                return ANSWER
            task_id = self._abandoned.popleft()
            if self.cooldown.is_over(task_id) and task_id not in self.candidates.tried:
                return self._begin(task_id), False
        if self._found < _MOST_PER_SCAN and (found := next(self._scan, None)) is not None:
            if not isinstance(found, str):
                return found
            self._busy_shards.add(self.candidates.shard)
            return self._begin(found), False
        return self._next_announced(now)

    def _prepare_look(self, now: datetime) -> None:
        for task_id, each in list(self._announced.items()):
            if each.ends <= now:  # now the index has it
                self._announced.pop(task_id, None)
                self._poll_at = min(self._poll_at, now)
        if not self._is_open or self._is_cut or now >= self._scan_ends:
            self._poll(now)
            return
        if self.candidates.lane is not None and now >= self._lane_at and self._is_due_in(self.candidates.lane, now):
            self.candidates.open_lane()
        for (shard, code), time in list(self._due_at.items()):
            if code == self.work.codes.in_progress and time <= now:
                self._look_at_locks(shard, now)

    def _next_announced(self, now: datetime) -> NextId:
        for task_id, each in list(self._announced.items()):
            if each.ready_at <= now and self.cooldown.is_over(task_id):
                if not self.window.may_go:
                    return ANSWER
                self._end_look(now)
                return self._begin(task_id, found=0), True
        self._end_look(now)
        return None

    def _begin(self, task_id: str, *, found: int = 1) -> str:
        self._found += found
        self._announced.pop(task_id, None)
        self.cooldown.begin_run(task_id)
        return task_id

    def _poll(self, now: datetime) -> None:
        is_regular = not now < self._poll_at <= now + self._longest
        known = {shard for (shard, _), time in list(self._due_at.items()) if time <= now}
        if is_regular and not self._is_open:
            known |= self._busy_shards
        lane = self.candidates.lane
        first = [lane] if lane is not None and (is_regular or lane in known) else []
        known -= {*first}
        turns = (self.candidates.next_shard() for _ in range(self._shards_per_poll if is_regular else 0))
        self._is_cut = False
        self._scan, self._due_ids = iter(()), {}
        self._scan_ends = now + _SCAN_LIFETIME
        self.cooldown.forget(now)
        # In random order, because many workers may wait for the same moment.
        known_first = chain(first, RANDOM.sample(sorted(known), len(known)))
        for shard in chain(known_first, (shard for shard in turns if shard not in known)):
            if self._is_due_in(shard, now, is_regular=is_regular):
                self._scan = self.candidates.beginning_with(shard)
                break
        self._failures, self._found, self._is_open = 0, 0, True
        self._busy_shards = set()

    def _is_due_in(self, shard: int, now: datetime, *, is_regular: bool = True) -> bool:
        """Return whether a shard has due tasks, and prepare a reader of their ids."""
        if shard == self.candidates.lane:
            self._lane_at = now + self._longest
        else:
            self._look_at_locks(shard, now)
        if codes := self._due_codes(shard, now, is_regular=is_regular):
            self._due_ids[shard] = self._of.due_codes_in(shard, *codes).ids
        return bool(codes)

    def _due_codes(self, shard: int, now: datetime, *, is_regular: bool) -> list[int]:
        """Return the states in which a shard has due tasks, and remember when its next task is due."""
        pending, failed = self.work.codes.pending, self.work.codes.failed
        asks_all = shard in self._busy_shards
        asked = [pending] if asks_all or is_regular or self._due_at.get((shard, pending), _LATEST) <= now else []
        if asks_all or self._is_time(shard, failed, now):
            asked.append(failed)
        first = self._of.due_codes_in(shard, *asked).first() if asked else {}
        for code in asked:
            self._note_asked(shard, code, first.get(code), now)
        return [code for code, time in first.items() if time <= now]

    def _is_time(self, shard: int, code: int, now: datetime) -> bool:
        """Return whether to ask a shard for a state, even if the clock was set back."""
        asked, rarely = self._asked_at.get((shard, code)), _RARELY
        if code == self.work.codes.in_progress:
            # A lock that is taken after this look expires after the next one.
            rarely = min(rarely, self._of.declared.lock_for + self._of.model.tracker.margin)
        is_known = self._due_at.get((shard, code), _LATEST) <= now
        return self._eager or is_known or asked is None or not asked <= now < asked + rarely

    def _note_asked(self, shard: int, code: int, due: datetime | None, now: datetime) -> None:
        """Note when the next task is due, with jitter, because all workers wait for that.

        A task may have failed since the index was asked at `now`, or the index may not show it yet.
        """
        times = [due + _SHORTEST * RANDOM.random()] if due is not None and due > now else []
        with self._guard:
            shown, first = self._unseen.get(shard, (EARLIEST, EARLIEST))
            if code == self.work.codes.failed and now < shown:
                times.append(max(first, shown))
            self._asked_at[shard, code] = now
            self._due_at.pop((shard, code), None)
            if times:
                self._due_at[shard, code] = min(times)

    def _look_at_locks(self, shard: int, now: datetime) -> None:
        """Look for a shard's abandoned tasks if it is time, and remember when its next lock expires."""
        code = self.work.codes.in_progress
        if not self._is_time(shard, code, now):
            return
        found, next_end = self._of.due_codes_in(shard, code).expired_locks(self._extended.setdefault(shard, {}))
        self._abandoned.extend(task_id for task_id in found if task_id not in self._abandoned)
        self._note_asked(shard, code, next_end and max(next_end, now + _SHORTEST), now)

    def _ids_in(self, shard: int, limit: int | None) -> Iterator[str]:
        if shard not in self._due_ids:
            now, codes = clock.now(), self.work.codes
            self._look_at_locks(shard, now)
            self._due_ids[shard] = self._of.due_codes_in(shard, codes.pending, codes.failed).ids
        return self._due_ids[shard](limit)

    def _end_look(self, now: datetime) -> None:
        if self._is_open:
            self._is_open, self._scan = False, iter(())
            if not self._found:
                self._outage.note_success()
            if self._found >= _MOST_PER_SCAN or (self._found and self._eager):
                self._poll_at = now
                self._busy_shards.clear()
            elif self._found or not now < self._poll_at <= now + self._longest:
                if self._found:
                    self._backoff.reset()
                self._poll_at = now + self._backoff.draw()
        self.look_at = min(self._poll_at, *list(self._due_at.values()), _LATEST)

    def _cut(self, pause: timedelta) -> None:
        """End the scan, from any thread, and ask for everything again after the pause."""
        self._asked_at.clear()
        self._poll_at = self.look_at = clock.now() + pause
        self._is_cut = True
