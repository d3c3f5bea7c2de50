"""Output for people. Stored text cannot send control characters to the terminal."""

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
from rich.table import Table
from rich.text import Text

from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.text import escaped

if TYPE_CHECKING:
    from pynamodb_tracker.cli.progress_bar import ProgressBar


def quoted(text: str) -> str:
    r"""Quote the text for a shell. Unprintable characters become `$'\x1b'`."""
    if text.isprintable():
        return shlex.quote(text)
    inside = "".join(each if each.isprintable() else escaped(each) for each in text.replace("\\", "\\\\"))
    return "$'" + inside.replace("'", "\\'") + "'"


class StdoutError(OSError):
    """The command cannot write to stdout."""


@contextmanager
def _printing() -> Iterator[None]:
    """Turn errors of stdout into StdoutError, except BrokenPipeError."""
    try:
        yield
    except (BrokenPipeError, StdoutError):
        raise
    except OSError as error:
        raise StdoutError(error.errno, error.strerror or str(error)) from error


class _Console(Console):
    """A console that escapes control characters, and raises BrokenPipeError instead of exiting with 1."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(escaped, segment.text.split("\n"))), segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        with _printing():
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - rich calls this where it has caught the error


def console(*, stderr: bool = False) -> Console:
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def say(text: str | Text, on: Console | None = None) -> None:
    (on or console()).print(text, soft_wrap=True)


def warn(text: str) -> None:
    """Print a line on stderr, without wrapping it, and above the live bar if there is one."""
    on = _live_bars[-1].console if _live_bars else console(stderr=True)
    on.print(escaped(text), soft_wrap=True)


def write(text: str) -> None:
    """Write to stdout for programs. Raise StdoutError if it is closed."""
    if sys.stdout is None:
        raise StdoutError(errno.EBADF, "it is closed")
    with _printing():
        sys.stdout.write(text)


def flush() -> None:
    """Flush stdout, so that a full disk is reported here and not when Python exits."""
    if sys.stdout is not None:
        with _printing():
            sys.stdout.flush()


def say_id(task_id: str) -> None:
    """Print an id for a command that reads ids from stdin. It is escaped at a terminal or if it has a line break."""
    is_one_line = task_id.splitlines() == [task_id]
    write(f"{task_id if is_one_line and not sys.stdout.isatty() else escaped(task_id)}\n")


def say_json(document: object) -> None:
    write(exact_json.dumps(document, indent=2) + "\n")


def say_json_array(entries: Iterable[Mapping[str, Any]]) -> None:
    """Print a JSON array on stdout, one entry per line as it is read."""
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


# Tables.

_BLOCK = 200  # rows that are aligned together, so that a long table appears in blocks

_GAP, _LONGEST_ID, _SHORTEST_ID = 2, 40, 12
"""Spaces between columns, the id width that is not folded if there is room (a UUID), and the least id width."""

_ALIGNED_RIGHT = frozenset({"age", "attempt", "due", "first", "newest", "tasks"})

Cell = str | Text


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Cell]], on: Console | None = None) -> int:
    """Print rows under titles, and return their number. A terminal cuts the last column and folds others."""
    on, coming, printed = on or console(), iter(rows), 0
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
    """Return the width above which columns fold. The last column gets a third."""
    left = room - min(room // 3, widths[-1]) - _GAP * len(widths)
    possible = range(_SHORTEST_ID, max(_LONGEST_ID, room // 3) + 1)
    fitting = (each for each in possible if sum(min(width, each) for width in widths[:-1]) <= left)
    return max(fitting, default=_SHORTEST_ID)


def styled(text: str, style: str = "") -> Text:
    """Return a cell with a style. Its text is escaped first, because rich drops some control characters."""
    return Text(escaped(text), style)


# Progress.

_LINE_EVERY = 5.0

_live_bars: "list[ProgressBar]" = []
"""The bar on the screen. Its console has to print other text, or a copy of the bar would stay there."""


class Progress:
    """Shows progress on stderr, with a live bar at a terminal or else a line every five seconds."""

    def __init__(self, title: str = "", bar: "ProgressBar | None" = None) -> None:
        self._title = title
        self._bar = bar
        self._next_line = time.monotonic() + _LINE_EVERY

    def show(self, done: float, note: str) -> None:
        if self._bar is not None:
            (task,) = self._bar.tasks
            total = None if task.total is None else max(task.total, done)  # there may be more than was counted
            self._bar.update(task.id, total=total, completed=done, note=note)
        elif time.monotonic() >= self._next_line:
            warn(f"{self._title}: {note}")
            self._next_line = time.monotonic() + _LINE_EVERY

    def end(self) -> None:
        if self._bar is not None:
            (task,) = self._bar.tasks
            self._bar.update(task.id, total=task.completed or 1, completed=task.completed or 1)

    def leave(self) -> None:
        """Show the cursor again before the process exits at once."""
        if self._bar is not None:
            with suppress(OSError):
                os.write(2, b"\n\x1b[?25h")  # a stuck thread may hold the bar's lock


@contextmanager
def progress(title: str, total: float | None) -> Iterator[Progress]:
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
