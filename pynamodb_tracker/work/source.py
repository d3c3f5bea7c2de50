"""Sources of tasks to try: due tasks once over, or given ids. `polling` has one that never ends.

A source returns a task, or says when to ask again. It only pauses briefly, after collisions or failed requests for a
slot. The dispatcher waits, and lets one thread at a time ask a source.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.error_codes import is_temporary
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model.status import Codes
from pynamodb_tracker.query.due import LeftBehind
from pynamodb_tracker.work.candidates import ANSWER, Candidates, Next
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.participants import NewlyDue

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.control.slots import Slot, StepSlots


EARLIEST = datetime.min.replace(tzinfo=UTC)

_STALE = timedelta(seconds=1)  # how long an id may wait for a slot before it is read again
_LONGEST_LOOK = timedelta(seconds=4)  # for a slot, which its holder may hand on to another process
_GLANCE = 0.5  # seconds to pause after a failed request for a slot

FAILURES_IN_A_ROW = 4  # after so many failed claims, the table or a policy is to blame, not a task


class StepWork:
    def __init__(
        self, of: Any, start: Callable[[str], Any], function: Callable[[Any], Any], *, is_named: bool = False
    ) -> None:
        """`of` is the step's definition. A task that a person named ignores the step's pause and limit."""
        self.of = of
        self.codes: Codes = of.codes
        self.name = f"{of.model.__name__}.{of.codes.step}"
        self.start = start
        self.function = function
        self.pause: Callable[[], Pause | None] = (lambda: None) if is_named else of.pause
        self.slots: StepSlots | None = None if is_named else of.slots()
        self.log_fields = log_fields(of.codes.use_case_id, of.codes.step)


class Given(NamedTuple):
    source: "StepSource"
    task_id: str
    slot: "Slot | None"
    is_follow_up: bool  # it does not come from the index
    left: LeftBehind | None = None  # set if a dead worker has left the task behind


NextId = tuple[str, bool] | float | None  # an id and whether it is a follow-up, seconds to pause, or ANSWER


class StepSource:
    """Chooses the next task of one step: checks the pause, finds an id, takes a slot."""

    is_of_due = True  # no task starts before it is due
    is_done = False  # no task is left, unless a run makes one due
    lag = timedelta(0)  # from the table to the index

    def __init__(self, work: StepWork, candidates: Candidates) -> None:
        self.work = work
        self.candidates = candidates
        self.window = candidates.window
        self._counts = Counter[str]()
        self.pause: Pause | None = None  # at the last look
        self.is_taken = False  # by a thread
        self.look_at = EARLIEST  # when to look again if nothing happens before
        self.waits_for_answer = self.waits_for_slot = False
        self._ahead: tuple[str, bool] | None = None  # the next id, and whether it is a follow-up
        self._ahead_since = EARLIEST
        self.aside: dict[str, None] = {}  # tasks that must not start until `is_free` allows it
        self.is_free: Callable[[str], bool] = lambda _: True
        self._is_warned = self._has_waited = False
        self._guard = threading.Lock()

    @property
    def tally(self) -> Tally:
        return Tally(**self._counts, paused=self.pause is not None)

    @property
    def is_idle(self) -> bool:
        return self.is_done

    @property
    def waits_alone(self) -> bool:
        return self._ahead is not None and isinstance(self._ahead[0], LeftBehind) and self._ahead[0].is_last

    def keep_next(self, given: Given) -> None:
        """Keep a task as the next one."""
        self._ahead, self._ahead_since = (given.left or given.task_id, given.is_follow_up), clock.now()

    def poll_now(self) -> None: ...

    @property
    def next_look(self) -> datetime:
        return self.look_at

    def is_ready(self, now: datetime) -> bool:
        """Return whether there may be a task, without a request."""
        if self.is_taken or self.is_done:
            return False
        if self.waits_for_answer:
            return self.window.may_go
        if self.waits_for_slot and self.work.slots is not None:
            return self.work.slots.may_have or now >= self.look_at
        is_free = self.pause is None and self._free is not None
        return self._ahead is not None or is_free or self._may_have_more(now)

    def _may_have_more(self, now: datetime) -> bool:  # noqa: ARG002 - as of any source
        return True

    def has_next(self, stopped: threading.Event) -> bool:
        """Return whether there is a task to try. This may read the index, and pause until `stopped`."""
        self.waits_for_answer = self.waits_for_slot = False
        before, self.pause = self.pause, self.work.pause()
        if self.pause is not before and str(self.pause) != str(before):
            text = f"no more tasks start: {self.pause}" if self.pause else "its pause has ended"
            log.info("%s: %s", self.work.name, text, extra=self.work.log_fields)
        if self._ahead is not None and (
            self.pause is not None
            or (self.is_of_due and clock.now() - self._ahead_since > _STALE and not self._may_still_run_alone())
        ):
            self._put_back(*self._ahead)
            self._ahead = None
        while self.pause is None and self._ahead is None:
            found = self._next_from_aside() or self._next_id()
            if isinstance(found, tuple):
                self._ahead, self._ahead_since = found, clock.now()
                break
            self.waits_for_answer = found == ANSWER
            if found is None or self.waits_for_answer or clock.sleep_unless(stopped, found):
                break
        return self._ahead is not None

    def next(self, stopped: threading.Event) -> Given | None:
        if not self.has_next(stopped) or self._ahead is None:
            return None
        slot, slots = None, self.work.slots
        if slots is not None:
            try:
                slot = slots.take(str(self._ahead[0]))
            except PynamoDBException as error:
                self._note_slot_failure(error, stopped)
                return None
            if slot is None:
                now, look = clock.now(), slots.next_look
                self.waits_for_slot, self.look_at = True, look if look > now else now + _LONGEST_LOOK
                if not self._has_waited:
                    text = "%s waits for a slot: %s, held by %s"
                    log.info(text, self.work.name, slots, slots.holders, extra=self.work.log_fields)
                self._has_waited = True
                return None
        (task_id, is_follow_up), self._ahead = self._ahead, None
        left = task_id if isinstance(task_id, LeftBehind) else None
        return Given(self, str(task_id), slot, is_follow_up, left)

    @property
    def _free(self) -> str | None:
        return next((task for task in list(self.aside) if self.is_free(task)), None)

    def _next_from_aside(self) -> NextId:
        if (task := self._free) is None:
            return None
        if not self.window.may_go:
            return ANSWER
        self.aside.pop(task)
        return task, True

    def _may_still_run_alone(self) -> bool:
        return self.waits_alone

    def _next_id(self) -> NextId:
        raise NotImplementedError

    def _put_back(self, task_id: str, is_follow_up: bool) -> None:  # noqa: FBT001 - as it was found
        raise NotImplementedError

    def follow_up(self, task: NewlyDue) -> bool:
        raise NotImplementedError

    def _note_slot_failure(self, error: PynamoDBException, stopped: threading.Event) -> None:
        """Pause after a temporary failure. Raise any other."""
        if not is_temporary(error):
            raise error
        if not self._is_warned:
            text = "%s cannot take a slot for its limit, and keeps trying: %s"
            log.warning(text, self.work.name, error, extra=self.work.log_fields)
        self._is_warned = True
        clock.sleep_unless(stopped, _GLANCE)

    def note_ended(self, attempt: Any) -> None:
        with self._guard:
            self._counts[attempt.outcome] += 1
            self._counts["postponed"] += attempt.details.postponed


class OnceThrough(StepSource):
    """Tasks that were due when this began, and then tasks that its runs made due, each once.

    Each run reports which tasks it made due, because the index shows them late. Tasks that were created after this
    began wait for the next call, so that this one ends even if its tasks always create others or repeat.
    """

    def __init__(self, work: StepWork, candidates: Candidates) -> None:
        super().__init__(work, candidates)
        self._ids: Iterator[Next] = iter(candidates)
        self._behind = deque[str]()  # tasks that runs made due
        self._began = new_token()  # the `creation` of later tasks is greater
        self._is_exhausted = False

    @property
    def is_done(self) -> bool:  # type: ignore[override]  # no one sets it
        return self.pause is not None or not (self._free is not None or self._may_have_more(EARLIEST))

    def _may_have_more(self, now: datetime) -> bool:  # noqa: ARG002 - as of any source
        return not self._is_exhausted or bool(self._behind) or self._ahead is not None

    def _next_id(self) -> NextId:
        if (found := next(self._ids, None)) is not None:
            return (found, False) if isinstance(found, str) else found
        self._is_exhausted = True
        while self._behind:
            if not self.window.may_go:
                return ANSWER
            task_id = self._behind.popleft()
            if self.candidates.count_in(task_id):
                return task_id, True
        return None

    def _put_back(self, task_id: str, is_follow_up: bool) -> None:  # noqa: FBT001 - as it was found
        self.candidates.put_back(task_id)
        if is_follow_up:
            self._behind.appendleft(task_id)

    def follow_up(self, task: NewlyDue) -> bool:
        """Note a task, unless it is too new or not due yet."""
        is_wanted = self.is_of_due and not self.candidates.selects and self.pause is None
        is_wanted = is_wanted and task.creation < self._began and task.due_time <= clock.now()
        if is_wanted:
            self._behind.append(task.task_id)
        return is_wanted


class GivenIds(OnceThrough):
    """These ids, each once and in this order, whatever other workers do."""

    is_of_due = False

    def __init__(self, work: StepWork, ids: Iterable[str]) -> None:
        super().__init__(work, Candidates(lambda *_: iter(())))
        self._ids = iter(ids)
