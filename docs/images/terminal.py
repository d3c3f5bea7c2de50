"""Draw a terminal session: `python docs/images/terminal.py [FOLDER]` writes terminal.svg and terminal-narrow.svg.

The commands and their output are real; they run on a table in memory, with a stopped clock.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from shop import AppTask, Order, charge, hand_over, print_label
from typer.testing import CliRunner

from pynamodb_tracker.cli import app
from pynamodb_tracker.testing import local_table, stopped_clock
from pynamodb_tracker.testing.tables import OneAtATime

WIDE, NARROW = 110, 54
"""Columns."""
COMMANDS = {
    WIDE: [
        "pynamodb-tracker status",
        "pynamodb-tracker errors --since 30d",
        'pynamodb-tracker retry confirm_payment shop:charge --error-contains "HTTP 503"',
    ],
    NARROW: [
        "pynamodb-tracker status",
        "pynamodb-tracker errors confirm_payment",
        "pynamodb-tracker retry confirm_payment shop:charge",
    ],
}
"""What fits into a line."""

THEME = TerminalTheme(
    (22, 27, 34),
    (230, 237, 243),
    [
        *((72, 79, 88), (255, 138, 128), (74, 222, 128), (250, 204, 21)),
        *((121, 168, 255), (232, 121, 249), (34, 211, 238), (230, 237, 243)),
    ],
)
"""Always dark, like most terminals; the colours of the states are those of states.svg."""

FONT = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'


@contextmanager
def a_day_at_the_shop() -> Iterator[None]:
    """Fill the table with orders at all steps; two of them are being shipped."""
    OneAtATime.is_in_memory = False  # it stands for a table of AWS
    with local_table(AppTask), stopped_clock(datetime(2026, 11, 2, 9, tzinfo=UTC)) as clock:
        Order.create_many({"task_id": f"o-{number}", "number": number} for number in range(1, 101))
        Order.confirm_payment.run_all(charge, limit=92)
        Order.ship.run_all(print_label, limit=65)
        Order.deliver.run_all(hand_over, limit=52)
        clock.advance(timedelta(hours=2))
        with Order.ship.start("o-80"), Order.ship.start("o-82"):
            yield


def session(width: int) -> Iterator[tuple[str, str]]:
    """Yield each command and its output, with colours."""
    environment = {
        "COLUMNS": str(width),
        "FORCE_COLOR": "1",
        "NO_COLOR": "",
        "PYNAMODB_TRACKER_APP": "shop:Order",
        "TERM": "xterm-256color",
    }
    with a_day_at_the_shop():
        for command in COMMANDS[width]:
            arguments = [*shlex.split(command)[1:], *(["--threads", "1"] if " retry " in command else [])]
            yield command, CliRunner().invoke(app, arguments, env=environment).stdout


def drawing(width: int) -> str:
    """Return the picture."""
    console = recording(width)
    for number, (command, printed) in enumerate(session(width)):
        console.print(Text.assemble("\n" * bool(number), ("$ ", "green"), (command, "bold")), soft_wrap=True)
        console.print(Text.from_ansi(printed.rstrip("\n")))
    return exported(console)


def recording(width: int) -> Console:
    """Return a console that records what is printed."""
    return Console(record=True, width=width, file=io.StringIO(), force_terminal=True)


def exported(console: Console) -> str:
    """Return what a console has recorded, without fonts that a browser would download."""
    console.print()  # otherwise the last line is cut off
    svg = console.export_svg(title="pynamodb-tracker", theme=THEME, unique_id="terminal")
    svg = re.sub(r"\s*@font-face \{.*?\n    \}", "", svg, flags=re.DOTALL)
    return re.sub(r"font-family: (Fira Code, monospace|arial)", f"font-family: {FONT}", svg)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent
    for name, columns in {"terminal.svg": WIDE, "terminal-narrow.svg": NARROW}.items():
        (folder / name).write_text(drawing(columns), encoding="utf-8")
