"""What happens to worker processes: SIGKILL, and SIGSTOP for longer than a lock lasts, at times drawn from the seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.crew import Crew
from tests.chaos.settings import Settings

__all__ = ["Blow", "Nemesis", "blows"]


@dataclass(frozen=True, order=True)
class Blow:
    """What happens to a worker, and when."""

    at: float
    """Seconds from the start."""
    kind: str
    """kill, freeze, or wake."""
    worker: int


def blows(settings: Settings) -> list[Blow]:
    """Return all blows of a run in their order: the same for the same seed."""
    draw = settings.drawn("nemesis")
    kills = [Blow(at, "kill", draw.randrange(settings.workers)) for at in _times(settings, draw, settings.kill_every)]
    frozen_until: dict[int, float] = {}
    freezes: list[Blow] = []
    for at in _times(settings, draw, settings.freeze_every):
        worker = draw.randrange(settings.workers)
        until = at + settings.lock_seconds + settings.margin_seconds + draw.uniform(0.3, 3.0)
        if frozen_until.get(worker, 0.0) < at:
            freezes += [Blow(at, "freeze", worker), Blow(until, "wake", worker)]
            frozen_until[worker] = until
    return sorted(kills + freezes)


def _times(settings: Settings, draw: random.Random, every: float) -> Iterator[float]:
    at = draw.expovariate(1 / every)
    while at < settings.seconds:
        yield at
        at += draw.expovariate(1 / every)


class Nemesis:
    """Deals the blows of a run when their time has come."""

    def __init__(self, settings: Settings, crew: Crew) -> None:
        self.counts: Counter[str] = Counter()
        self._crew = crew
        self._left = blows(settings)

    def strike(self, passed: float) -> None:
        """Deal every blow that is due after so many seconds."""
        while self._left and self._left[0].at <= passed:
            blow = self._left.pop(0)
            self.counts[blow.kind] += 1
            if blow.kind == "kill":
                self._crew.kill(blow.worker)
                self._crew.start(blow.worker)
            elif blow.kind == "freeze":
                self._crew.freeze(blow.worker)
            else:
                self._crew.wake(blow.worker)
