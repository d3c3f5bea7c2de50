"""The settings of a chaos run. Everything random is drawn from its seed."""

import json
import os
import random
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal, Self

LOOPS = ("AsyncWorker", "arun_all", "astart")
"""How the last workers run tasks on an event loop."""


@dataclass(frozen=True)
class Rates:
    """One in this many writes is struck, a third as many reads, and more transactions and batches."""

    dropped_request: float = 0.02
    dropped_response: float = 0.03
    duplicated: float = 0.03
    held: float = 0.03
    delayed: float = 0.02
    error_500: float = 0.02
    throttled: float = 0.02
    conflict: float = 0.02
    refused: float = 0.02


@dataclass(frozen=True)
class Settings:
    """A run's settings, which the worker processes get as JSON."""

    seed: int
    seconds: float = 45.0
    """How long the faults last. The remaining work comes after that."""
    until: Literal["over", "struck"] = "over"
    """The goal of the faults: nothing else, or one of each kind of fault and blow.

    Tasks are created until then, so that the same things happen on a slow machine."""
    workers: int = 10
    on_loops: int = 3
    """How many workers use an event loop, in the ways of LOOPS. The last one is an AsyncWorker."""
    tasks: int = 300
    """How many tasks are created while the faults last."""
    rates: Rates = field(default_factory=Rates)
    unsent: float = 0.01
    """One in this many of a worker's requests is not sent."""
    kill_every: float = 3.0
    """Average seconds between two kills. Here and in the next three, 0 means never."""
    terminate_every: float = 4.0
    """Average seconds between two SIGTERMs to the AsyncWorker."""
    freeze_every: float = 1.4
    """Average seconds between two freezes. Each outlasts a lock, so a third of the workers is frozen."""
    crash_every: float = 3.0
    """Average seconds between two crashes of the database."""
    longest_outage: float = 0.8
    """Seconds within which the database restarts."""
    longest_freeze: float = 5.0
    """Seconds by which a freeze outlasts a lock at most, by every clock."""
    slow_reads: float = 0.1
    """One in this many reads of off-row data takes longer than a lock."""
    long_runs: int = 5
    """Percentage of blocks that outlast their lock."""
    skew: float = 1.0
    """Seconds by which a process's clock is wrong at most, in both directions."""
    lock_seconds: float = 1.0
    margin_seconds: float = 2.0
    """How far two clocks may differ: twice the skew, or the lock is not safe."""
    longest_hold: float = 6.0
    """Seconds within which a held request arrives."""
    queues: float = 0.6
    """One in this many of a worker's actions is about queues."""
    guesses: float = 0.1
    """One in this many claims is of a recent task, whatever the index says, and as many are of one that is held."""
    without: str = ""
    """The protocol guard that the workers remove."""
    table: str = field(default_factory=lambda: f"chaos-{os.getpid()}")

    @property
    def patience(self) -> float:
        """Seconds after which a run without progress fails. Even a very busy machine needs far less."""
        return 300 + self.tasks

    def kind_of(self, number: int) -> str:
        return "wild" if number >= self.on_loops else LOOPS[(self.on_loops - 1 - number) % len(LOOPS)]

    def skew_of(self, worker: str) -> timedelta:
        return timedelta(seconds=self.drawn("skew", worker).uniform(-self.skew, self.skew))

    def drawn(self, *what: object) -> random.Random:
        """Return a random source for one purpose, independent of other draws."""
        return random.Random("/".join(map(str, (self.seed, *what))))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        told: dict[str, Any] = json.loads(text)
        return cls(**told | {"rates": Rates(**told["rates"])})


ONLY_CRASHES: dict[str, Any] = {
    "rates": Rates(**dict.fromkeys(asdict(Rates()), 0.0)),
    "slow_reads": 0.0,
    "kill_every": 0.0,
    "terminate_every": 0.0,
    "freeze_every": 0.0,
    "crash_every": 1.0,
}
"""A run in which only the database crashes."""

ROUGH: dict[str, Any] = {
    "workers": 6,
    "on_loops": 0,
    "lock_seconds": 0.5,
    "margin_seconds": 0.2,
    "skew": 0.1,
    "freeze_every": 0.0,
    "kill_every": 0.0,
    "crash_every": 0.0,
    "longest_hold": 1.0,
    "long_runs": 50,
    "queues": 0.0,
    "guesses": 0.4,
}
"""A run in which half of the blocks outlast their locks, and workers often claim what others hold."""
