"""A search through all orders in which threads may ask a dispatcher, with every answer that tasks may give.

It drives the code of Dispatcher, StepSource and Candidates itself, by its three moves: `_choose`, `_ask_source` and
`_return_source`. A generator cannot be copied, so the first move from a state changes its world, and each other one
repeats all moves from the start.
"""

import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any, Literal

from pynamodb_tracker import clock
from pynamodb_tracker.query.due import LeftBehind
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work import candidates
from pynamodb_tracker.work.candidates import Candidates
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.source import Given, OnceThrough, StepSource, StepWork
from pynamodb_tracker.writes.participants import NewlyDue
from tests.support.shop import Order
from tests.support.uncollected import uncollected

CODES = dict(zip("abc", Order.tracker.steps, strict=False))

At = Literal["idle", "choose", "wait", "ask", "gave", "claim", "run", "release", "over", "gone"]
"""What a thread does next, or what it waits for."""

_BUSY: set[At] = {"claim", "run", "release"}

Move = tuple[int, str]
"""The number of a thread, or -1 for what happens elsewhere, and its move."""


@dataclass(frozen=True)
class Setup:
    """Who asks for which tasks, and how often something else happens."""

    steps: dict[str, str]
    """The ids that are due at each step, each a letter."""
    threads: int = 2
    finders: int | None = None
    """If set, so many threads take tasks for an event loop, which has room for `threads` of them."""
    limit: int | None = None
    slots: int | None = None
    rate: float | None = None
    left: dict[str, str] = field(default_factory=dict)
    """The dead workers that have left tasks behind. With a !, the task has one attempt left."""
    unlocked: str = ""
    """The task of which only the claim shows that it was left behind with one attempt."""
    faults: dict[str, int] = field(default_factory=dict)
    """How often a task is taken by others, refused, makes another task due, and so on."""


class Slots:
    """The slots of a limit, of which others may have some."""

    limit = SimpleNamespace(name="bank")
    holders = "others"

    def __init__(self, number: int) -> None:
        self.number = self.free = number
        self.woken: Any = None
        self.next_look = clock.now() + timedelta(days=1)

    @property
    def may_have(self) -> bool:
        return self.free > 0

    def take(self, _: str = "") -> "Slots | None":
        if not self.free:
            return None
        self.free -= 1
        return self

    def leave(self) -> None:
        self.free += 1
        assert self.free <= self.number, "a slot was left twice"
        self.woken.wake()

    def wakes(self, waiting: Any) -> None:
        self.woken = waiting


@dataclass
class Thread:
    """A thread that takes tasks, or one that runs a task which a finder has taken."""

    at: At
    source: StepSource | None = None
    given: Given | None = None
    woken: threading.Event = field(default_factory=threading.Event)
    seconds: float = 0.0
    is_alone: bool = False


class World:
    """A dispatcher and its threads after some moves."""

    def __init__(self, setup: Setup, moves: tuple[Move, ...] = ()) -> None:
        self.setup, self.faults = setup, dict(setup.faults)
        self._random = Random(1)  # repeatable moves
        self.clock = StoppedClock(datetime(2026, 1, 1, tzinfo=UTC))
        self._activate()
        self.slots = None if setup.slots is None else Slots(setup.slots)
        self.is_paused = False
        self.sources = [self._source(name, ids) for name, ids in setup.steps.items()]
        self.dispatcher = Dispatcher(self.sources, limit=setup.limit, rate=setup.rate)
        self.room = setup.threads
        self.threads = [
            Thread("choose" if setup.finders is None else "idle") for _ in range(setup.finders or self.room)
        ]
        self.started: list[str] = []
        self.refused: list[str] = []
        self.made: list[str] = []
        self.waits_alone: str | None = None
        self.problem: str | None = None
        for move in moves:
            self.make(move)

    def _activate(self) -> None:
        """Let the library use the clock and the random numbers of this world."""
        clock.use(self.clock)
        vars(candidates)["RANDOM"] = self._random

    def after(self, move: Move) -> "World":
        self._activate()
        self.make(move)
        return self

    def _source(self, name: str, ids: str) -> OnceThrough:
        definition: Any = SimpleNamespace(
            model=Order, codes=CODES[name], pause=lambda: "paused" if self.is_paused else None, slots=lambda: self.slots
        )
        found = Candidates(lambda *_: map(self._found, (f"{name}{each}" for each in ids)), threads=self.setup.threads)
        return OnceThrough(StepWork(definition, print, print), found)

    def _found(self, task_id: str) -> str:
        worker = self.setup.left.get(task_id)
        if worker is None:
            return task_id
        return LeftBehind(task_id, worker.rstrip("!"), is_last=worker.endswith("!"))

    def moves(self) -> list[Move]:
        different = {self._key_of(thread): number for number, thread in reversed([*enumerate(self.threads)])}
        threads = [(number, move) for number in sorted(different.values()) for move in self._moves_of(number)]
        return threads + [(-1, fault) for fault in ("stop", "close", "pause", "steal") if self.faults.get(fault)]

    def _moves_of(self, number: int) -> list[str]:
        thread = self.threads[number]
        if thread.at == "idle":
            return ["acquire"] if self.room else []
        if thread.at == "wait":
            return ["wake"] if thread.woken.is_set() else []
        if thread.at == "claim":
            return ["ok", *(fault for fault in ("taken", "refused") if self.faults.get(fault))]
        if thread.at == "run":
            return ["done", "makes"] if self.faults.get("makes") else ["done"]
        return [thread.at] if thread.at in ("choose", "ask", "gave", "release") else []

    def make(self, move: Move) -> None:
        number, name = move
        if number >= 0:
            getattr(self, f"_{name}")(self.threads[number])
            return
        self.faults[name] -= 1
        if name == "pause":
            self.is_paused = True
        elif name == "steal" and self.slots is not None:  # another program takes a slot, and gives it back later
            if self.slots.take() is not None:
                self.threads.append(Thread("run"))
        elif name in ("stop", "close"):
            getattr(self.dispatcher, name)()

    def _acquire(self, thread: Thread) -> None:
        self.room -= 1
        thread.at = "choose"

    def _choose(self, thread: Thread) -> None:
        thread.woken = threading.Event()
        thread.source, seconds = self.dispatcher._choose(thread.woken)
        if thread.source is not None:
            thread.at, thread.seconds = "ask", seconds or 0.0
            if any(each.is_alone for each in self.threads):
                self.problem = "a step is asked although a task runs alone"
        elif seconds is None:
            thread.at = "over"
            self.room += 1
        else:
            thread.at = "wait"

    def _wake(self, thread: Thread) -> None:
        thread.at = "choose"

    def _ask(self, thread: Thread) -> None:
        assert thread.source is not None
        thread.given = self._asked(thread.source, thread.seconds)
        thread.at = "gave"

    def _asked(self, source: StepSource, seconds: float) -> Given | None:
        return self.dispatcher._ask_source(source, seconds)

    def _gave(self, thread: Thread) -> None:
        assert thread.source is not None
        was_stopped = self.dispatcher.stopped.is_set()
        given = self.dispatcher._return_source(thread.source, thread.given)
        thread.at, asked = "choose", thread.given
        if given is None:
            left = asked and asked.left
            if left and left.is_last and left.worker not in self._dead() and self.waits_alone is None:
                self.waits_alone = left
            return
        thread.is_alone = given.left is not None and given.left.is_last
        if self.waits_alone not in (None, given.task_id) and not self.is_paused:
            self.problem = "a task starts before the one that waits to run alone"
        self.waits_alone = None
        if was_stopped:
            self.problem = "a task was given after the stop"
        if any(each.at == "over" for each in self.threads):
            self.problem = "a thread left although there was more"
        if self.setup.finders is None:
            thread.at, thread.given = "claim", given
        else:
            thread.at = "idle"
            self.threads.append(Thread("claim", given=given, is_alone=thread.is_alone))
            thread.is_alone = False

    def _ok(self, thread: Thread) -> None:
        assert thread.given is not None
        self.dispatcher.note_answer(thread.given, lost_to_other=False)
        if thread.given.task_id == self.setup.unlocked:
            thread.is_alone = self.dispatcher.try_to_run_alone(thread.given)
            if not thread.is_alone:
                thread.at = "release"
                return
        self.started.append(thread.given.task_id)
        thread.at = "run"

    def _release(self, thread: Thread) -> None:
        self._end(thread, [], refused=True, again_alone=True)

    def _taken(self, thread: Thread) -> None:
        self._no_start(thread, "taken")

    def _refused(self, thread: Thread) -> None:
        self._no_start(thread, "refused")

    def _no_start(self, thread: Thread, fault: str) -> None:
        assert thread.given is not None
        self.faults[fault] -= 1
        self.refused.append(thread.given.task_id)
        self.dispatcher.note_answer(thread.given, lost_to_other=fault == "taken")
        self._end(thread, [], refused=True)

    def _done(self, thread: Thread) -> None:
        self._end(thread, [])

    def _makes(self, thread: Thread) -> None:
        """End a run that makes its task due at the last step."""
        self.faults["makes"] -= 1
        last = list(self.setup.steps)[-1]
        made: list[NewlyDue] = []
        if thread.given is not None:
            task_id = f"{last}{thread.given.task_id[1:]}"
            self.made.append(task_id)
            made.append(NewlyDue(Order, task_id, CODES[last].pending, "", clock.now()))
        self._end(thread, made)

    def _end(self, thread: Thread, made: list[NewlyDue], *, refused: bool = False, again_alone: bool = False) -> None:
        if self.slots is not None:
            self.slots.leave()
        if thread.given is not None:
            self.dispatcher.note_end(thread.given, made, was_refused=refused, again_alone=again_alone)
            thread.at, thread.given, thread.is_alone = "choose", None, False
            if self.setup.finders is not None:
                self.room += 1
        if thread not in self.threads[: self.setup.finders or self.setup.threads]:
            thread.at = "gone"

    @property
    def has_ended(self) -> bool:
        return all(each.at in ("over", "gone") for each in self.threads)

    def key(self) -> object:
        """Return what decides how this goes on."""
        sources = [
            (
                each.is_taken,
                each.is_done,
                each.waits_for_answer,
                each.waits_for_slot,
                each._ahead and each._ahead[0],
                each.waits_alone,
                tuple(each.aside),
                tuple(each._behind),
                tuple(sorted(each.candidates.tried)),
                each.window.width,
                each.window.unanswered,
                each.window.collided,
                each.window._misses,
            )
            for each in self.sources
        ]
        threads = [self._key_of(each) for each in self.threads if each.at != "gone"]
        it, held = self.dispatcher, self.dispatcher._takeovers
        order = tuple(each.work.name for each in it._order)
        state = (it.stopped.is_set(), it._is_closed, it._started, it._running, it._looking, order, self.is_paused)
        alone = tuple(held.at_limit), held.alone and held.alone.task_id, held.next_alone and held.next_alone.work.name
        said = tuple(sorted(self.started)), tuple(sorted(self.refused)), tuple(sorted(self.made))
        return (
            tuple(sources),
            tuple(sorted(threads, key=str)),
            state,
            tuple(self.faults.items()),
            self.room,
            said,
            alone,
            self.waits_alone,
        )

    def _key_of(self, thread: Thread) -> tuple[object, ...]:
        waiting = self.dispatcher._waiting
        return (
            thread.at,
            thread.woken.is_set() if thread.at == "wait" else None,
            waiting.index(thread.woken) if thread.woken in waiting else None,
            thread.source and thread.source.work.name if thread.at in ("ask", "gave") else None,
            thread.given and thread.given.task_id,
            thread.is_alone,
        )

    def broken(self) -> str | None:
        """Return which promise this state breaks."""
        return (
            self.problem
            or self._broken_start()
            or self._broken_takeover()
            or self._broken_wait()
            or (self._broken_end() if self.has_ended else None)
        )

    def _broken_start(self) -> str | None:
        tried = [*self.started, *self.refused]
        at = [each.at for each in self.threads]
        if len(tried) != len(set(tried)):
            return "a task was tried twice"
        if self.setup.limit is not None and len(self.started) + at.count("claim") > self.setup.limit:
            return "more tasks start than the limit allows"
        if self.setup.slots is not None and sum(map(at.count, _BUSY)) > self.setup.slots:
            return "more tasks run than there are slots"
        if any(each.window.unanswered > each.window.width and not each.window.collided for each in self.sources):
            return "more claims are unanswered than the window allows"
        return None

    def _broken_takeover(self) -> str | None:
        busy, dead = [each for each in self.threads if each.given and each.at in _BUSY], self._dead()
        if len(busy) > 1 and any(each.is_alone for each in busy):
            return "a task runs beside one that has to run alone"
        return "two tasks of a dead worker run at once" if len(dead) != len(set(dead)) else None

    def _dead(self) -> list[str]:
        """Return the dead workers of the tasks that run."""
        busy = (each.given for each in self.threads if each.at in _BUSY)
        return [given.left.worker for given in busy if given is not None and given.left is not None]

    def _broken_wait(self) -> str | None:
        it, at = self.dispatcher, [each.at for each in self.threads]
        asleep = [each for each in self.threads if each.at == "wait" and not each.woken.is_set()]
        awake = [each for each in self.threads if each not in asleep and each.at in ("choose", "wait", "ask", "gave")]
        if not asleep or awake or ("idle" in at and self.room):
            return None
        if it.stopped.is_set() or it._is_closed:
            return "a thread sleeps after the stop"
        if it._started + it._looking < it._limit and any(
            it._takeovers.may_ask(each, it._running, clock.now()) and each.is_ready(clock.now())
            for each in self.sources
        ):
            return "a thread sleeps although a step is ready"
        has_more = it._started < it._limit and not all(each.is_done for each in self.sources)
        if not (it._running or it._looking or has_more):
            return "a thread sleeps although all is over"
        return None if _BUSY & {*at} else "all sleep"

    def _broken_end(self) -> str | None:
        if not self.has_ended:
            return None
        if any(each.window.unanswered for each in self.sources):
            return "a claim is unanswered at the end"
        if self.slots is not None and self.slots.free != self.slots.number:
            return "a slot is held at the end"
        if self.dispatcher.stopped.is_set() or self.dispatcher._is_closed or self.is_paused:
            return None
        wanted = {f"{name}{each}" for name, ids in self.setup.steps.items() for each in ids} | {*self.made}
        left = wanted - {*self.started, *self.refused}
        if left and (self.setup.limit is None or len(self.started) < self.setup.limit):
            return "a task that was due was not tried"
        return None


def search(setup: Setup, most: int = 20_000) -> tuple[int, str | None]:
    """Return how many states were searched, and which promise was broken. Each state must be able to end."""
    random, time = vars(candidates)["RANDOM"], clock.use(StoppedClock())
    try:
        with uncollected():
            return _search(setup, most)
    finally:
        vars(candidates)["RANDOM"] = random
        clock.use(time)


def _search(setup: Setup, most: int) -> tuple[int, str | None]:
    before: dict[object, set[object]] = {}
    ends: list[object] = []
    waiting: deque[tuple[object, tuple[Move, ...], World]] = deque([(None, (), World(setup))])
    while waiting:
        here, moves, first = waiting.popleft()
        for number, move in enumerate(first.moves()):
            world = World(setup, (*moves, move)) if number else first.after(move)
            key, problem = world.key(), world.broken()
            if problem is not None:
                return len(before), f"{problem}: {(*moves, move)}"
            if key not in before:
                if len(before) >= most:
                    return len(before), "too many states"
                waiting.append((key, (*moves, move), world))
                if world.has_ended:
                    ends.append(key)
            before.setdefault(key, set()).add(here)
    return len(before), None if before.keys() <= _that_can_end(before, ends) else "a state cannot end"


def _that_can_end(before: dict[object, set[object]], ends: list[object]) -> set[object]:
    good = {*ends}
    while ends:
        for each in before.get(ends.pop(), ()):
            if each not in good:
                good.add(each)
                ends.append(each)
    return good
