"""A stream whose reader may go: a pipe that is closed, a terminal that is gone, a disk that is full."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import UnsupportedOperation
from typing import Any, TextIO

__all__ = ["Stream", "unread"]


class Stream:
    """A stream that fails nobody who prints: a function would fail its task for it, and the next one, and so on."""

    def __init__(self, inner: TextIO, lost: Callable[[], object]) -> None:
        """`lost` is called once, when something could not be written."""
        self._inner = inner
        self._lost: Callable[[], object] | None = lost

    def write(self, text: str) -> int:
        """Write the text, or nothing."""
        try:
            return self._inner.write(text)
        except OSError:
            self._lose()
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, as far as that can be done."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is held back, or drop it."""
        try:
            self._inner.flush()
        except OSError:
            self._lose()

    def __getattr__(self, name: str) -> Any:
        """Be as the stream itself in all else: whether it is a terminal, and how it is encoded."""
        return getattr(self._inner, name)

    def _lose(self) -> None:
        unread(self._inner)
        lost, self._lost = self._lost, None
        if lost is not None:
            lost()


def unread(stream: TextIO | None) -> None:
    """Let all that is written from now on, and what is held back, go nowhere: Python writes that when it ends."""
    if stream is None:  # closed before Python began
        return
    with suppress(UnsupportedOperation, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
