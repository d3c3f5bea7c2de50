"""Work that Ctrl-C, SIGTERM and a lost terminal end in order: what runs is finished, what has just begun is given back.

Python raises KeyboardInterrupt in the main thread wherever that happens to be: between a claim that DynamoDB has
accepted and the line that remembers it, say, and then the task stays locked; or in a destructor, where it is lost. So
the work is on another thread, which no signal reaches, and the main thread waits and passes the order on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.clock import Clock

__all__ = ["Stop", "StoppedError", "run"]

_GLANCE = 0.1
"""Seconds between two looks at what the signals said."""

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_A_MOMENT = 1.0
"""Seconds that nothing waits for longer once it is to stop, such as for its turn at a slow rate."""


_NOBODY_READS = 13
"""The number of SIGPIPE, which not every system has: by that, a program ends as a rule whose output nobody reads."""


class StoppedError(Exception):
    """The work was stopped by a signal, or because nobody reads what it prints."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.exit_code = 128 + number


class Stop:
    """The order to stop, and how it is told."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.signals: list[int] = []
        self.is_unread = False
        """Whether nobody reads what is printed any more."""

    def __bool__(self) -> bool:
        return self.event.is_set()

    def note(self, number: int, _frame: object) -> None:
        """Note a signal; nothing else is safe in a handler."""
        self.signals.append(number)
        self.event.set()

    def note_unread(self) -> None:
        """Note that nobody reads what is printed."""
        self.is_unread = True
        self.event.set()

    @property
    def number(self) -> int:
        """The signal that it began with, 0 for none."""
        return self.signals[0] if self.signals else _NOBODY_READS if self.is_unread else 0


class _HurriedClock(Clock):
    """The clock in use, which nobody sleeps by for long once it is to stop."""

    def __init__(self, inner: Clock, stop: Stop) -> None:
        self._inner = inner
        self._stop = stop

    def now(self) -> datetime:
        return self._inner.now()

    def seconds_until(self, time: datetime) -> float:
        return self._inner.seconds_until(time)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return self._inner.wait(event, seconds)

    def sleep(self, seconds: float) -> None:
        if type(self._inner) is not Clock:  # one that stands still takes no time
            self._inner.sleep(seconds)
        elif self._stop.event.wait(seconds):
            time.sleep(min(seconds, _A_MOMENT))


def run(
    work: Callable[[Stop], None], stop: Stop, *, at_first: Callable[[], None], at_second: Callable[[], None]
) -> None:
    """Do the work on a thread; StoppedError once it has ended after the order to stop.

    `at_first` tells the person at the first signal what is waited for, `at_second` what is left behind at the second
    one, which ends the process.
    """
    failed = list[BaseException]()

    def on_thread() -> None:
        try:
            work(stop)
        except BaseException as error:  # noqa: BLE001 - raised again where somebody waits for it
            failed.append(error)

    thread = threading.Thread(target=on_thread, name="pynamodb_tracker-cli", daemon=True)
    with _listening(stop), _hurried(stop):
        thread.start()
        _wait(thread, stop, at_first, at_second)
    if stop.number and all(isinstance(error, KeyboardInterrupt) for error in failed):
        raise StoppedError(stop.number)
    for error in failed:
        raise error


def _wait(thread: threading.Thread, stop: Stop, at_first: Callable[[], None], at_second: Callable[[], None]) -> None:
    told = False
    while thread.is_alive():
        thread.join(_GLANCE)
        if stop.signals and not told and thread.is_alive():
            told = True
            with suppress(OSError):  # of a terminal that is gone
                at_first()
        if len(stop.signals) > 1 and thread.is_alive():
            with suppress(OSError):
                at_second()
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(128 + stop.signals[0])


@contextmanager
def _listening(stop: Stop) -> Iterator[None]:
    """Let the signals be an order to stop, but for those that are ignored, as in the background of a shell."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        wanted = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, stop.note) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _hurried(stop: Stop) -> Iterator[None]:
    """Let nobody sleep for long once it is to stop."""
    before = clock.use(Clock())
    clock.use(_HurriedClock(before, stop))
    try:
        yield
    finally:
        clock.use(before)
