"""The processes of a worker: each a crew of its own, all started, stopped and asked together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from pynamodb_tracker.worker.signals import Message
from pynamodb_tracker.worker.status_print import say
from pynamodb_tracker.worker.supervisor import Keeper
from pynamodb_tracker.worker.tally import Tally
from pynamodb_tracker.worker.thread_team import Settings
from pynamodb_tracker.worker_name import this_worker

__all__ = ["Fleet"]

_BESIDE_GRACE = timedelta(seconds=15)
"""What a process takes beyond its grace time, to give back what still runs, and to end."""

_KILLED = 5.0
"""Seconds that the end of a killed process is waited for."""


class Fleet:
    """The processes."""

    def __init__(self, settings: Settings, processes: int, tell: Callable[[Message], None]) -> None:
        """`tell` hears of each process that has ended for good, and of the order to stop that a function gives."""
        rate = None if settings.rate is None else settings.rate / processes
        self.grace = settings.grace + _BESIDE_GRACE
        self._keepers = [Keeper(replace(settings, rate=rate), number, tell) for number in range(processes)]

    def start(self) -> None:
        """Start the processes."""
        for keeper in self._keepers:
            keeper.start()

    @property
    def has_ended(self) -> bool:
        """Whether all have ended."""
        return all(keeper.has_ended for keeper in self._keepers)

    @property
    def tallies(self) -> list[Tally]:
        """What became of the tasks, by step; of a process that died, nobody knows."""
        first, *others = (keeper.tallies for keeper in self._keepers)
        for other in others:
            first = [mine + theirs for mine, theirs in zip(first, other, strict=True)]
        return first

    @property
    def errors(self) -> list[BaseException]:
        """Orders to end of functions, and what kept a process from its work."""
        return [error for keeper in self._keepers for error in keeper.errors]

    def stop(self) -> None:
        """Let them stop in order."""
        for keeper in self._keepers:
            keeper.say(Message.STOP)

    def cut_short(self) -> None:
        """Kill those that are still there."""
        self.abandon()

    def abandon(self) -> None:
        """Kill them."""
        for keeper in self._keepers:
            keeper.kill()
        for keeper in self._keepers:
            keeper.join(_KILLED)

    def tell(self) -> None:
        """Print which processes there are, and let each print what it is doing."""
        pids = ", ".join(str(keeper.pid) for keeper in self._keepers if keeper.pid is not None)
        say(f"worker {this_worker()}: its processes are {pids}\n")
        for keeper in self._keepers:
            keeper.say(Message.TELL)
