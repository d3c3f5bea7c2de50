"""Keeps one process of a worker alive: starts it, passes orders on, and starts another one when it dies."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from pynamodb_tracker.worker.polling_backoff import Pause
from pynamodb_tracker.worker.process_main import READY, Ended, work
from pynamodb_tracker.worker.signals import Message
from pynamodb_tracker.worker.tally import Tally
from pynamodb_tracker.worker.thread_team import Settings

__all__ = ["Keeper"]

log = logging.getLogger("pynamodb_tracker")

_GLANCE = 0.5
"""Seconds between two looks whether the process is still there."""

_LONGEST_PAUSE = timedelta(minutes=1)
"""Between two processes that die; one that lived for longer is replaced at once."""

_spawn = get_context("spawn")


class Keeper:
    """The thread that keeps a process; of a fork, locks that other threads hold would never be free."""

    def __init__(self, settings: Settings, number: int, tell: Callable[[Message], None]) -> None:
        self._name = f"pynamodb_tracker worker process {number + 1}"
        self._thread = threading.Thread(target=self._run, name=f"keeper of {self._name}", daemon=True)
        self.tallies = [Tally() for _ in settings.functions]
        self.errors: list[BaseException] = []
        self.has_ended = False
        self.pid: int | None = None
        self._settings = settings
        self._tell = tell
        self._stopped = threading.Event()
        self._guard = threading.Lock()
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._was_ready = False
        self._last_words: Ended | None = None

    def start(self) -> None:
        """Begin to keep one."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until its process is gone, at most that long."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        """Keep a process until told to stop, or until it has nothing more to do."""
        pause = Pause(_LONGEST_PAUSE)
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                self._keep_one()
                if self.errors or (self._settings.until_idle and self._last_words is not None):
                    return
                if time.monotonic() - began > _LONGEST_PAUSE.total_seconds():
                    pause.reset()
                self._stopped.wait(pause.draw().total_seconds())
        except BaseException as error:  # noqa: BLE001 - raised again by the worker
            self.errors.append(error)
        finally:
            self.pid, self.has_ended = None, True
            if self.errors:
                self._tell(Message.STOP)
            self._tell(Message.ENDED)

    def say(self, message: Message) -> None:
        """Pass an order on; after STOP, no other process is started."""
        if message is Message.STOP:
            self._stopped.set()
        with self._guard, contextlib.suppress(OSError):
            if self._pipe is not None:
                self._pipe.send(message)

    def kill(self) -> None:
        """End the process at once."""
        self._stopped.set()
        with self._guard:
            if self._process is not None:
                self._process.kill()

    def _keep_one(self) -> None:
        """Start a process, and listen to it until it is gone."""
        self._last_words = None
        process, pipe = self._start_one()
        try:
            while process.exitcode is None:
                if pipe.poll(_GLANCE):
                    self._hear(pipe.recv())
            while pipe.poll():  # what it said between the last look and its end
                self._hear(pipe.recv())
        except (EOFError, OSError):
            process.join()
        finally:
            with self._guard:
                self._process = self._pipe = None
                pipe.close()
        self._tell_end(process)
        process.close()

    def _start_one(self) -> tuple[SpawnProcess, Connection]:
        """Return a new process, which hears of no signal until it knows what to do with it."""
        ours, theirs = _spawn.Pipe()
        process = _spawn.Process(target=work, args=(self._settings, theirs, os.getpid()), name=self._name, daemon=False)
        resource_tracker.ensure_running()  # it would unblock signals in this thread
        with self._guard:
            if hasattr(signal, "pthread_sigmask"):
                signals = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}
                signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # of this thread, and of what it starts
            process.start()
            theirs.close()
            self._process, self._pipe, self.pid = process, ours, process.pid
        if self._stopped.is_set():
            self.say(Message.STOP)
        return process, ours

    def _hear(self, said: object) -> None:
        if said == READY:
            self._was_ready = True
        elif said is Message.STOP:  # a function has called `stop` there
            self._tell(Message.STOP)
        elif isinstance(said, Ended):
            self._last_words = said
            self.tallies = [mine + other for mine, other in zip(self.tallies, said.tallies, strict=True)]
            if said.error is not None:
                self.errors.append(said.error)

    def _tell_end(self, process: SpawnProcess) -> None:
        """Say that a process ended by itself; one that never began to work would not do so a second time either."""
        words = self._last_words
        if self._stopped.is_set() or (words is not None and (words.error is not None or self._settings.until_idle)):
            return
        told = f"process {process.pid} of the worker ended by itself, with exit code {process.exitcode}"
        if not self._was_ready:
            raise RuntimeError(f"{told}, before it began to work: what it printed says why")
        log.error("%s: another one is started, and what it ran is taken over when the locks end", told)
