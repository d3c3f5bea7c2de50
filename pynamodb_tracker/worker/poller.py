"""Finds the due tasks of one step: the next task to try, and when to poll again if there is none.

A poll reads the first index entry of each state of a shard, which says whether a task is due, or when. It asks a few
shards, and stops at the first one with a due task. A scan of due tasks begins there and continues with other shards,
as in a batch. Tasks that are not due yet cost nothing: the poller remembers per shard when the first one will be due.
While requests fail, the pauses between polls grow.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_temporary
from pynamodb_tracker.exceptions import DefinitionError, TaskError, TaskFormatError, TaskNotReadyError
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.work.candidates import Feed
from pynamodb_tracker.work.outcomes import Outcome, Tally

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.control.slots import Slot

log = logging.getLogger("pynamodb_tracker")

_INDEX_LAG = timedelta(seconds=1)
"""How far the index may be behind the table. The worker does not retry a task for this long."""

_COOLDOWN = timedelta(seconds=10)
"""About how long to wait after a refusal. Doubled each time if a request fails because of the task itself."""

_LONGEST_COOLDOWN = timedelta(hours=1)

_SHARDS_PER_POLL = 8
"""More would delay the first task. Instead, pauses are shorter, so each shard has its turn in the longest pause."""

_MOST_PER_SCAN = 1000
"""The most tasks that a scan tries, because its order gets out of date."""

_SCAN_LIFETIME = timedelta(seconds=30)
"""How long to use a scan, and how often to read tasks that seem abandoned: their locks may have been extended."""

_FAILURES_IN_A_ROW = 4
"""After this many failed claims since the last successful poll, we blame the table, not a task."""

_SHORTEST = timedelta(seconds=0.5)
"""The first pause, and the time over which workers spread that wait for the same moment."""

_LOG_INTERVAL = timedelta(minutes=1)
"""Between two warnings about the same outage."""

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


class Backoff:
    """A pause that doubles up to the longest one until it is reset. Jitter makes it 50 to 100 % as long."""

    def __init__(self, longest: timedelta) -> None:
        self._longest = longest
        self._first = min(_SHORTEST, longest)
        self._next = self._first

    def reset(self) -> None:
        """Start again with the first pause."""
        self._next = self._first

    def draw(self) -> timedelta:
        """Return the next pause."""
        whole, self._next = self._next, min(2 * self._next, self._longest)
        return whole * RANDOM.uniform(0.5, 1)


class Outage:
    """Requests about one step that fail in a row."""

    def __init__(self, step: str, longest: timedelta, fields: Mapping[str, object]) -> None:
        self._step = step
        self._log_fields = fields
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
            log.warning(
                "requests about %s have failed %s since %s; the worker keeps trying: %s: %s",
                self._step,
                "once" if self._failures == 1 else f"{self._failures} times",
                since.isoformat(timespec="seconds"),
                type(error).__name__,
                error,
                exc_info=None if isinstance(error, PynamoDBException) else error,
                extra=self._log_fields,
            )
        return pause

    def note_success(self) -> None:
        """End the outage, because a request was answered."""
        if self.since is not None:
            text = "requests about %s succeed again, after %d failures"
            log.info(text, self._step, self._failures, extra=self._log_fields)
            self.since, self._failures = None, 0
            self._backoff.reset()


class Cooldown:
    """The tasks of a step that a worker must not try now, because it runs them or has just tried them."""

    def __init__(self, *, eager: bool = False, lag: timedelta = _INDEX_LAG) -> None:
        """If `eager`, a failed task may be tried again as soon as it is due."""
        self._eager = eager
        self.lag = lag
        self._until: dict[str, datetime] = {}
        self._failures: dict[str, int] = {}
        """How many requests in a row failed because of the task itself."""
        self._logged: dict[str, datetime] = {}
        """When the log last said that a task cannot be started."""
        self._guard = threading.Lock()

    def begin_run(self, task_id: str) -> None:
        """Do not try a task until it has ended."""
        with self._guard:
            self._until[task_id] = _LATEST

    def end_run(self, task_id: str, *, failed: bool) -> None:
        """Do not try a task until the index shows its new state."""
        with self._guard:
            self._failures.pop(task_id, None)
            self._logged.pop(task_id, None)
            if failed and self._eager:
                del self._until[task_id]
            else:
                self._until[task_id] = clock.now() + self.lag

    def note_refusal(self, task_id: str, *, due: datetime | None = None) -> None:
        """Do not try a refused task for about ten seconds, or until it is `due` if that is earlier."""
        now = clock.now()
        until = now + _drawn(_COOLDOWN)
        with self._guard:
            self._until[task_id] = due if due is not None and now < due < until else until

    def note_failure(self, task_id: str) -> None:
        """Do not try a task that can never start, longer each time, so that others get their turn."""
        with self._guard:
            times = self._failures[task_id] = self._failures.get(task_id, 0) + 1
            self._until[task_id] = clock.now() + _drawn(min(_COOLDOWN * 2 ** min(times, 20), _LONGEST_COOLDOWN / 2))

    def log_level(self, task_id: str) -> int:
        """Return the log level for a task that cannot be started: ERROR once an hour, because it is retried."""
        now = clock.now()
        with self._guard:
            last = self._logged.get(task_id)
            if last is not None and last <= now < last + _LONGEST_COOLDOWN:
                return logging.DEBUG
            self._logged[task_id] = now
            return logging.ERROR

    def is_over(self, task_id: str) -> bool:
        """Return whether a task may be tried. Setting the clock back does not lengthen the wait."""
        now, until = clock.now(), self._until.get(task_id)
        return until is None or until <= now or now + _LONGEST_COOLDOWN < until < _LATEST

    def forget(self, now: datetime) -> None:
        """Forget the tasks that may be tried, but remember those that cannot be started for an hour."""
        with self._guard:
            until, begin = self._until, now - _LONGEST_COOLDOWN
            self._failures = {task_id: times for task_id, times in self._failures.items() if until[task_id] > begin}
            self._logged = {task_id: time for task_id, time in self._logged.items() if time > begin}
            self._until = {each: time for each, time in until.items() if time > now or each in self._failures}


def _drawn(time: timedelta) -> timedelta:
    return time * RANDOM.uniform(0.5, 1.5)


class StepPoller:
    """The due tasks of one step. One thread at a time takes from it."""

    def __init__(self, step: BoundStep[Any], longest: timedelta, *, threads: int = 1, eager: bool = False) -> None:
        """`longest` is the longest pause between polls. If `eager`, poll again at once after finding tasks."""
        self.step = step
        self.name = f"{step.model.__name__}.{step.name}"
        self.tally = Tally()
        self.pause: Pause | None = None
        """The pause of the step, as of the last look for a task."""
        self.is_taken = False  # by a thread
        self.turn: datetime | None = None
        """Until when it keeps other steps from starting a task, if a rate is set."""
        self.next_poll = _EARLIEST
        self._of = step._definition
        self.slots = self._of.slots()  # of the limit that the step is within
        self.waits_for_slot = False
        self._slots: dict[str, Slot] = {}
        """The slots of tasks whose attempts have not begun."""
        self._slot: Slot | None = None  # for the next task
        self._longest = longest
        self._eager = eager
        self._shards_per_poll = self._of.shards if eager else min(self._of.shards, _SHARDS_PER_POLL)
        self._backoff = Backoff(longest * self._shards_per_poll / self._of.shards)
        self._codes = self._of.codes
        self._log_fields = log_fields(self._codes.use_case_id, self._codes.step)
        self._outage = Outage(self.name, longest, self._log_fields)
        self.cooldown = Cooldown(eager=eager, lag=timedelta(0) if self._of.is_in_memory else _INDEX_LAG)
        self._guard = threading.Lock()
        self.feed = Feed(
            self._ids_in,
            shards=self._of.shards,
            threads=threads,
            is_wanted=self.cooldown.is_over,
            patience=self._shards_per_poll,
        )
        """Gives the tasks of a scan, and must learn which claims were answered."""
        self._scan: Iterator[str] | None = None
        """The ids of due tasks to try."""
        self._scan_ends = _EARLIEST
        self._is_cut = False  # because requests fail
        self._found = 0
        self._drained: set[int] = set()
        """Shards in which the scan has found tasks. They may have others that are due a little later."""
        self._failures = 0  # of claims, since the last poll that was answered
        self._due_ids: dict[int, Callable[[int | None], Iterator[str]]] = {}
        """Readers of a shard's ids for the scan, oldest first. The argument is about how many are needed."""
        self._next_due: dict[int, datetime] = {}
        """When a shard's first task is due, if that was later than its last poll."""
        self._next_takeover: dict[int, datetime] = {}
        """When to read a shard's apparently abandoned tasks again."""

    @property
    def is_idle(self) -> bool:
        """Whether the last poll was answered and found nothing to do now, or the step is paused."""
        has_polled = self._scan is None and not self._found and self.next_poll > _EARLIEST
        return self.pause is not None or (has_polled and self._outage.since is None)

    def is_ready(self, now: datetime) -> bool:
        """Return whether there may be a task."""
        is_pausing = now < self.next_poll <= now + self._longest  # setting the clock back does not lengthen the pause
        is_scanning = self._scan is not None and not self._is_cut
        if self.waits_for_slot and self.slots is not None:
            is_scanning = self.slots.may_have
        return not self.is_taken and (is_scanning or not is_pausing)

    def take(self) -> str | None:
        """Return the id of a task to try, or None if there is none now or requests fail."""
        try:
            self._note_pause(self._of.pause())
            return self._next() if self.pause is None else None
        except DefinitionError:
            raise
        except Exception as error:  # noqa: BLE001 - a worker keeps trying until it is stopped
            self._cut(self._outage.note_failure(error))
            return None
        finally:  # leave a slot for which there was no task
            slot, self._slot = self._slot, None
            if slot is not None:
                slot.leave()

    def _note_pause(self, pause: "Pause | None") -> None:
        """Start no tasks while the step is paused, and log when a pause begins and ends."""
        before, self.pause = self.pause, pause
        if pause is not None:
            self._scan, self._found, self.next_poll = None, 0, clock.now() + min(_SHORTEST, self._longest)
            self.waits_for_slot = False
        if str(pause) != str(before):
            text = f"the worker starts no more tasks of it: {pause}" if pause else "its pause has ended"
            log.info("%s: %s", self.name, text, extra=self._log_fields)

    def note_end(
        self,
        task_id: str,
        outcome: Outcome,
        error: Exception | None,
        *,
        postponed: bool = False,
    ) -> None:
        """Count the outcome of a task, and set when it may be tried again."""
        numbers: dict[str, Any] = {outcome: 1, "postponed": int(postponed)}
        with self._guard:
            self.tally += Tally(**numbers)
        if outcome != "refused":
            self.cooldown.end_run(task_id, failed=outcome == "failed")
            self._outage.note_success()
            return
        if _is_caused_by_task(error):
            self.cooldown.note_failure(task_id)
            fields = log_fields(self._codes.use_case_id, self._codes.step, task_id)
            text = "%s of %r cannot be started, and is left alone for a while: %s"
            log.log(self.cooldown.log_level(task_id), text, self.name, task_id, error, extra=fields)
        else:
            row = error.task if isinstance(error, TaskNotReadyError) else None  # if it waits again
            self.cooldown.note_refusal(task_id, due=None if row is None else row.due_time)
        if not isinstance(error, PynamoDBException) or is_invalid(error):  # because of a value in the task's row
            self._outage.note_success()
            return
        pause = self._outage.note_failure(error)
        self._failures += 1
        if is_temporary(error) or self._failures >= _FAILURES_IN_A_ROW:
            self._cut(pause)

    def _next(self) -> str | None:
        now = clock.now()
        if self._scan is None or self._is_cut or now >= self._scan_ends:
            self._poll(now)
        if self._scan is not None and not self._has_slot(now):
            return None
        for task_id in self._scan or ():
            self._found += 1
            self._drained.add(self.feed.rotation.current)
            self.cooldown.begin_run(task_id)
            if self._slot is not None:
                self._slots[task_id], self._slot = self._slot, None
            return task_id
        self._end_scan(now)
        if not self._found:
            self._outage.note_success()
        return None

    def _has_slot(self, now: datetime) -> bool:
        """Take a slot for the next task of the scan. If there is none, look again when there may be one."""
        if self.slots is None:
            return True
        self._slot = self.slots.take()
        self.waits_for_slot = self._slot is None
        if self.waits_for_slot:
            look = self.slots.next_look
            self.next_poll = min(look if look > now else now + _SCAN_LIFETIME, now + self._longest)
        return not self.waits_for_slot

    def slot_of(self, task_id: str) -> "Slot | None":
        """Return the slot for a task. Its attempt leaves it."""
        return self._slots.pop(task_id, None)

    def leave_slots(self) -> None:
        """Leave the slots of tasks whose attempts have not begun."""
        for task_id in list(self._slots):
            self.leave_slot(task_id)

    def leave_slot(self, task_id: str) -> None:
        """Leave the slot for a task whose attempt does not begin, if there is one."""
        if (slot := self.slot_of(task_id)) is not None:
            slot.leave()

    def _poll(self, now: datetime) -> None:
        """Look for a shard with a due task, and begin to scan there."""
        shards = self._shards_to_poll(now)
        self._is_cut = False
        self._scan, self._due_ids, self._found, self._drained = None, {}, 0, set()
        self._scan_ends = now + _SCAN_LIFETIME
        self.cooldown.forget(now)
        for shard in shards:
            if states := self._due_states(shard, now):
                self._due_ids[shard] = self._of.due_in(shard, only=states).ids
                self._scan = islice(self.feed.beginning_with(shard), _MOST_PER_SCAN)
                break
        self._failures = 0

    def _shards_to_poll(self, now: datetime) -> Iterator[int]:
        """Return the shards that have or may have a due task, and then a few whose turn it is.

        The first ones are in random order, because many workers may wait for the same moment.
        """
        known = {shard for shard, due in self._next_due.items() if due <= now}
        if self._scan is None:  # it has come to its end: others have not had their turn yet
            known |= self._drained
        turns = (self.feed.rotation.next() for _ in range(self._shards_per_poll))
        return chain(RANDOM.sample(sorted(known), len(known)), (shard for shard in turns if shard not in known))

    def _due_states(self, shard: int, now: datetime) -> list[State[Any]]:
        """Return the states of a shard that have due tasks, and remember when its next task is due."""
        first = {self._of.states[code]: time for code, time in self._of.due_in(shard).first().items()}
        self._next_due.pop(shard, None)
        if later := [time for time in first.values() if time > now]:
            self._next_due[shard] = min(later)
        due = [state for state, time in first.items() if time <= now]
        if self.step.in_progress in due and not self._may_take_over(shard, now):
            due.remove(self.step.in_progress)
        return due

    def _may_take_over(self, shard: int, now: datetime) -> bool:
        """Return whether to scan in_progress: once in 30 seconds, because that reads whole rows."""
        if now < self._next_takeover.get(shard, now) <= now + _SCAN_LIFETIME:
            return False
        self._next_takeover[shard] = now + _SCAN_LIFETIME
        return True

    def _ids_in(self, shard: int, limit: int | None) -> Iterator[str]:
        """Return the due ids of a shard. Do not read abandoned tasks again that the scan has read."""
        if shard not in self._due_ids:
            states = [self.step.pending, self.step.failed]
            if self._may_take_over(shard, clock.now()):
                states.append(self.step.in_progress)
            self._due_ids[shard] = self._of.due_in(shard, only=states).ids
        return self._due_ids[shard](limit)

    def _end_scan(self, now: datetime) -> None:
        """End a scan, and set when to poll again."""
        self._scan, self.waits_for_slot = None, False
        if self._found >= _MOST_PER_SCAN or (self._found and self._eager):
            self.next_poll = now
            self._next_takeover.clear()
            self._drained.clear()
            return
        if self._found:
            self._backoff.reset()
        pause = self._backoff.draw()
        if self._next_due:  # with jitter, because all workers wait for that time
            until_due = min(self._next_due.values()) - now + _SHORTEST * RANDOM.random()
            pause = min(pause, max(until_due, timedelta(0)))
        self.next_poll = now + pause

    def _cut(self, pause: timedelta) -> None:
        """End the scan, from any thread, and poll again after the pause, also for abandoned tasks."""
        self._next_takeover.clear()
        self.next_poll = clock.now() + pause
        self._is_cut = True


def _is_caused_by_task(error: Exception | None) -> bool:
    """Return whether a task could not start because of its row."""
    is_about_row = type(error) in (TaskError, TaskFormatError)
    return is_about_row or (isinstance(error, PynamoDBException) and not is_temporary(error))
