"""The page about the commands shows what they print."""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from pynamodb_tracker import Task
from pynamodb_tracker.cli.command import load_class
from pynamodb_tracker.testing import StoppedClock, local_table
from tests.cli.command import run
from tests.support.pages import ROOT, Block, Page

PAGE = Page(ROOT / "docs" / "how-to" / "steer-from-the-terminal.md")
SHOWN = [block for block in PAGE.blocks() if block.language == "console"]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Task]]:
    """Be in a folder with the module of the page, its table in memory."""
    (classes,) = [block for block in PAGE.blocks() if block.language == "python"]
    (tmp_path / "shop.py").write_text(classes.text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    table = load_class("shop:AppTask")
    with local_table(table):
        table.delete_table()
        yield table
        table.tracker.connection().connection.client.close()
    del sys.modules["shop"]


@pytest.mark.usefixtures("table")
def test_every_command_of_the_page_prints_what_the_page_shows(stopped_clock: StoppedClock) -> None:
    stopped_clock.advance(timedelta(0))
    commands = 0
    for block in SHOWN:
        command, *lines = block.lines
        name, *arguments = shlex.split(command.removeprefix("$ "))
        if name == "cat":
            Path(arguments[0]).write_text("\n".join(lines))
        elif name == "pynamodb-tracker":
            stopped_clock.advance(pause_before(block))
            order = ["--threads", "1"] if arguments[0] in {"load", "run", "retry"} else []
            ended = run(*arguments, *order, of="shop:Order")
            assert (block.line, untimed(ended.lines)) == (block.line, untimed(lines)), ended.err
            commands += 1
    assert commands > 10


def untimed(lines: Sequence[str]) -> list[str]:
    """Leave out how long a run took, which depends on the machine."""
    return [re.sub(r" in \d\w+(, [\d,]+/s)?$", "", line) for line in lines]


def pause_before(block: Block) -> timedelta:
    """Return the time that passes before a command, as the page tells."""
    above = "\n".join(PAGE.lines[: block.line - 2]).rstrip().splitlines()[-1]
    return timedelta(hours=2) if above == "Two hours later:" else timedelta(milliseconds=1)
