"""What each process of a worker runs: a team of threads, which the parent process controls through a pipe."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from pynamodb_tracker import signals
from pynamodb_tracker.worker.poller import Tally
from pynamodb_tracker.worker.shutdown import Message, Messages, run_to_the_end, sender
from pynamodb_tracker.worker.thread_team import ThreadTeam, WorkerSettings

READY = "ready"
"""What a process sends when it has begun to work."""

_GLANCE = 1.0
"""Seconds between two checks that the parent is still there."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The last message of a process."""

    tallies: list[Tally]
    error: BaseException | None
    """KeyboardInterrupt or SystemExit of one of its functions."""


class ParentPipe:
    """The pipe from this process to the worker that started it, if one did; any thread may send."""

    def __init__(self) -> None:
        self._pipe: Connection | None = None
        self._steps: list[object] = []
        self._guard = threading.Lock()

    def open(self, pipe: Connection, steps: Iterable[object]) -> None:
        """Send through this pipe from now on, to the worker of these steps."""
        self._pipe, self._steps = pipe, list(steps)

    def leads_to_worker_of(self, steps: Iterable[object]) -> bool:
        """Return whether this process was started by the worker of these steps."""
        return self._pipe is not None and self._steps == list(steps)

    def send(self, message: object) -> None:
        """Send a message, if there is a parent and it is still there."""
        with self._guard, contextlib.suppress(OSError):
            if self._pipe is not None:
                self._pipe.send(message)


parent_pipe = ParentPipe()
"""Open in a process that a worker has started."""


def run_process(settings: WorkerSettings, pipe: Connection, parent: int) -> None:
    """Work until the parent stops this process, or is gone."""
    messages: Messages = Messages()
    team = ThreadTeam(settings, messages)
    handlers: dict[str, signals.Handler] = {
        "SIGTERM": sender(messages, Message.STOP),
        "SIGINT": signal.SIG_IGN,  # a terminal sends Ctrl-C to all processes; the parent tells this one what to do
        "SIGUSR1": sender(messages, Message.PRINT_STATUS),
    }
    with signals.handling(handlers):
        signals.unblock()
        threading.Thread(target=_listen, args=(pipe, messages, parent), daemon=True).start()
        parent_pipe.open(pipe, (step for step, _ in settings.functions))
        parent_pipe.send(READY)
        run_to_the_end(team, messages)
        parent_pipe.send(Ended(team.tallies, _picklable(team.errors[0]) if team.errors else None))


def _listen(pipe: Connection, messages: Messages, parent: int) -> None:
    """Pass on the parent's messages; stop gracefully if it is gone."""
    try:
        while os.getppid() == parent:
            if pipe.poll(_GLANCE):
                messages.put(pipe.recv())
    except (EOFError, OSError):
        pass
    messages.put(Message.STOP)


def _picklable(error: BaseException) -> BaseException:
    """Return the error, or one with its text if the parent could not read it."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - its own
    except Exception:  # noqa: BLE001 - exceptions of users may do anything
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
