"""A process's slots of limits. A task takes a slot, and leaves it to the next task of this process.

    taken ---- in use ---- idle ---- in use ---- ... ---- idle for a second, or wanted by others: given back
       `------- renewed whenever a third of its lifetime has passed -------'

While there are slots, one thread renews them and another gives them back, so that nothing delays a renewal. Nobody
waits for a slot while using one, so no two tasks can wait for each other.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

from pynamodb_tracker import clock
from pynamodb_tracker.control.limit import LIFETIME, WITHIN, ConcurrencyLimit, SlotTable, StoredSlot, Taken
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.dynamodb.forking import in_forked_process
from pynamodb_tracker.dynamodb.retries import deadline, ending_by, is_stopped
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.exceptions import ConcurrencyLimitReachedError, NestedConcurrencyLimitError
from pynamodb_tracker.instrumentation import RunDetails, log
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.schema import Table
from pynamodb_tracker.model.worker_name import this_worker

IDLE_FOR = timedelta(seconds=1)

USED_FOR = LIFETIME / 3
"""After that, a slot goes to others that want it when its task ends. It is also the renewal interval."""

LOOK_EVERY = timedelta(seconds=2)  # the average time between two looks for a free slot

_LOOKED_AT = 25

_GLANCE = 0.25  # seconds between two checks of which slots to renew or give back

_PAUSE = 0.7  # the average seconds between two looks for a slot in a call that waits

_IN_A_ROW = 3  # renewals per thread, so that slow ones still end within a third of LIFETIME

_NAMED = 5

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

_used_by_block: ContextVar[Sequence[LimitSlots]] = ContextVar("pynamodb_tracker_slots", default=())
"""The limits that this context's block has slots of. It is empty after the block, even in copied contexts."""


class Waiting(Protocol):
    def wake(self) -> None: ...


class _Waiter(threading.Event):
    wake = threading.Event.set


class Slot:
    def __init__(self, slots: LimitSlots, stored: StoredSlot, user: str) -> None:
        self.number = stored.number
        self.token = stored.lock
        self.until = stored.until or _LONG_AGO
        self.is_wanted = False  # whether others were waiting at the last renewal
        self.user: str | None = user  # the task that uses it, for logs, or None while it is idle
        self.run: RunDetails | None = None
        self.since = clock.now()
        self._slots = slots
        self._taken = self.since
        self._process = os.getpid()
        self._used = list[LimitSlots]()
        self._before: Sequence[LimitSlots] = ()

    @property
    def is_held(self) -> bool:
        """Whether this process still has it. A run checks this immediately before its block."""
        return clock.now() < self.until

    @property
    def is_due_elsewhere(self) -> bool:
        """Whether somebody is waiting and it was used for long enough."""
        return self.is_wanted and not self._taken <= clock.now() < self._taken + USED_FOR

    def begin_use(self) -> None:
        """Note that the block that begins in this context uses it."""
        self._before = _used_by_block.get()
        _used_by_block.set(self._used)
        self._used.append(self._slots)

    def end_use(self) -> None:
        """Note that its block has ended, perhaps in another context."""
        self._used.clear()
        if _used_by_block.get() is self._used:
            _used_by_block.set(self._before)

    def leave(self) -> None:
        """Leave it to the next task of this process. A forked process has none to leave."""
        if os.getpid() == self._process:
            self._slots.leave(self)

    def give_back(self) -> None:
        """Give it back in a request. A forked process has none to give back."""
        if os.getpid() == self._process:
            self._slots.give_back_now(self)


class LimitSlots:
    def __init__(self, table: SlotTable) -> None:
        self.table = table
        self.next_look = _LONG_AGO  # the earliest time for the next request
        self.waiting: WeakSet[Waiting] = WeakSet()
        self._mine: dict[int, Slot] = {}
        self._guard = threading.Lock()
        self._looking = threading.Lock()
        self._was_full = False
        self._others: list[str] = []
        self._asked: StoredSlot | None = None

    def take(self, limit: ConcurrencyLimit, user: str, *, looks_now: bool = False) -> Slot | None:
        """Take a slot, if there is one. `looks_now` reads the table even right after the last look."""
        if (slot := self._use_idle(limit, user)) is not None:
            return slot
        with self._looking:
            slot = self._use_idle(limit, user)
            return self._take_free(limit, user) if slot is None and (looks_now or self._can_look(limit)) else slot

    def take_within(self, limit: ConcurrencyLimit, user: str, wait: timedelta) -> Slot | None:
        waiter, end = _Waiter(), min(clock.now() + wait, deadline() or clock.NEVER)
        self.wake_also(waiter)
        while True:
            waiter.clear()
            slot, left = self.take(limit, user, looks_now=True), (end - clock.now()).total_seconds()
            if slot is not None or left <= 0 or is_stopped():
                return slot
            clock.sleep_unless(waiter, min(left, _PAUSE * RANDOM.uniform(0.5, 1.5)))

    def may_have(self, limit: ConcurrencyLimit) -> bool:
        """Return whether trying to take a slot could succeed. This sends no request."""
        with self._guard:
            return self._find_idle(limit) is not None or self._can_look(limit)

    def _can_look(self, limit: ConcurrencyLimit) -> bool:
        now = clock.now()  # setting the clock back does not lengthen the wait
        is_too_early = now < self.next_look <= now + 4 * LOOK_EVERY
        return not is_too_early and any(number not in self._mine for number in range(limit.slots))

    def _use_idle(self, limit: ConcurrencyLimit, user: str) -> Slot | None:
        with self._guard:
            if (slot := self._find_idle(limit)) is not None:
                slot.user = user
            return slot

    def _find_idle(self, limit: ConcurrencyLimit) -> Slot | None:
        idle = (slot for slot in self._mine.values() if slot.user is None and slot.number < limit.slots)
        return next((slot for slot in idle if slot.is_held and not slot.is_due_elsewhere), None)

    def _take_free(self, limit: ConcurrencyLimit, user: str) -> Slot | None:
        """Try a random slot, and then the slots that a look finds free."""
        numbers = [number for number in range(limit.slots) if number not in self._mine]
        tried = [] if self._was_full else RANDOM.sample(numbers, min(1, len(numbers)))
        slot = self._take_first(tried, user)
        if slot is None:
            seen = list(self.table.read(RANDOM.sample(numbers, min(_LOOKED_AT, len(numbers)))))
            free = [each.number for each in seen if each.is_free(self.table.margin)]
            slot = self._take_first(RANDOM.sample(free, len(free)), user)
            self._was_full = slot is None
            self._others = [each.worker for each in seen]
            if slot is None:
                self.look_after(LOOK_EVERY * RANDOM.uniform(0.5, 1.5))
                self._ask_for_one(seen)
        return slot

    def holders(self) -> str:
        with self._guard:
            found = Counter([this_worker()] * len(self._mine) + self._others)
        names = [f"{worker or 'a worker without a name'} ({number:,})" for worker, number in found.most_common()]
        others = len(names) - _NAMED
        return ", ".join(names[:_NAMED]) + (f" and {others:,} other workers" if others > 0 else "")

    def _take_first(self, numbers: list[int], user: str) -> Slot | None:
        for number in numbers:
            try:
                slot = Slot(self, self.table.take(number), user)
            except Taken:
                continue
            with self._guard:
                self._mine[number] = slot
            for keeper in _keepers:
                keeper.keep(self)
            return slot
        return None

    def look_after(self, pause: timedelta) -> None:
        self.next_look = clock.now() + pause

    def _ask_for_one(self, seen: list[StoredSlot]) -> None:
        """Ask one holder for its slot, unless the last one asked still has it."""
        asked = self._asked
        if asked is not None and any((each.number, each.lock) == (asked.number, asked.lock) for each in seen):
            return
        others = [each for each in seen if not each.is_wanted and each.until is not None]
        self._asked = RANDOM.choice(others) if others else None
        if self._asked is not None:
            self.table.ask_for(self._asked)

    def leave(self, slot: Slot) -> None:
        with self._guard:
            slot.user, slot.since = None, clock.now()
            waiting = list(self.waiting)
        for each in waiting:
            each.wake()

    def wake_also(self, waiting: Waiting) -> None:
        with self._guard:
            self.waiting.add(waiting)

    def give_back(self, *, at_once: bool) -> None:
        """Give back slots that others want or that were idle for a while. `at_once` gives back all idle ones."""
        now = clock.now()
        with self._guard:
            idle = [slot for slot in self._mine.values() if slot.user is None]
            left = [slot for slot in idle if at_once or slot.is_due_elsewhere or now >= slot.since + IDLE_FOR]
            for slot in left:
                del self._mine[slot.number]
        for slot in left:
            self._give_back(slot)
        if left and not self.has_any:
            for keeper in _keepers:
                keeper.woken.set()  # they end

    def give_back_now(self, slot: Slot) -> None:
        """Give back a slot whose user has ended, and let this process's other threads look for it."""
        with self._guard:
            if self._mine.get(slot.number) is not slot:  # it is lost
                return
            del self._mine[slot.number]
            waiting = list(self.waiting)
        self._give_back(slot)
        if not slot.is_due_elsewhere:
            self.next_look = _LONG_AGO
        for each in waiting:
            each.wake()

    def give_back_all(self) -> None:
        """Give back idle slots and used ones, because the process ends."""
        with self._guard:
            left, self._mine = list(self._mine.values()), {}
        for slot in left:
            self._give_back(slot)

    def _give_back(self, slot: Slot) -> None:
        if slot.is_due_elsewhere:
            self.look_after(2 * LOOK_EVERY)
        try:
            self.table.give_back(slot.number, slot.token)
        except Exception as error:  # noqa: BLE001 - nobody relies on it, whatever the error
            text = "cannot give back slot %d of the limit %s, which is free once it has expired: %r"
            log.warning(text, slot.number, self.table.name, error)

    def due_for_renewal(self) -> list[Slot]:
        with self._guard:
            return [slot for slot in self._mine.values() if clock.now() >= slot.until - LIFETIME + USED_FOR]

    def renew(self, slot: Slot) -> None:
        """Renew a slot, or forget it if it is lost."""
        try:
            stored = self.table.renew(slot.number, slot.token)
        except Taken:
            self._lose(slot, "another worker took it")
        except Exception as error:  # noqa: BLE001 - it is worth another try while the slot is held
            if not slot.is_held:
                self._lose(slot, f"it expired because it could not be renewed: {error!r}")
        else:
            slot.until, slot.is_wanted = stored.until or slot.until, stored.is_wanted

    def _lose(self, slot: Slot, why: str) -> None:
        with self._guard:
            if self._mine.get(slot.number) is not slot:  # it was given back in the meantime
                return
            del self._mine[slot.number]
            slot.until = _LONG_AGO
            user, fields = slot.user, None if slot.run is None else slot.run.log_fields
        if user is not None:
            text = "%s keeps running but lost its slot of the limit %s, so one task too many may be running: %s"
            log.error(text, user, self.table.name, why, extra=fields)

    @property
    def has_any(self) -> bool:
        return bool(self._mine)


def renew_due(kept: Iterable[LimitSlots]) -> None:
    due = sorted(((slots, slot) for slots in kept for slot in slots.due_for_renewal()), key=lambda each: each[1].until)
    side_by_side(lambda each: each[0].renew(each[1]), due, threads=math.ceil(len(due) / _IN_A_ROW))


def _give_back_idle(kept: Iterable[LimitSlots]) -> None:
    for slots in kept:
        slots.give_back(at_once=False)


class _Keeper:
    """A thread that renews this process's slots or gives them back. It ends without any."""

    def __init__(self, name: str, work: Callable[[Iterable[LimitSlots]], None]) -> None:
        self._name = name
        self._work = work
        self._kept: set[LimitSlots] = set()
        self._thread: threading.Thread | None = None
        self.woken = threading.Event()
        self._guard = threading.Lock()

    def keep(self, slots: LimitSlots) -> None:
        with self._guard:
            self._kept.add(slots)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._is_needed():
            clock.wait(self.woken, _GLANCE)
            self.woken.clear()
            self._work(list(self._kept))

    def _is_needed(self) -> bool:
        with self._guard:
            self._kept = {slots for slots in self._kept if slots.has_any}
            if not self._kept:
                self._thread = None
            return bool(self._kept)


def _build_keepers() -> tuple[_Keeper, ...]:
    return (
        _Keeper("pynamodb_tracker renews slots", renew_due),
        _Keeper("pynamodb_tracker returns slots", _give_back_idle),
    )


_known: WeakKeyDictionary[Table, dict[str, LimitSlots]] = WeakKeyDictionary()
_guard = threading.Lock()
_keepers = _build_keepers()


@in_forked_process
def _forget() -> None:
    """Start without slots in a forked process, which lacks its parent's slots and threads."""
    global _guard, _keepers
    _guard, _keepers = threading.Lock(), _build_keepers()
    _known.clear()


@atexit.register
def _give_back_at_exit() -> None:
    """Give back all slots when the program exits: a function may run until then, after its worker's grace time."""
    with ending_by(clock.now() + WITHIN):
        for of_table in list(_known.values()):
            for slots in list(of_table.values()):
                slots.give_back_all()


def slots_of(model: type[TaskRow], limit: ConcurrencyLimit) -> LimitSlots:
    tracker = model.tracker
    connection = tracker.connection()
    with _guard:
        of_table = _known.setdefault(tracker.table, {})
        found = of_table.get(limit.name)
        if found is None or found.table.table is not connection:
            found = of_table[limit.name] = LimitSlots(SlotTable(connection, limit.name, tracker.margin))
        return found


def check_caller(user: str, limit: ConcurrencyLimit) -> None:
    """Raise NestedConcurrencyLimitError in a block that has a slot: two such blocks could wait for each other."""
    if used := _used_by_block.get():
        raise NestedConcurrencyLimitError(
            f"cannot start {user} in a block that has a slot of the limit {used[0].table.name}: it needs a slot, too "
            f"({limit.name}), and both might wait forever. Start it after the block, or leave it to a worker"
        )


class StepSlots:
    """What a step's tasks take before their claim and leave after their end. A rule about who may start goes here.

    A source that gets nothing for a task keeps it for later, and a run that is started by its id raises.
    """

    def __init__(self, model: type[TaskRow], step: str, limit: ConcurrencyLimit) -> None:
        self.limit = limit
        self._slots = slots_of(model, limit)
        self._step = f"{model.__name__}.{step}"

    @property
    def next_look(self) -> datetime:
        return self._slots.next_look

    @property
    def may_have(self) -> bool:
        return self._slots.may_have(self.limit)

    def take(self, task_id: str) -> Slot | None:
        return self._slots.take(self.limit, f"{self._step} of {task_id!r}")

    def take_for(self, task_id: str, wait: timedelta) -> Slot:
        """Take a slot for a task that is started by its id, or raise ConcurrencyLimitReachedError."""
        task = f"{self._step} of {task_id!r}"
        slot = self._slots.take_within(self.limit, task, wait)
        if slot is None:
            raise ConcurrencyLimitReachedError(f"cannot start {task}: {self} (held by {self.holders})", task_id=task_id)
        return slot

    @property
    def holders(self) -> str:
        return self._slots.holders()

    def wakes(self, waiting: Waiting) -> None:
        """Wake this, while it exists, when a task of this process leaves its slot."""
        self._slots.wake_also(waiting)

    def give_back(self) -> None:
        self._slots.give_back(at_once=True)

    def __str__(self) -> str:
        return f"all {self.limit.slots:,} slots of the limit {self.limit.name} are taken"


@dataclass(frozen=True, slots=True)
class Use:
    limit: str
    slots: int
    taken: int  # slots that have not expired, including those of dead workers

    def __str__(self) -> str:
        return f"limit {self.limit}: {self.taken:,} of {self.slots:,} slots are taken"


def uses(model: type[TaskRow]) -> list[Use]:
    """Return the use of each limit, at half a read unit per slot."""
    read = ((limit, slots_of(model, limit).table.read(range(limit.slots))) for limit in limits_of(model))
    return [Use(it.name, it.slots, sum(not slot.is_free(timedelta(0)) for slot in slots)) for it, slots in read]


def limits_of(model: type[TaskRow]) -> list[ConcurrencyLimit]:
    limits = {step._definition.declared.concurrency_limit for step in model._bound_steps.values()} - {None}
    return sorted(limits, key=lambda limit: (limit.name, limit.slots))
