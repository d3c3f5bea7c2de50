"""What one step has to do: the next task to try, and when to poll again if there is none.

A poll reads the first index entry of each state of a shard: whether it is due, or when it will be. It goes from shard
to shard, a few of them at most, and stops at the first one that has something due. Then a scan of the due tasks begins
there and goes on with other shards, as in a batch. Tasks that are not due yet cost nothing until then: the poller
remembers for each shard when its first task will be due. While requests fail, the pauses between polls grow.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.batch.batch import Outcome, Tally
from pynamodb_tracker.batch.candidates import Feed
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_temporary
from pynamodb_tracker.exceptions import DefinitionError, TaskError, TaskFormatError, TaskNotReadyError
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.control.slots import Slot

log = logging.getLogger("pynamodb_tracker")

_INDEX_LAG = timedelta(seconds=1)
"""How far the index may be behind the table: a task that was tried is left alone for this long."""

_COOLDOWN = timedelta(seconds=10)
"""About how long a refused task is left alone; doubled each time if a request about the task itself fails."""

_LONGEST_COOLDOWN = timedelta(hours=1)

_SHARDS_PER_POLL = 8
"""A poll of more would take long before its first task. Pauses are shorter instead, so that every shard has its turn
within the longest pause."""

_MOST_PER_SCAN = 1000
"""Tasks that a scan tries at most: after more, its order would be out of date."""

_SCAN_LIFETIME = timedelta(seconds=30)
"""How long a scan is used; also how often tasks that seem abandoned are read, whose locks may have been extended."""

_FAILURES_IN_A_ROW = 4
"""After this many failed claims since the last successful poll, the table is considered unavailable, not a task."""

_SHORTEST = timedelta(seconds=0.5)
"""The first pause; also the time over which workers spread that wait for the same moment."""

_LOG_INTERVAL = timedelta(minutes=1)
"""Between two warnings about the same outage."""

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


class Backoff:
    """A pause that doubles up to the longest one until it is reset, each time with jitter: 50 to 100 % of it."""

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
    """Requests about one step that fail one after the other."""

    def __init__(self, step: str, longest: timedelta, fields: Mapping[str, object]) -> None:
        self._step = step
        self._log_fields = fields
        self._backoff = Backoff(longest)
        self.since: datetime | None = None
        """Since when requests fail; None if the last one was answered."""
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
                "checkpoints" if self._failures == 1 else f"{self._failures} times",
                since.isoformat(timespec="seconds"),
                type(error).__name__,
                error,
                exc_info=None if isinstance(error, PynamoDBException) else error,
                extra=self._log_fields,
            )
        return pause

    def note_success(self) -> None:
        """Note that a request was answered, which ends the outage."""
        if self.since is not None:
            text = "requests about %s succeed again, after %d failures"
            log.info(text, self._step, self._failures, extra=self._log_fields)
            self.since, self._failures = None, 0
            self._backoff.reset()


class Cooldown:
    """The tasks of a step that a worker leaves alone for now: those that it runs, and those that it has just tried."""

    def __init__(self, *, eager: bool = False, lag: timedelta = _INDEX_LAG) -> None:
        """If `eager`, a failed task may be tried again as soon as it is due."""
        self._eager = eager
        self.lag = lag
        """How far the index may be behind the table."""
        self._until: dict[str, datetime] = {}
        self._failures: dict[str, int] = {}
        """How many requests in a row have failed because of the task itself."""
        self._logged: dict[str, datetime] = {}
        """When the log last said that a task cannot be started."""
        self._guard = threading.Lock()

    def begin_run(self, task_id: str) -> None:
        """Leave a task alone until it has ended."""
        with self._guard:
            self._until[task_id] = _LATEST

    def end_run(self, task_id: str, *, failed: bool) -> None:
        """Leave a task alone until the index shows its new state."""
        with self._guard:
            self._failures.pop(task_id, None)
            self._logged.pop(task_id, None)
            if failed and self._eager:
                del self._until[task_id]
            else:
                self._until[task_id] = clock.now() + self.lag

    def note_refusal(self, task_id: str, *, due: datetime | None = None) -> None:
        """Leave a task alone that another worker has, for example; at most until it is `due`, if that is known."""
        now = clock.now()
        until = now + _drawn(_COOLDOWN)
        with self._guard:
            self._until[task_id] = due if due is not None and now < due < until else until

    def note_failure(self, task_id: str) -> None:
        """Leave a task alone that can never be started, longer each time, so that those behind it are tried."""
        with self._guard:
            times = self._failures[task_id] = self._failures.get(task_id, 0) + 1
            self._until[task_id] = clock.now() + _drawn(min(_COOLDOWN * 2 ** min(times, 20), _LONGEST_COOLDOWN / 2))

    def log_level(self, task_id: str) -> int:
        """Return the level at which to log that a task cannot be started: ERROR once an hour, because it is retried."""
        now = clock.now()
        with self._guard:
            last = self._logged.get(task_id)
            if last is not None and last <= now < last + _LONGEST_COOLDOWN:
                return logging.DEBUG
            self._logged[task_id] = now
            return logging.ERROR

    def is_over(self, task_id: str) -> bool:
        """Return whether a task may be tried; setting the clock back does not lengthen the wait."""
        now, until = clock.now(), self._until.get(task_id)
        return until is None or until <= now or now + _LONGEST_COOLDOWN < until < _LATEST

    def forget(self, now: datetime) -> None:
        """Forget the tasks that may be tried; those that cannot be started are remembered for another hour."""
        with self._guard:
            until, begin = self._until, now - _LONGEST_COOLDOWN
            self._failures = {task_id: times for task_id, times in self._failures.items() if until[task_id] > begin}
            self._logged = {task_id: time for task_id, time in self._logged.items() if time > begin}
            self._until = {each: time for each, time in until.items() if time > now or each in self._failures}


def _drawn(time: timedelta) -> timedelta:
    return time * RANDOM.uniform(0.5, 1.5)


class StepPoller:
    """The due tasks of one step; one thread at a time takes from it."""

    def __init__(self, step: BoundStep[Any], longest: timedelta, *, threads: int = 1, eager: bool = False) -> None:
        """`longest` is the longest pause between polls; if `eager`, there is no pause after a poll that found tasks."""
        self.step = step
        self.name = f"{step.model.__name__}.{step.name}"
        self.tally = Tally()
        self.pause: Pause | None = None
        """The pause of the step, as it was known when a task was last looked for."""
        self.is_taken = False
        """Whether a thread is taking from it."""
        self.turn: datetime | None = None
        """If a rate is set: until when it keeps other steps from starting a task."""
        self.next_poll = _EARLIEST
        self._of = step._definition
        self.slots = self._of.slots()
        """Those of the limit that the step is within."""
        self.waits_for_slot = False
        """Whether there was none when a task was last looked for."""
        self._slots: dict[str, Slot] = {}
        """The slots of tasks that were given, until their attempts begin."""
        self._slot: Slot | None = None
        """The slot of the task that is just looked for."""
        self._longest = longest
        self._eager = eager
        self._shards_per_poll = self._of.shards if eager else min(self._of.shards, _SHARDS_PER_POLL)
        self._backoff = Backoff(longest * self._shards_per_poll / self._of.shards)
        self._codes = self._of.codes
        self._log_fields = log_fields(self._codes.use_case_id, self._codes.step)
        self._outage = Outage(self.name, longest, self._log_fields)
        self.cooldown = Cooldown(eager=eager, lag=timedelta(0) if self._of.is_in_memory else _INDEX_LAG)
        """The tasks that are left alone for now."""
        self._guard = threading.Lock()
        self.feed = Feed(
            self._ids_in,
            shards=self._of.shards,
            threads=threads,
            is_wanted=self.cooldown.is_over,
            patience=self._shards_per_poll,
        )
        """Gives the tasks of a scan; it has to learn which claims were answered."""
        self._scan: Iterator[str] | None = None
        """The ids of due tasks that are left to try."""
        self._scan_ends = _EARLIEST
        self._is_cut = False
        """Whether the scan was ended early because requests fail."""
        self._found = 0
        """Tasks that the scan has found."""
        self._drained: set[int] = set()
        """Shards in which the scan has found some: they may have others that are due a little later."""
        self._failures = 0
        """Failed claims since the last poll that was answered."""
        self._due_ids: dict[int, Callable[[int | None], Iterator[str]]] = {}
        """What reads the ids of a shard for the scan, oldest first; the argument is about how many are needed."""
        self._next_due: dict[int, datetime] = {}
        """When the first task of a shard is due, if that was later than its last poll."""
        self._next_takeover: dict[int, datetime] = {}
        """When the tasks of a shard that seem to be abandoned are read again."""

    @property
    def is_idle(self) -> bool:
        """Whether the last poll was answered, and found nothing to do now; or the step is paused."""
        if self.pause is not None:
            return True
        has_polled = self._scan is None and not self._found and self.next_poll > _EARLIEST
        return has_polled and self._outage.since is None

    def is_ready(self, now: datetime) -> bool:
        """Return whether there may be a task."""
        is_pausing = now < self.next_poll <= now + self._longest  # setting the clock back does not lengthen the pause
        is_scanning = self._scan is not None and not self._is_cut
        if self.waits_for_slot and self.slots is not None:
            is_scanning = self.slots.may_have
        return not self.is_taken and (is_scanning or not is_pausing)

    def take(self) -> str | None:
        """Return the id of a task to try; None if there is none now, or requests fail."""
        try:
            self._note_pause(self._of.pause())
            return self._next() if self.pause is None else None
        except DefinitionError:
            raise
        except Exception as error:  # noqa: BLE001 - a worker keeps trying until it is stopped
            self._cut(self._outage.note_failure(error))
            return None
        finally:
            self._leave_slot()

    def _note_pause(self, pause: "Pause | None") -> None:
        """Start nothing while the step is paused, and log when that begins and ends."""
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
        """Note what became of a task."""
        with self._guard:
            numbers: dict[str, Any] = {outcome: 1, "postponed": int(postponed)}
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
            row = error.task if isinstance(error, TaskNotReadyError) else None  # it waits again, since it was found
            self.cooldown.note_refusal(task_id, due=None if row is None else row.due_time)
        self._check_for_outage(error)

    def _check_for_outage(self, error: Exception | None) -> None:
        """End the scan if claims fail because of the table, not because of a value in a task's row."""
        if not isinstance(error, PynamoDBException) or is_invalid(error):
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
        """Take a slot for the next task of the scan; if there is none, look again when there may be one."""
        if self.slots is None:
            return True
        self._slot = self.slots.take()
        self.waits_for_slot = self._slot is None
        if self.waits_for_slot:
            look = self.slots.next_look
            self.next_poll = min(look if look > now else now + _SCAN_LIFETIME, now + self._longest)
        return not self.waits_for_slot

    def _leave_slot(self) -> None:
        """Leave a slot for which there was no task."""
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.leave()

    def slot_of(self, task_id: str) -> "Slot | None":
        """Return the slot that was taken for a task; its attempt leaves it."""
        return self._slots.pop(task_id, None)

    def leave_slots(self) -> None:
        """Leave the slots of tasks that were given, and whose attempts have not begun."""
        for task_id in list(self._slots):
            self.leave_slot(task_id)

    def leave_slot(self, task_id: str) -> None:
        """Leave the slot of a task whose attempt does not begin, if one was taken."""
        if (slot := self.slot_of(task_id)) is not None:
            slot.leave()

    def _poll(self, now: datetime) -> None:
        """Look for a shard that has something due, and begin to scan there."""
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
        """Return the shards whose next task is due by now, or may be known by now; and then a few whose turn it is.

        The first ones are in an order that each worker draws: many may have seen that tasks are due at this moment.
        """
        known = {shard for shard, due in self._next_due.items() if due <= now}
        if self._scan is None:  # it has come to its end: others have not had their turn yet
            known |= self._drained
        return chain(RANDOM.sample(sorted(known), len(known)), self._some_in_turn(known))

    def _some_in_turn(self, polled: Collection[int]) -> Iterator[int]:
        """Yield a few shards whose turn it is, except those that were polled just now."""
        for _ in range(self._shards_per_poll):
            if (shard := self.feed.rotation.next()) not in polled:
                yield shard

    def _due_states(self, shard: int, now: datetime) -> list[State[Any]]:
        """Return the states of a shard that have something to do; keep when it has something else."""
        first = {self._of.states[code]: time for code, time in self._of.due_in(shard).first().items()}
        self._next_due.pop(shard, None)
        if later := [time for time in first.values() if time > now]:
            self._next_due[shard] = min(later)
        due = [state for state, time in first.items() if time <= now]
        if self.step.in_progress in due and not self._may_take_over(shard, now):
            due.remove(self.step.in_progress)
        return due

    def _may_take_over(self, shard: int, now: datetime) -> bool:
        """Return whether to scan in_progress: only once in 30 seconds, because that reads whole rows."""
        if now < self._next_takeover.get(shard, now) <= now + _SCAN_LIFETIME:
            return False
        self._next_takeover[shard] = now + _SCAN_LIFETIME
        return True

    def _ids_in(self, shard: int, limit: int | None) -> Iterator[str]:
        """Yield what is due in a shard; what a scan has read of abandoned tasks is not read again."""
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
        """End the scan, from any thread, and poll again after the pause; also for abandoned tasks that it left."""
        self._next_takeover.clear()
        self.next_poll = clock.now() + pause
        self._is_cut = True


def _is_caused_by_task(error: Exception | None) -> bool:
    """Return whether a task was not started because of what its row contains."""
    is_about_row = type(error) in (TaskError, TaskFormatError)
    return is_about_row or (isinstance(error, PynamoDBException) and not is_temporary(error))
