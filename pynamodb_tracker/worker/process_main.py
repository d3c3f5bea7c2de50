"""What a process of a worker does: it is a crew of its own, led by its parent through a pipe, and ends with it."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection

from pynamodb_tracker.worker import parent_pipe
from pynamodb_tracker.worker.shutdown import steer
from pynamodb_tracker.worker.signals import Mailbox, Message
from pynamodb_tracker.worker.tally import Tally
from pynamodb_tracker.worker.thread_team import Crew, Settings

__all__ = ["READY", "Ended", "work"]

READY = "ready"
"""What a process says when it has begun to work."""

_GLANCE = 1.0
"""Seconds between two looks whether the parent is still there."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The last words of a process."""

    tallies: list[Tally]
    error: BaseException | None
    """An order to end of one of its functions, such as SystemExit."""


def work(settings: Settings, pipe: Connection, parent: int) -> None:
    """Work until the parent says to stop, or is gone."""
    mailbox = Mailbox()
    crew = Crew(settings, mailbox.put)
    # A terminal sends Ctrl-C to all processes; what it means, the parent says.
    with mailbox.listening({"SIGTERM": Message.STOP, "SIGINT": None, "SIGUSR1": Message.TELL}):
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
        threading.Thread(target=_hear, args=(pipe, mailbox, parent), daemon=True).start()
        parent_pipe.parent.open(pipe, (step for step, _ in settings.functions))
        parent_pipe.parent.say(READY)
        steer(crew, mailbox)
        parent_pipe.parent.say(Ended(crew.tallies, _sendable(crew.errors[0]) if crew.errors else None))


def _hear(pipe: Connection, mailbox: Mailbox, parent: int) -> None:
    """Pass on what the parent says; where it is gone, stop in order."""
    try:
        while os.getppid() == parent:
            if pipe.poll(_GLANCE):
                mailbox.put(pipe.recv())
    except (EOFError, OSError):
        pass
    mailbox.put(Message.STOP)


def _sendable(error: BaseException) -> BaseException:
    """Return an error that the parent can read."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - its own
    except Exception:  # noqa: BLE001 - exceptions of users may do anything
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
