"""Runs a team of threads or processes to its end: messages that arrive meanwhile, and the grace time of a shutdown."""

import logging
import sys
import time
from contextlib import suppress
from datetime import timedelta
from enum import Enum, auto
from typing import Protocol

from pynamodb_tracker.worker.signals import Handler, MessageQueue

log = logging.getLogger("pynamodb_tracker")

AT_ONCE = "the second interrupt: the worker leaves at once, and running tasks stay locked until their locks expire"
"""The text of the KeyboardInterrupt that is not raised by a function; a class of its own would change the exit code."""


class Message(Enum):
    """The messages to the thread that runs the team."""

    STOP = auto()
    """Stop gracefully."""
    INTERRUPT = auto()
    """Stop gracefully, by Ctrl-C; the second one stops at once."""
    PRINT_STATUS = auto()
    """Print what is being done."""
    ENDED = auto()
    """A thread or a process has ended, or is not waited for any more: check whether all have."""


Messages = MessageQueue[Message]


def sender(messages: Messages, message: Message) -> Handler:
    """Return a signal handler that sends the message."""
    return lambda _number, _frame: messages.put(message)


class Stoppable(Protocol):
    """A team: the threads of a process, or several processes."""

    grace: timedelta

    @property
    def has_ended(self) -> bool:
        """Whether nothing runs any more."""

    def start(self) -> None:
        """Start to work."""

    def stop(self) -> None:
        """Start no further task."""

    def cut_short(self) -> None:
        """End what still runs after the grace time."""

    def abandon(self) -> None:
        """Leave at once."""

    def print_status(self) -> None:
        """Print what is being done."""


def run_to_the_end(team: Stoppable, messages: Messages) -> None:
    """Run a team until it ends by itself or is stopped; KeyboardInterrupt at a second Ctrl-C."""
    deadline: float | None = None
    interrupts = 0
    try:
        team.start()
        while not team.has_ended:
            match messages.get(deadline):
                case None:
                    team.cut_short()
                    return
                case Message.PRINT_STATUS:
                    team.print_status()
                case Message.INTERRUPT if interrupts:
                    raise KeyboardInterrupt(AT_ONCE)
                case Message.STOP | Message.INTERRUPT as message:
                    interrupts += message is Message.INTERRUPT
                    if deadline is not None:
                        continue
                    deadline = time.monotonic() + team.grace.total_seconds()
                    log.info("the worker stops: it starts no further task, and waits for those that run")
                    team.stop()
                case _:
                    pass
    finally:
        if not team.has_ended:
            team.abandon()


def print_to_stderr(text: str) -> None:
    """Print to stderr; does nothing if that is closed or its reader is gone."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()
