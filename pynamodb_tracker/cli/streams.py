"""Standard streams of a command: who writes to stdout and stderr, what the library logs, and readers that go away."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import UnsupportedOperation
from typing import Any, TextIO

from pynamodb_tracker.cli.terminal import escaped

log = logging.getLogger("pynamodb_tracker")


class _Lines(logging.Formatter):
    """Lines with the time and its zone, which cannot steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(escaped, super().format(record).split("\n")))


def log_to_stderr() -> logging.Handler | None:
    """Print what the library logs; None, and no change, if the program has configured logging itself."""
    if log.hasHandlers():
        return None
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    log.addHandler(handler)
    log.setLevel(log.level or logging.INFO)
    return handler


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Print what the library logs inside of the block, as `log_to_stderr` does."""
    level, handler = log.level, log_to_stderr()
    try:
        yield
    finally:
        if handler is not None:
            log.removeHandler(handler)
            log.setLevel(level)


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
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            discard(sys.stdout)
