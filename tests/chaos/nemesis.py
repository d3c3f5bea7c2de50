"""What happens to worker processes: SIGKILL, SIGTERM, and SIGSTOP for longer than a lock, at times of the seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.chaos.crew import Crew
from tests.chaos.settings import Settings

__all__ = ["Blow", "Nemesis", "blows"]


SEEN = 0.4
"""Of how many that are killed or frozen a person frees the tasks."""


@dataclass(frozen=True, order=True)
class Blow:
    """What happens to a worker, and when."""

    at: float
    """Seconds from the start."""
    kind: str
    """kill, freeze, wake, or terminate."""
    worker: int


def blows(settings: Settings) -> list[Blow]:
    """Return all blows of a run in their order: the same for the same seed."""
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
    return sorted(kills + freezes + ends)


def _times(settings: Settings, draw: random.Random, every: float) -> Iterator[float]:
    at = every * draw.random()
    while at < settings.seconds:
        yield at
        at += every * draw.uniform(0.5, 1.5)


class Nemesis:
    """Deals the blows of a run when their time has come, and counts those that hit."""

    def __init__(self, settings: Settings, crew: Crew, found: Callable[[int], object]) -> None:
        """`found` is called with the process id of some of those that were killed or frozen: a person has seen it."""
        self.counts: Counter[str] = Counter()
        self._crew = crew
        self._found = found
        self._draw = settings.drawn("people")
        self._left = blows(settings)
        self._frozen = set[int]()

    @property
    def all_struck(self) -> bool:
        """Whether there was one of each kind."""
        return all(self.counts[kind] for kind in ("kill", "freeze", "wake"))

    def strike(self, passed: float) -> None:
        """Deal every blow that is due after so many seconds."""
        while self._left and self._left[0].at <= passed:
            blow = self._left.pop(0)
            pid = self._crew.processes[blow.worker].pid
            match blow.kind:
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
                case "wake" if blow.worker in self._frozen:  # it may have been killed in between
                    self.counts["wake"] += 1
                    self._frozen.remove(blow.worker)
                    self._crew.wake(blow.worker)
            if blow.kind in {"kill", "freeze"} and self._draw.random() < SEEN:
                self._found(pid)
