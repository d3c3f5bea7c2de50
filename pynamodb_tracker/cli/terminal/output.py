"""What comes out of a command that runs for long: its stdout is its own, and on stderr is what the library logs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

from pynamodb_tracker.cli.terminal.echo import escaped
from pynamodb_tracker.cli.terminal.stdio import Stream, unread

__all__ = ["keep_numbers", "kept_stderr", "last_words", "log_lines", "log_to_stderr", "own_stdout"]

log = logging.getLogger("pynamodb_tracker")


class _Lines(logging.Formatter):
    """Lines with the time and its zone, which cannot steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(escaped, super().format(record).split("\n")))


def log_to_stderr() -> logging.Handler | None:
    """Print the log of the library; None where the program has said itself what becomes of it."""
    if log.hasHandlers():
        return None
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    log.addHandler(handler)
    log.setLevel(log.level or logging.INFO)
    return handler


@contextmanager
def log_lines() -> Iterator[None]:
    """Do so for a while."""
    level, handler = log.level, log_to_stderr()
    try:
        yield
    finally:
        if handler is not None:
            log.removeHandler(handler)
            log.setLevel(level)


def keep_numbers() -> None:
    """Let no connection have the number of a standard stream that is closed: what functions print would go there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it is given the lowest number that is free


@contextmanager
def kept_stderr(lost: Callable[[], object]) -> Iterator[None]:
    """Let nobody who prints on stderr hear that it is closed but the one who is told it, once."""
    if sys.stderr is None:  # closed before Python began: nothing is printed then
        yield
        return
    with redirect_stderr(Stream(sys.stderr, lost)):
        yield


@contextmanager
def own_stdout(lost: Callable[[], object]) -> Iterator[None]:
    """Let what functions print go to stderr, that of the processes which they start, too: somebody parses stdout."""
    if sys.stdout is not None:
        sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)

    def lost_both() -> None:
        os.dup2(2, 1)
        lost()

    try:
        with kept_stderr(lost_both), redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def last_words() -> Iterator[None]:
    """Print what there is to say at the end; where nobody reads it any more, the exit code is what is left to tell."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            unread(sys.stdout)
