"""The live bar at a terminal of 80 columns: what it shows, and what is printed while it is shown."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from unittest import mock

from rich.cells import cell_len

from pynamodb_tracker.cli.terminal import progress, warn
from tests.cli.command import Screen

_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NOTE = "1,234 succeeded, 56 failed, 3 ignored, 12 taken by others, 4 refused"


@contextmanager
def terminal() -> Iterator[Screen]:
    """Have a terminal of 80 columns as stderr; in the test itself, because pytest sets stderr after its fixtures."""
    screen, size = Screen(), {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    with mock.patch.dict(os.environ, size), redirect_stderr(screen):
        yield screen


def lines_of(screen: Screen) -> list[str]:
    return [line.rstrip() for line in re.split(r"[\r\n]+", _STEERING.sub("", screen.text))]


def test_a_long_note_goes_below_the_bar_and_nothing_is_cut() -> None:
    with terminal() as screen, progress("run confirm_payment", 2000) as shown:
        shown.show(1309, NOTE)
    lines = lines_of(screen)
    assert NOTE in lines
    (bar,) = {line for line in lines if "65%" in line}
    assert re.fullmatch(r"run confirm_payment [━╸╺]{30,} +65% \d:\d\d:\d\d( left)?", bar)


def test_a_short_note_stands_beside_the_bar() -> None:
    with terminal() as screen, progress("load", 4) as shown:
        shown.show(4, "4 tasks created")
    assert re.search(r"load ━{20,} 100% 0:00:00 +4 tasks created", _STEERING.sub("", screen.text))


def test_the_mark_of_an_interrupt_fits_beside_the_bar() -> None:
    with terminal() as screen, progress("run confirm_payment", 20) as shown:
        shown.show(3, NOTE)
        shown.show(4, "4 succeeded")
    assert max(map(cell_len, lines_of(screen))) <= 80 - len("^C^C")


def test_a_warning_erases_the_bar_before_it_is_printed() -> None:
    with terminal() as screen, progress("run ship", 20) as shown:
        shown.show(3, NOTE)
        warn("stopping: waiting for 4 tasks to finish (Ctrl-C again leaves them locked)")
    assert re.search(r"\r\x1b\[2K(\x1b\[1A\x1b\[2K)?$", screen.text.partition("stopping: ")[0])


def test_after_the_bar_warnings_are_plain_lines() -> None:
    with terminal() as screen:
        with progress("run ship", 20):
            pass
        before = len(screen.text)
        warn("and so on")
    assert screen.text[before:] == "and so on\n"
