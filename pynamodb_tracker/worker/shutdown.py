"""Leads a crew, or a fleet of processes, from its start to its end: orders that come meanwhile, and the grace time."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Protocol

from pynamodb_tracker.worker.signals import Mailbox, Message

__all__ = ["AT_ONCE", "Team", "steer"]

log = logging.getLogger("pynamodb_tracker")

AT_ONCE = "the second order to stop: what runs is left to its locks"
"""What a KeyboardInterrupt says that is none of a function's; one of a class of its own would change the exit code."""


class Team(Protocol):
    """What is led."""

    grace: timedelta

    @property
    def has_ended(self) -> bool:
        """Whether nothing runs any more."""

    def start(self) -> None:
        """Begin to work."""

    def stop(self) -> None:
        """Begin nothing more."""

    def cut_short(self) -> None:
        """End what still runs when the grace time is over."""

    def abandon(self) -> None:
        """Leave at once."""

    def tell(self) -> None:
        """Print what is being done."""


def steer(team: Team, mailbox: Mailbox) -> None:
    """Let a team work until it has ended by itself, or is told to stop; KeyboardInterrupt at a second Ctrl-C."""
    deadline: float | None = None
    interrupts = 0
    try:
        team.start()
        while not team.has_ended:
            match mailbox.get(deadline):
                case None:
                    team.cut_short()
                    return
                case Message.TELL:
                    team.tell()
                case Message.INTERRUPT if interrupts:
                    raise KeyboardInterrupt(AT_ONCE)
                case Message.STOP | Message.INTERRUPT as order:
                    interrupts += order is Message.INTERRUPT
                    if deadline is not None:
                        continue
                    deadline = time.monotonic() + team.grace.total_seconds()
                    log.info("the worker stops: it starts nothing more, and waits for what runs")
                    team.stop()
                case _:
                    pass
    finally:
        if not team.has_ended:
            team.abandon()
