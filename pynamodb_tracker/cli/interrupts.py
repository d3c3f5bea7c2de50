"""Ctrl-C, SIGTERM, a lost terminal or a closed pipe stop a command gracefully: running tasks finish.

Python raises KeyboardInterrupt at any line of the main thread. Right after a claim, that would leave the task locked,
and in a destructor, it would be lost. So the work is done on another thread, which no signal reaches, while the main
thread waits for signals.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import UnsupportedOperation
from typing import Any, Protocol, TextIO

from pynamodb_tracker.cli.terminal import StdoutError, flush
from pynamodb_tracker.worker.shutdown import MessageQueue, handle_signals

_SIGPIPE = 13  # the signal for a closed pipe, which Python's signal module lacks on Windows

_ENDED = 0  # the message that the work has ended. All other messages are signal numbers


class StoppedError(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.exit_code = 128 + number


class StopRequest(threading.Event):
    """Set by a signal or a closed pipe. The work checks it before it starts anything."""

    signal_number = 0
    _on_stop: Callable[[], object] = bool

    def set(self) -> None:
        super().set()
        self._on_stop()

    def calls(self, on_stop: Callable[[], object]) -> None:
        self._on_stop = on_stop
        if self.is_set():
            on_stop()

    @property
    def reason(self) -> int:
        return self.signal_number or (_SIGPIPE if self.is_set() else 0)


class StoppableWork(Protocol):
    """Work that starts nothing new once `stop` is set, and then returns or raises KeyboardInterrupt."""

    stop: StopRequest

    def run(self) -> None: ...

    def report_waiting(self) -> None:
        """Print after the first signal which work still runs."""

    def report_left(self) -> None:
        """Print after the second signal which work it leaves unfinished."""


def run_stoppable(work: StoppableWork) -> None:
    """Do the work on a thread. Raise StoppedError if a request to stop ended it."""
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
    with handle_signals(dict.fromkeys(("SIGINT", "SIGTERM", "SIGHUP"), on_signal)):
        thread.start()
        signals = 0
        while messages.wait() != _ENDED:
            signals += 1
            stop.set()
            with suppress(OSError):  # the terminal is gone
                if signals == 1:
                    work.report_waiting()
                else:
                    work.report_left()
                    sys.stdout.flush()
                    sys.stderr.flush()
            if signals > 1:
                os._exit(128 + stop.signal_number)
        thread.join()
    if stop.reason and all(isinstance(error, KeyboardInterrupt) for error in errors):
        raise StoppedError(stop.reason)
    for error in errors:
        raise error


# Standard streams.


def reserve_standard_descriptors() -> None:
    """Open /dev/null for closed standard streams, or a connection would get their descriptors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor


class SafeStream:
    """A stream that hides write errors from functions, because their tasks would fail. It calls `lost` once."""

    def __init__(self, inner: TextIO, lost: Callable[[], object]) -> None:
        self._inner = inner
        self._lost: Callable[[], object] | None = lost

    def write(self, text: str) -> int:
        try:
            return self._inner.write(text)
        except OSError:
            self._lose()
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._inner.flush()
        except OSError:
            self._lose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _lose(self) -> None:
        discard(self._inner)
        lost, self._lost = self._lost, None
        if lost is not None:
            lost()


def discard(stream: TextIO | None) -> None:
    """Send buffered and later output to /dev/null."""
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
    """Hide errors of stderr from functions in the block."""
    if sys.stderr is None:  # closed before Python started
        yield
        return
    with redirect_stderr(SafeStream(sys.stderr, lost)):
        yield


@contextmanager
def stdout_to_stderr(lost: Callable[[], object]) -> Iterator[None]:
    """Send the output of functions and their processes to stderr. Programs parse the command's stdout."""
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
    """Print the final report in the block, with the same exit code if nobody reads it."""
    try:
        yield
        flush()
    except (BrokenPipeError, StdoutError):
        with suppress(OSError):
            discard(sys.stdout)
