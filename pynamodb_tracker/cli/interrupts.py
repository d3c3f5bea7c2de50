"""What interrupts a command: Ctrl-C, SIGTERM, a lost terminal, or a closed pipe.

Work stops gracefully: running tasks finish, a task just claimed is released.

Python raises KeyboardInterrupt in the main thread wherever that happens to be: for example between a claim that
DynamoDB has accepted and the line that remembers it, which would leave the task locked; or in a destructor, where it is
lost. So the work is done on another thread, which no signal reaches, while the main thread waits for signals.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import UnsupportedOperation
from typing import Any, Protocol, TextIO

from pynamodb_tracker.cli.terminal import StdoutError, flush
from pynamodb_tracker.worker.shutdown import MessageQueue, handling

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


class StoppableWork(Protocol):
    """What can be stopped: once `stop` is set, it starts nothing more, and returns or raises KeyboardInterrupt."""

    stop: StopRequest

    def run(self) -> None:
        """Do the work."""

    def report_waiting(self) -> None:
        """Print what is waited for, after the first signal."""

    def report_left(self) -> None:
        """Print what is left behind, after the second signal, which ends the process."""


def run_stoppable(work: StoppableWork) -> None:
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


def _wait(work: StoppableWork, messages: MessageQueue[int]) -> None:
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


# Standard streams.


def reserve_standard_descriptors() -> None:
    """Open /dev/null for standard streams that are closed, so that no connection gets the descriptor of one of them.

    Otherwise what functions print would be sent to the server.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor


class SafeStream:
    """A stream whose write errors do not reach the functions that print: each would fail its task for them."""

    def __init__(self, inner: TextIO, lost: Callable[[], object]) -> None:
        """`lost` is called once, when something could not be written."""
        self._inner = inner
        self._lost: Callable[[], object] | None = lost

    def write(self, text: str) -> int:
        """Write the text, or drop it."""
        try:
            return self._inner.write(text)
        except OSError:
            self._lose()
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, or drop them."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is buffered, or drop it."""
        try:
            self._inner.flush()
        except OSError:
            self._lose()

    def __getattr__(self, name: str) -> Any:
        """Leave all else to the stream itself: whether it is a terminal, its encoding."""
        return getattr(self._inner, name)

    def _lose(self) -> None:
        discard(self._inner)
        lost, self._lost = self._lost, None
        if lost is not None:
            lost()


def discard(stream: TextIO | None) -> None:
    """Send everything written from now on to /dev/null, also what is buffered, which Python writes at exit."""
    if stream is None:  # closed before Python started
        return
    with suppress(UnsupportedOperation, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


@contextmanager
def safe_stderr(lost: Callable[[], object]) -> Iterator[None]:
    """Let functions print to a stderr that nobody reads any more; `lost` is called once if so."""
    if sys.stderr is None:  # closed before Python started: nothing is printed then
        yield
        return
    with redirect_stderr(SafeStream(sys.stderr, lost)):
        yield


@contextmanager
def stdout_to_stderr(lost: Callable[[], object]) -> Iterator[None]:
    """Send what functions, and the processes they start, print to stderr: programs parse the command's stdout."""
    if sys.stdout is not None:
        sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)

    def lost_both() -> None:
        os.dup2(2, 1)
        lost()

    try:
        with safe_stderr(lost_both), redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def last_output() -> Iterator[None]:
    """Print the final report; if nobody reads it any more, the exit code stays as it is."""
    try:
        yield
        flush()
    except (BrokenPipeError, StdoutError):
        with suppress(OSError):
            discard(sys.stdout)
