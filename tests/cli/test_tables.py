"""Tables: what a terminal that is too narrow cuts, and what a pipe gets."""

from collections.abc import Iterator, Sequence
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from pynamodb_tracker.cli.terminal import Cell, print_table, styled

COLUMNS = ("task", "age", "error")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def printed(
    monkeypatch: pytest.MonkeyPatch, rows: Sequence[Sequence[Cell]], width: int | None, *, colour: bool = False
) -> list[str]:
    """Return the lines of a table at a terminal of that width, or in a pipe."""
    file = StringIO() if width is None else Terminal()
    console = Console(file=file, width=width or 80, no_color=not colour, force_terminal=colour)
    monkeypatch.setattr("pynamodb_tracker.cli.terminal.console", lambda: console)
    assert print_table(COLUMNS, rows) == len(rows)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [None, 40])
def test_columns_are_as_wide_as_their_longest_text(monkeypatch: pytest.MonkeyPatch, width: int | None) -> None:
    assert printed(monkeypatch, [("o-1", "5m", "no"), (styled("order-2", "bold"), "12m", "")], width) == [
        "task     age  error",
        "o-1       5m  no",
        "order-2  12m",
    ]


def test_the_last_column_is_cut_at_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("o-1", "5m", "two words, and " + "x" * 100)
    assert printed(monkeypatch, [row], 40)[1:] == [f"o-1    5m  two words, and {'x' * 13}…"]
    assert printed(monkeypatch, [row], None)[1:] == [f"o-1    5m  two words, and {'x' * 100}"]


@pytest.mark.parametrize("width", [80, 140])
def test_an_id_is_never_cut_but_folded_at_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    long = "long-" + "x" * 200
    lines = printed(monkeypatch, [("o-1", "5m", "e" * 200), (long, "7m", "e" * 200)], width)
    assert "".join(line.split()[0] for line in lines[2:]) == long
    assert lines[2].index("7m") == lines[1].index("5m")
    assert max(map(len, lines)) == width
    assert f"{long}   7m  {'e' * 200}" in printed(monkeypatch, [(long, "7m", "e" * 200)], None)


def test_two_long_columns_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, [("i" * 100, "r" * 30, "e" * 200)], 80)
    assert lines[1] == f"{'i' * 24}  {'r' * 24}  {'e' * 27}…"
    assert lines[2].split() == ["i" * 24, "r" * 6]


def test_wide_characters_take_two_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, [("日本語", "5m", "no"), ("abcdef", "5m", "no")], 40)
    assert {cell_len(line) for line in lines[1:]} == {len("abcdef   5m  no")}


@pytest.mark.parametrize("width", [None, 40])
def test_columns_become_wider_after_the_first_rows(monkeypatch: pytest.MonkeyPatch, width: int | None) -> None:
    rows = [("o-1", "5m", "no")] * 200 + [("o-1234567", "5m", "no"), ("o-1", "5m", "no")]
    lines = printed(monkeypatch, rows, width)
    assert lines[:2] == ["task  age  error", "o-1    5m  no"]
    assert lines[-2:] == ["o-1234567   5m  no", "o-1         5m  no"]


def test_rows_are_printed_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    file = StringIO()
    monkeypatch.setattr("pynamodb_tracker.cli.terminal.console", lambda: Console(file=file))
    seen: list[int] = []

    def rows() -> Iterator[Sequence[str]]:
        for number in range(1000):
            seen.append(file.getvalue().count("\n"))
            yield (f"o-{number}", "", "")

    print_table(COLUMNS, rows())
    assert seen[-1] == 801


def test_without_rows_nothing_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, [], 40) == []


def test_ids_as_long_as_a_uuid_stay_on_the_line_of_their_task(monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = "9f0c1b7e-8a67-4c15-9d4b-0123456789ab"
    assert printed(monkeypatch, [(task_id, "5m", "e" * 200)], 80)[1:] == [f"{task_id}   5m  {'e' * 36}…"]


def test_control_characters_of_cells_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "a\r\x07\x1b[2J"
    assert printed(monkeypatch, [(evil, styled(evil), evil)], None)[1].split() == [r"a\r\x07\x1b[2J"] * 3


def test_styles_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(styled("o-1", "bold"), "5m", "no")]
    assert "\x1b[1mo-1" in printed(monkeypatch, rows, 40, colour=True)[1]
    assert printed(monkeypatch, rows, 40)[1] == "o-1    5m  no"
