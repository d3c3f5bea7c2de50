"""The settings of one chaos run; everything random in it is drawn from its seed."""

import json
import os
import random
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal, Self

LOOPS = ("AsyncWorker", "arun_all", "astart")
"""How workers run tasks on an event loop, from the last of these workers to the first one."""


@dataclass(frozen=True)
class Rates:
    """Of how many writes in one something becomes, of a third as many reads, of more transactions and batches."""

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
    """One run; told to the worker processes as JSON."""

    seed: int
    seconds: float = 45.0
    """How long the faults last; what is left is worked off after that."""
    until: Literal["over", "struck", "broken"] = "over"
    """What they last for at least: nothing else, one of each kind of fault and blow, or a task that two workers had
    at a time.

    Tasks are created until then, so a slow machine has the same things happen as a fast one."""
    workers: int = 10
    on_loops: int = 3
    """How many of them run their tasks on an event loop, in the ways of LOOPS: the last one is an AsyncWorker."""
    tasks: int = 300
    """How many tasks are created, one after the other while the faults last."""
    rates: Rates = field(default_factory=Rates)
    unsent: float = 0.01
    """How many requests of a worker in one are not sent."""
    kill_every: float = 3.0
    """Seconds between two kills, on average. Here and in the next three, 0 is for none."""
    terminate_every: float = 4.0
    """Seconds between two times that the AsyncWorker gets SIGTERM, on average."""
    freeze_every: float = 1.4
    """Seconds between two freezes, on average; each takes longer than a lock, so a third of the workers is frozen."""
    crash_every: float = 3.0
    """Seconds between two crashes of the database, on average."""
    longest_outage: float = 0.8
    """Seconds after which the database is started again at the latest."""
    longest_freeze: float = 5.0
    """Seconds that a freeze takes at most beyond the end of a lock for every clock."""
    slow_reads: float = 0.1
    """How many reads in one of data that is stored off-row take longer than a lock."""
    long_runs: int = 5
    """How many blocks in a hundred outlast their lock by themselves."""
    skew: float = 1.0
    """Seconds by which the clock of a process is at most wrong, in both directions."""
    lock_seconds: float = 1.0
    margin_seconds: float = 2.0
    """How far two clocks may differ: twice the skew, or the lock is not safe."""
    longest_hold: float = 6.0
    """Seconds after which a request that was held arrives at the latest."""
    queues: float = 0.6
    """How many actions of a worker in one are about queues."""
    without: str = ""
    """The name of a guard of the protocol that the workers take out."""
    table: str = field(default_factory=lambda: f"chaos-{os.getpid()}")

    @property
    def patience(self) -> float:
        """Seconds after which a run that makes no progress fails. Even a very busy machine needs far less."""
        return 600 + self.tasks

    def kind_of(self, number: int) -> str:
        """Return how a worker runs its tasks."""
        return "wild" if number >= self.on_loops else LOOPS[(self.on_loops - 1 - number) % len(LOOPS)]

    def skew_of(self, worker: str) -> timedelta:
        """Return how wrong the clock of a worker is, all its life."""
        return timedelta(seconds=self.drawn("skew", worker).uniform(-self.skew, self.skew))

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


ONLY_CRASHES: dict[str, Any] = {
    "rates": Rates(**dict.fromkeys(asdict(Rates()), 0.0)),
    "slow_reads": 0.0,
    "kill_every": 0.0,
    "terminate_every": 0.0,
    "freeze_every": 0.0,
    "crash_every": 1.0,
}
"""Settings of a run with no other faults than crashes of the database."""
