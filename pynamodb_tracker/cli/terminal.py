"""What a command prints for people: sentences, tables and progress, none of which can steer a terminal."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.text import escaped
from pynamodb_tracker.status import Status

if TYPE_CHECKING:
    from pynamodb_tracker.cli.progress_bar import ProgressBar


def quoted(text: str) -> str:
    r"""Return the text as a word for a shell; unprintable characters as bash and zsh read them, `$'\x1b'`."""
    if text.isprintable():
        return shlex.quote(text)
    inside = "".join(each if each.isprintable() else escaped(each) for each in text.replace("\\", "\\\\"))
    return "$'" + inside.replace("'", "\\'") + "'"


class StdoutError(OSError):
    """The command's own output cannot be written."""


@contextmanager
def _printing() -> Iterator[None]:
    """Tell errors of the command's own output from all others; a closed pipe stays what it is."""
    try:
        yield
    except (BrokenPipeError, StdoutError):
        raise
    except OSError as error:
        raise StdoutError(error.errno, error.strerror or str(error)) from error


class _Console(Console):
    """A console that no text can steer, and that leaves a closed pipe to the command: rich would exit with 1."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Escape all text that is printed, wherever it comes from; only rich's own controls reach the terminal."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(escaped, segment.text.split("\n"))), segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, as `Console.print` does."""
        with _printing():
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - rich calls this where it has caught the error


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is, and colours nothing by itself."""
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def say(text: str | Text, on: Console | None = None) -> None:
    """Print a line on stdout, however long."""
    (on or console()).print(text, soft_wrap=True)


def warn(text: str) -> None:
    """Print a line on stderr, however long; above the live bar if there is one."""
    on = _live_bars[-1].console if _live_bars else console(stderr=True)
    on.print(escaped(text), soft_wrap=True)


def write(text: str) -> None:
    """Write to stdout for programs; a StdoutError if it is closed, which `say` ignores."""
    if sys.stdout is None:
        raise StdoutError(errno.EBADF, "it is closed")
    with _printing():
        sys.stdout.write(text)


def flush() -> None:
    """Write what is buffered: a full disk is found here, and not when Python exits."""
    if sys.stdout is not None:
        with _printing():
            sys.stdout.flush()


def say_id(task_id: str) -> None:
    """Print an id for a command that reads ids from stdin: as it is, but at a terminal it is escaped.

    An id with a line break is always escaped, because it would be read as two.
    """
    is_one_line = task_id.splitlines() == [task_id]
    write(f"{task_id if is_one_line and not sys.stdout.isatty() else escaped(task_id)}\n")


def say_json(document: object) -> None:
    """Print one JSON document on stdout."""
    write(exact_json.dumps(document, indent=2) + "\n")


def say_json_array(entries: Iterable[Mapping[str, Any]]) -> None:
    """Print a JSON array on stdout, one entry a line, each as soon as it is read."""
    before = "["
    for entry in entries:
        write(f"{before}\n  {exact_json.dumps(entry)}")
        before = ","
    write("[]\n" if before == "[" else "\n]\n")


COLOURS: dict[Status | None, str] = {
    Status.PENDING: "cyan",
    Status.IN_PROGRESS: "blue",
    Status.FAILED: "red",
    Status.IGNORED: "magenta",
    Status.SUCCEEDED: "green",
    None: "yellow",
}
"""By the status of a state; None is a code that no step declares."""


# Tables.

_BLOCK = 200
"""Rows that are read and aligned at a time, so that a long table is printed while it is read."""

_GAP, _LONGEST_ID, _SHORTEST_ID = 2, 40, 12
"""Spaces between columns, the width of an id, such as a UUID, that stays on one line at a terminal if there is room for
it, and the least width that is left to it."""

_ALIGNED_RIGHT = frozenset({"age", "attempt", "due", "first", "newest", "tasks"})
"""The titles of columns of numbers and durations."""

Cell = str | Text


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> int:
    """Print rows under the titles of their columns, and return how many; without a row, print nothing.

    At a terminal, the last column is cut if there is no room, and long texts in other columns, such as ids, are folded.
    Elsewhere lines are as long as they need to be.
    """
    from rich.table import Table  # noqa: PLC0415 - slow to import

    on, coming, printed = console(), iter(rows), 0
    widths = [cell_len(title) for title in titles]
    while block := [
        [styled(each) if isinstance(each, str) else each for each in row] for row in islice(coming, _BLOCK)
    ]:
        widths = [max(width, *(row[at].cell_len for row in block)) for at, width in enumerate(widths)]
        is_cut = on.file.isatty()
        room = on.width if is_cut else sum(widths) + _GAP * len(widths)
        longest = _longest(widths, room)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=not printed, header_style="bold")
        for at, (title, width) in enumerate(zip(titles, widths, strict=True)):
            is_last = at == len(titles) - 1
            table.add_column(
                title,
                justify="right" if title in _ALIGNED_RIGHT else "left",
                overflow="ellipsis" if is_last else "fold",
                width=None if is_last else min(width, longest) if is_cut else width,
            )
        for row in block:
            row[-1].no_wrap = True
            table.add_row(*row)
        for line in on.render_lines(table, on.options.update(width=room), pad=False):
            text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
            text.rstrip()
            on.print(text, soft_wrap=True)
        printed += len(block)
    return printed


def _longest(widths: Sequence[int], room: int) -> int:
    """Return the width up to which columns are not folded: the last one gets a third, the others share what is left."""
    left = room - min(room // 3, widths[-1]) - _GAP * len(widths)
    possible = range(_SHORTEST_ID, max(_LONGEST_ID, room // 3) + 1)
    fitting = (each for each in possible if sum(min(width, each) for width in widths[:-1]) <= left)
    return max(fitting, default=_SHORTEST_ID)


def styled(text: str, style: str = "") -> Text:
    """Return a cell with a style; its text is escaped first, because rich drops some control characters."""
    return Text(escaped(text), style)


# Progress.

_LINE_EVERY = 5.0
"""Seconds between two plain lines."""

_live_bars: list[ProgressBar] = []
"""The bar that is on the screen: what is printed otherwise than by its console would leave a copy of it there."""


class Progress:
    """Shows on stderr how far a command is: by a live bar at a terminal, by a line from time to time elsewhere."""

    def __init__(self, title: str = "", bar: ProgressBar | None = None) -> None:
        self._title = title
        self._bar = bar
        self._next_line = time.monotonic() + _LINE_EVERY

    def show(self, done: float, note: str) -> None:
        """Show how much is done, and in words what that is."""
        if self._bar is not None:
            (task,) = self._bar.tasks
            total = None if task.total is None else max(task.total, done)  # there may be more than was counted
            self._bar.update(task.id, total=total, completed=done, note=note)
        elif time.monotonic() >= self._next_line:
            warn(f"{self._title}: {note}")
            self._next_line = time.monotonic() + _LINE_EVERY

    def end(self) -> None:
        """Show that all is done, even if more was expected."""
        if self._bar is not None:
            (task,) = self._bar.tasks
            self._bar.update(task.id, total=task.completed or 1, completed=task.completed or 1)

    def leave(self) -> None:
        """Show the cursor again, for a process that exits at once."""
        if self._bar is not None:
            with suppress(OSError):
                os.write(2, b"\n\x1b[?25h")  # without the lock of the bar, which a stuck thread may hold


@contextmanager
def progress(title: str, total: float | None) -> Iterator[Progress]:
    """Yield what shows progress; `total` is None if it is unknown."""
    on = console(stderr=True)
    if not on.is_interactive:
        yield Progress(title)
        return
    from pynamodb_tracker.cli.progress_bar import ProgressBar  # noqa: PLC0415 - slow to import, and only needed here

    with ProgressBar(on, title, total) as bar:
        _live_bars.append(bar)
        try:
            yield Progress(title, bar)
        finally:
            _live_bars.remove(bar)
