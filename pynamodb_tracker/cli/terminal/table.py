"""A table of text, printed while its rows come; nothing is cut but the last column, and that at a terminal only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pynamodb_tracker.cli.terminal.echo import escaped, width_at_terminal

__all__ = ["Cell", "Column", "Table"]

_GAP = "  "
_LOOK = 200
"""Rows that are looked at for the widths of the columns before the first one is printed."""

_NARROWEST, _LEAST = 8, 20
"""Columns of a terminal that a column is not made smaller than, and that the last one has in any case."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, and how it looks in colour."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, and whether its texts stand to the right."""

    title: str
    right: bool = False


Row = Sequence[str | Cell]


class Table:
    """Columns of text, two spaces apart; a cell that is too long for its column has a line of its own."""

    def __init__(self, console: Console, columns: Sequence[Column]) -> None:
        self._console = console
        self._columns = columns
        self._width = width_at_terminal(console)
        self._widths: list[int] = []

    def print(self, rows: Iterable[Row]) -> int:
        """Print the title and the rows, and return how many; without a row it prints nothing."""
        coming = iter(rows)
        first = list(islice(coming, _LOOK))
        if not first:
            return 0
        self._widths = list(self._measured([[column.title for column in self._columns], *first]))
        self._line([Cell(column.title, "bold") for column in self._columns])
        printed = 0
        for row in chain(first, coming):
            self._line(row)
            printed += 1
        return printed

    def _measured(self, rows: Sequence[Row]) -> Iterator[int]:
        """Yield how wide each column is: as its longest text, and at a terminal so that the last one has room."""
        widths = [max(cell_len(_cell(row[at]).text) for row in rows) for at in range(len(self._columns) - 1)]
        if self._width is not None and widths:
            longest = max(cell_len(_cell(row[-1]).text) for row in rows)
            room = self._width - sum(widths) - len(_GAP) * len(widths)
            if room < min(longest, _LEAST):  # less than that is no use to anybody: a column gives way, and its ids too
                over = min(longest, self._width // 2) - room
                widest = max(range(len(widths)), key=widths.__getitem__)
                widths[widest] = max(widths[widest] - over, cell_len(self._columns[widest].title), _NARROWEST)
        yield from widths

    def _line(self, row: Row) -> None:
        line = Text()
        for at, width in enumerate(self._widths):
            cell, right = _cell(row[at]), self._columns[at].right
            space = width - cell_len(cell.text)
            if space < 0 and self._width is not None:
                self._console.print(line.append(cell.text, cell.style), soft_wrap=True)
                line = Text(" " * (sum(self._widths[: at + 1]) + len(_GAP) * at))
            else:
                line.append(" " * space if right else "").append(cell.text, cell.style)
                line.append("" if right else " " * space)
            line.append(_GAP)
        last = _cell(row[-1])
        room = None if self._width is None else max(self._width - line.cell_len, _LEAST)
        line.append_text(_cut(Text(last.text, last.style), room))
        line.rstrip()
        self._console.print(line, soft_wrap=True)


def _cut(text: Text, room: int | None) -> Text:
    if room is not None and text.cell_len > room:
        text.truncate(room, overflow="ellipsis")
    return text


def _cell(cell: str | Cell) -> Cell:
    """Return a cell whose text can be printed."""
    return Cell(escaped(cell)) if isinstance(cell, str) else Cell(escaped(cell.text), cell.style)
