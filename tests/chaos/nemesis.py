"""Strikes processes at times that the seed decides.

Workers get SIGKILL, SIGTERM, and SIGSTOP for longer than a lock. The database gets SIGKILL, and restarts from its
file.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.chaos.crew import Crew
from tests.chaos.faults import Wire
from tests.chaos.settings import Settings
from tests.engine.server import Server

SEEN = 0.4
"""A person frees the tasks of one in this many killed or frozen workers."""


@dataclass(frozen=True, order=True)
class Blow:
    at: float
    """Seconds from the start."""
    kind: str
    """For a worker: kill, freeze, wake, or terminate. For the database: crash, or restart."""
    worker: int = 0


def blows(settings: Settings) -> list[Blow]:
    draw = settings.drawn("nemesis")
    kills = [Blow(at, "kill", draw.randrange(settings.workers)) for at in _times(settings, draw, settings.kill_every)]
    frozen_until: dict[int, float] = {}
    freezes: list[Blow] = []
    for at in _times(settings, draw, settings.freeze_every):
        worker = draw.randrange(settings.workers)
        until = at + settings.lock_seconds + settings.margin_seconds + draw.uniform(0.3, settings.longest_freeze)
        if frozen_until.get(worker, 0.0) < at:
            freezes += [Blow(at, "freeze", worker), Blow(until, "wake", worker)]
            frozen_until[worker] = until
    graceful = settings.on_loops - 1
    ends = [Blow(at, "terminate", graceful) for at in _times(settings, draw, settings.terminate_every) if graceful >= 0]
    return sorted(kills + freezes + ends + _crashes(settings))


def _crashes(settings: Settings) -> list[Blow]:
    draw, found, up_again = settings.drawn("crashes"), list[Blow](), 0.0
    for at in _times(settings, draw, settings.crash_every):
        if at > up_again:
            up_again = at + draw.uniform(0, settings.longest_outage)
            found += [Blow(at, "crash"), Blow(up_again, "restart")]
    return found


def _times(settings: Settings, draw: random.Random, every: float) -> Iterator[float]:
    at = every * draw.random()
    while every and at < settings.seconds:
        yield at
        at += every * draw.uniform(0.5, 1.5)


class Nemesis:
    """Strikes each blow at its time, and counts the hits."""

    def __init__(self, crew: Crew, wire: Wire, server: Server | None, found: Callable[[int], object]) -> None:
        """`found` gets the process ids of some victims, which a person has seen.

        Without a `server`, the database never crashes.
        """
        settings = crew.settings if server else replace(crew.settings, crash_every=0)
        self.counts: Counter[str] = Counter()
        often = {"kill": settings.kill_every, "freeze": settings.freeze_every, "wake": settings.freeze_every}
        self._kinds = {kind for kind, every in (often | {"crash": settings.crash_every}).items() if every}
        self._crew = crew
        self._wire = wire
        self._server = server
        self._is_down = False
        self._found = found
        self._draw = settings.drawn("people")
        self._left = blows(settings)
        self._frozen = set[int]()

    @property
    def all_struck(self) -> bool:
        return self.counts.keys() >= self._kinds

    def strike(self, passed: float) -> None:
        while self._left and self._left[0].at <= passed:
            blow = self._left.pop(0)
            pid = self._crew.processes[blow.worker].pid
            match blow.kind:
                case "crash" if self._server:
                    self.counts["crash"] += 1
                    self._wire.kill(self._server)
                    self._is_down = True
                case "restart":
                    self.heal()
                case "terminate" if blow.worker not in self._frozen:
                    self.counts["terminate"] += 1
                    self._crew.terminate(blow.worker)
                    self._crew.start(blow.worker)
                case "kill":
                    self.counts["kill"] += 1
                    self.counts["kill of a frozen one"] += blow.worker in self._frozen
                    self._frozen.discard(blow.worker)
                    self._crew.kill(blow.worker)
                    self._crew.start(blow.worker)
                case "freeze":
                    self.counts["freeze"] += 1
                    self._frozen.add(blow.worker)
                    self._crew.freeze(blow.worker)
                case "wake" if blow.worker in self._frozen:  # perhaps killed in the meantime
                    self.counts["wake"] += 1
                    self._frozen.remove(blow.worker)
                    self._crew.wake(blow.worker)
            if blow.kind in {"kill", "freeze"} and self._draw.random() < SEEN:
                self._found(pid)

    def heal(self) -> None:
        if self._server and self._is_down:
            self._server.restart()
            self._is_down = False
