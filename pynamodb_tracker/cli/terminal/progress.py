"""How far a long command is, on stderr: a bar at a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from rich.console import Console

from pynamodb_tracker.cli.terminal.echo import console, warn

__all__ = ["Progress", "progress"]

_LINE_EVERY = 5.0
"""Seconds between two plain lines."""

_SHOW_CURSOR = b"\n\x1b[?25h"


class Progress(Protocol):
    """What a command tells how far it is."""

    def show(self, done: float, note: str) -> None:
        """Show how much is done, and in words what that is."""

    def end(self) -> None:
        """Show that there is no more, whatever was expected."""

    def leave(self) -> None:
        """Leave the terminal as it was, for a process that ends at once."""


class _Lines:
    """A line now and then."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._next = time.monotonic() + _LINE_EVERY

    def show(self, done: float, note: str) -> None:  # noqa: ARG002 - the words say it
        if time.monotonic() >= self._next:
            warn(f"{self._title}: {note}")
            self._next = time.monotonic() + _LINE_EVERY

    def end(self) -> None:
        """Say nothing: the command reports by itself."""

    def leave(self) -> None:
        """Do nothing: lines leave nothing behind."""


class _Bar:
    """A live bar."""

    def __init__(self, on: Console, title: str, total: float | None) -> None:
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - slow
        from rich.progress import Progress as Live  # noqa: PLC0415 - slow to import, and only needed here

        columns = [TextColumn("{task.description}"), BarColumn(bar_width=None)]
        columns += [TaskProgressColumn()] if total else []
        self.live = Live(
            *columns,
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=on,
            expand=True,
            redirect_stdout=False,
        )
        self._bar = self.live.add_task(title, total=total, note="")

    def show(self, done: float, note: str) -> None:
        (bar,) = self.live.tasks
        total = None if bar.total is None else max(bar.total, done)  # there may be more than was counted
        self.live.update(self._bar, total=total, completed=done, note=note)

    def end(self) -> None:
        (bar,) = self.live.tasks
        self.live.update(self._bar, total=bar.completed or 1, completed=bar.completed or 1)

    def leave(self) -> None:
        with suppress(OSError):
            os.write(2, _SHOW_CURSOR)  # past the lock of the bar, which a thread may hold that is stuck


@contextmanager
def progress(title: str, total: float | None) -> Iterator[Progress]:
    """Yield what shows progress on stderr; None is a total that nobody knows."""
    on = console(stderr=True)
    if not on.is_interactive:
        yield _Lines(title)
        return
    bar = _Bar(on, title, total)
    with bar.live:
        yield bar
