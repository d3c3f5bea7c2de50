"""Work that Ctrl-C, SIGTERM or a lost terminal stops gracefully: running tasks finish, a task just claimed is released.

Python raises KeyboardInterrupt in the main thread wherever that happens to be: for example between a claim that
DynamoDB has accepted and the line that remembers it, which would leave the task locked; or in a destructor, where it is
lost. So the work is done on another thread, which no signal reaches, while the main thread waits for signals.
"""

import os
import sys
import threading
from contextlib import suppress
from typing import Protocol

from pynamodb_tracker.signals import MessageQueue, handling

_SIGPIPE = 13
"""Not every system has it: the signal that ends programs whose output nobody reads."""

_ENDED = 0
"""The message that the work has ended; all others are numbers of signals."""


class StoppedError(Exception):
    """The work was stopped by a signal, or because nobody reads what it prints."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.exit_code = 128 + number


class StopRequest:
    """Set by a signal or by a reader that is gone; the work looks at it before it starts anything."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.signal_number = 0
        """The first signal that came, 0 for none."""

    def __bool__(self) -> bool:
        return self.event.is_set()

    @property
    def reason(self) -> int:
        """The signal that stops the work; SIGPIPE if nobody reads what it prints; 0 if nothing stops it."""
        return self.signal_number or (_SIGPIPE if self else 0)


class Work(Protocol):
    """What can be stopped: once `stop` is set, it starts nothing more, and returns or raises KeyboardInterrupt."""

    stop: StopRequest

    def run(self) -> None:
        """Do the work."""

    def report_waiting(self) -> None:
        """Print what is waited for, after the first signal."""

    def report_left(self) -> None:
        """Print what is left behind, after the second signal, which ends the process."""


def run_stoppable(work: Work) -> None:
    """Do the work on a thread; StoppedError if it ended because of the request to stop."""
    stop, errors, messages = work.stop, list[BaseException](), MessageQueue[int]()

    def on_thread() -> None:
        try:
            work.run()
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            errors.append(error)
        finally:
            messages.put(_ENDED)

    def on_signal(number: int, _frame: object) -> None:
        stop.signal_number = stop.signal_number or number  # also for work that ends before the message is read
        messages.put(number)

    thread = threading.Thread(target=on_thread, name="pynamodb_tracker-cli", daemon=True)
    with handling(dict.fromkeys(("SIGINT", "SIGTERM", "SIGHUP"), on_signal)):
        thread.start()
        _wait(work, messages)
        thread.join()
    if stop.reason and all(isinstance(error, KeyboardInterrupt) for error in errors):
        raise StoppedError(stop.reason)
    for error in errors:
        raise error


def _wait(work: Work, messages: MessageQueue[int]) -> None:
    """Wait for the end of the work; stop it at the first signal, and exit at the second one."""
    signals = 0
    while messages.get() != _ENDED:
        signals += 1
        work.stop.event.set()
        with suppress(OSError):  # the terminal is gone
            if signals == 1:
                work.report_waiting()
            else:
                work.report_left()
                sys.stdout.flush()
                sys.stderr.flush()
        if signals > 1:
            os._exit(128 + work.stop.signal_number)
