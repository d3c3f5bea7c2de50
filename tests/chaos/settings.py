"""What one run of the chaos is made of; everything random in it is drawn from its seed."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Self

__all__ = ["Rates", "Settings"]


@dataclass(frozen=True)
class Rates:
    """Of how many writes in one something becomes, and of a third as many reads; the rest passes."""

    drop_request: float = 0.03
    drop_answer: float = 0.06
    duplicate: float = 0.05
    hold: float = 0.05
    delay: float = 0.05
    server_error: float = 0.02
    throttle: float = 0.02
    conflict: float = 0.02


@dataclass(frozen=True)
class Settings:
    """One run; told to the worker processes as JSON."""

    seed: int
    seconds: float = 45.0
    """How long the faults last; what is left is worked off after that."""
    workers: int = 8
    tasks: int = 300
    """How many tasks are created at most."""
    open_tasks: int = 24
    """How many tasks there are at a time that have not ended: few enough that workers meet."""
    rates: Rates = field(default_factory=Rates)
    kill_every: float = 2.0
    """Seconds between two kills, on average."""
    freeze_every: float = 1.2
    """Seconds between two freezes, on average."""
    skew: float = 1.0
    """Seconds by which the clock of a process is at most wrong, in both directions."""
    lock_seconds: float = 1.5
    margin_seconds: float = 2.0
    longest_hold: float = 6.0
    """Seconds after which a request that was held arrives at the latest."""
    heartbeats: bool = False
    """Whether some runs extend their lock by themselves."""
    transactions: bool = False
    """Whether effects are written in transactions with the task."""
    without: str = ""
    """The name of a guard of the protocol that the workers take out."""
    table: str = "chaos"

    @property
    def lock_for(self) -> timedelta:
        """How long a lock lasts."""
        return timedelta(seconds=self.lock_seconds)

    @property
    def margin(self) -> timedelta:
        """How far the clocks may differ: twice the skew, or the lock is not safe."""
        return timedelta(seconds=self.margin_seconds)

    @property
    def patience(self) -> float:
        """Seconds within which healthy workers must have worked off what is left, also on a slow machine."""
        return 90 + 2.0 * self.open_tasks

    def drawn(self, *what: object) -> random.Random:
        """Return a source of random numbers for one purpose: the same for the same seed, whatever else is drawn."""
        return random.Random("/".join(map(str, (self.seed, *what))))

    def to_json(self) -> str:
        """Return all of it as one line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` was made of."""
        told: dict[str, Any] = json.loads(text)
        return cls(**told | {"rates": Rates(**told["rates"])})
