"""`size`: what a table needs, without a table."""

import json
import statistics

import pytest

from pynamodb_tracker.model.cost import Load, shards_for, size_for
from tests.benchmarks import layouts
from tests.cli.command import run
from tests.support.pages import ROOT, Page

SCALE = Page(ROOT / "docs" / "explanation" / "scale.md")
COMMAND = "$ pynamodb-tracker size "


@pytest.mark.parametrize("page", ["explanation/scale.md", "how-to/deploy-the-table.md"])
def test_pages_show_what_the_command_prints(page: str) -> None:
    blocks = [block.lines for block in Page(ROOT / "docs" / page).blocks() if block.text.startswith(COMMAND)]
    assert blocks
    for command, *shown in blocks:
        assert run("size", *command.removeprefix(COMMAND).split(), of="").lines == shown


def test_the_table_of_the_page_has_what_the_functions_return() -> None:
    lines = SCALE.prose()
    first = next(at for at, line in enumerate(lines) if line.startswith("| tasks per second, one step |")) + 2
    shown = lines[first : lines.index("", first)]
    assert shown == [row(Load(rate=float(line.split()[1].replace(",", "")))) for line in shown]
    assert len(shown) >= 4


def row(load: Load) -> str:
    found = size_for(load)
    units = (found.table_units, found.index_units, found.warm_index_units, found.quota_units)
    numbers = (load.rate, found.shards, found.shards_at_once, *units)
    cells = ("-" if number is None else f"{number:,.0f}" for number in numbers)
    return f"| {' | '.join(cells)} | ${found.dollars_per_hour:,.2f} |"


def test_the_page_shows_every_layout_that_the_benchmark_prints() -> None:
    lines = [line.replace("*", "") for line in SCALE.prose()]
    first = next(at for at, line in enumerate(lines) if line.startswith("| tasks per second, steps, attempts |")) + 2
    shown = [line.split(" | ")[1:] for line in lines[first : lines.index("", first)]]
    assert [" | ".join(cells) for cells in shown] == [
        f"{times * shards_for(load)} | {' | '.join(carried_at(load, times))} |"
        for load in layouts.LOADS
        for times in layouts.TIMES_SHARDS
    ]


def carried_at(load: Load, times: int) -> list[str]:
    """Return the median and the worst part of a load that is carried, in percent, by how warm the index is."""
    parts = (layouts.partitions(load, of_units) for of_units in layouts.TIMES_UNITS)
    found = (layouts.carried(load, times * shards_for(load), each) for each in parts)
    return [f"{statistics.median(each) * 100:.0f}, {min(each) * 100:.0f}" for each in found]


def test_json_has_the_load_and_what_it_needs() -> None:
    found = json.loads(run("size", "--rate", "720000/h", "--attempts", "1.5", "--json", of="").out)
    assert (found["rate"], found["steps"], found["attempts"]) == (200, 1, 1.5)
    assert (found["shards"], found["table_units"], found["index_units"]) == (2, 800, 1400)
    assert (found["dollars_per_hour"], found["quota_units"]) == (4.95, None)


def test_a_load_without_a_rate_is_refused() -> None:
    ended = run("size", "--steps", "3")
    assert (ended.code, "--rate" in ended.err) == (2, True)
