"""Exceptions that strike the main thread of a worker at a random moment of a run, at most once."""

import ctypes
import logging
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LATEST = 0.4
"""The latest interrupt, in seconds after the start of a run. Most runs have ended by that time."""


class OutOfTime(Exception):  # noqa: N818 - what users raise in their handlers of signals has any name
    """A time limit, as job queues raise it in a signal handler or from another thread."""


class Pressed(KeyboardInterrupt):
    pass


class Told(SystemExit):
    """Raised by a SIGTERM handler."""


class OutOfTimeFromAfar(OutOfTime):
    """A time limit that another thread raises in this one."""


KINDS: dict[str, type[BaseException]] = {
    "ctrl_c": Pressed,
    "system_exit": Told,
    "time_limit": OutOfTime,
    "asynchronous": OutOfTimeFromAfar,
}


def comes_from_nowhere(error: BaseException | None) -> bool:
    """Return whether this is such an exception, or a library's translation of one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, (Pressed, Told, OutOfTime)):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


class ErrorsLogged(logging.Handler):
    """The tasks about which the library has logged an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.tasks: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.tasks.add(getattr(record, "task_id", ""))


@dataclass(frozen=True)
class Interrupt:
    kind: str
    after: float
    """Seconds after the start of the run."""

    @classmethod
    def drawn(cls, draw: random.Random) -> "Interrupt":
        """Draw one. Half of them strike early, during a claim."""
        return cls(draw.choice(list(KINDS)), draw.uniform(0, LATEST if draw.random() < 0.5 else 0.03))


class Interrupts:
    """Raises the requested exceptions in the main thread, within `during`."""

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._guard = threading.Lock()
        self._armed: type[BaseException] | None = None
        self.struck_at: float | None = None
        """When the last run was interrupted, or None."""
        self._errors = ErrorsLogged()

    def begin(self) -> None:
        """Handle the signal and watch the log, until this process ends."""
        logging.getLogger("pynamodb_tracker").addHandler(self._errors)
        signal.signal(signal.SIGUSR1, self._raise)

    @contextmanager
    def during(self, interrupt: Interrupt | None) -> Iterator[None]:
        """Interrupt this block, unless it ends before."""
        self.struck_at = None
        self._errors.tasks.clear()
        if interrupt is None:
            yield
            return
        self._armed = KINDS[interrupt.kind]
        timer = threading.Timer(interrupt.after, self._strike)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self.disarm()

    def was_logged(self, task_id: str) -> bool:
        """Return whether an error about a task was logged during the last run."""
        return task_id in self._errors.tasks

    def disarm(self) -> None:
        """Raise nothing more, not even a pending exception."""
        with self._guard:
            self._armed = None
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._main), None)

    def _strike(self) -> None:
        with self._guard:
            kind = self._armed
            if kind is OutOfTimeFromAfar:
                self._armed, self.struck_at = None, time.monotonic()
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._main), ctypes.py_object(kind))
            elif kind is not None:
                signal.pthread_kill(self._main, signal.SIGUSR1)

    def _raise(self, *_: object) -> None:
        kind, self._armed = self._armed, None
        if kind is not None:
            self.struck_at = time.monotonic()
            raise kind
