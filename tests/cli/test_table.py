"""Tables of text: what they do with a terminal that is too narrow, and with a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from pynamodb_tracker.cli.terminal.table import Cell, Column, Table

COLUMNS = (Column("task"), Column("age", right=True), Column("error"))


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def printed(rows: Sequence[Sequence[str | Cell]], width: int | None) -> list[str]:
    """Return the lines of a table at a terminal of that width, or in a pipe."""
    file = StringIO() if width is None else Terminal()
    console = Console(file=file, width=width or 80, no_color=True, force_terminal=False)
    assert Table(console, COLUMNS).print(rows) == len(rows)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [None, 40])
def test_columns_are_as_wide_as_their_longest_text(width: int | None) -> None:
    assert printed([("o-1", "5m", "no"), (Cell("order-2", "bold"), "12m", "")], width) == [
        "task     age  error",
        "o-1       5m  no",
        "order-2  12m",
    ]


def test_the_last_column_is_cut_at_a_terminal_alone() -> None:
    row = ("o-1", "5m", "x" * 100)
    assert printed([row], 40)[1] == f"o-1    5m  {'x' * 28}…"
    assert printed([row], None)[1] == f"o-1    5m  {'x' * 100}"


@pytest.mark.parametrize("width", [80, 140])
def test_an_id_is_never_cut(width: int) -> None:
    long = "long-" + "x" * 200
    lines = printed([("o-1", "5m", "e" * 200), (long, "7m", "e" * 200)], width)
    assert long in lines
    assert lines[3].split() == ["7m", lines[3].split()[1]]
    assert lines[3].index("7m") == lines[1].index("5m")
    assert max(map(len, [*lines[:2], lines[3]])) == width
    assert f"{long}   7m  {'e' * 200}" in printed([(long, "7m", "e" * 200)], None)


def test_wide_characters_take_two_columns() -> None:
    lines = printed([("日本語", "5m", "no"), ("abcdef", "5m", "no")], 40)
    assert {cell_len(line) for line in lines[1:]} == {len("abcdef   5m  no")}


def test_rows_after_the_first_ones_need_not_fit() -> None:
    rows = [("o-1", "5m", "no")] * 200 + [("o-1234567", "5m", "no")]
    assert printed(rows, None)[-1] == "o-1234567   5m  no"
    assert printed(rows, 40)[-2:] == ["o-1234567", "       5m  no"]


def test_rows_are_read_as_they_are_printed() -> None:
    file = StringIO()
    seen: list[int] = []

    def rows() -> Iterator[Sequence[str]]:
        for number in range(1000):
            seen.append(file.getvalue().count("\n"))
            yield (f"o-{number}", "", "")

    Table(Console(file=file), COLUMNS).print(rows())
    assert seen[-1] == 1000


def test_without_rows_nothing_is_printed() -> None:
    assert printed([], 40) == []


def test_ids_as_long_as_a_uuid_stay_on_the_line_of_their_task() -> None:
    task_id = "9f0c1b7e-8a67-4c15-9d4b-0123456789ab"
    lines = printed([(task_id, "5m", "e" * 200)], 80)
    assert [len(lines), lines[1]] == [2, f"{task_id}   5m  {'e' * 36}…"]
