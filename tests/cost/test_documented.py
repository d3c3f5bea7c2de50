"""README and the page about cost say what the benchmark measures."""

from itertools import islice
from pathlib import Path

import pytest

from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.cost import SIZES, measured
from tests.benchmarks.usage import Usage
from tests.benchmarks.ways import engine

ROOT = Path(__file__).parents[2]
LONG = "failure with a traceback of 2 KB"
AGAIN = "the same failure again"


@pytest.fixture(scope="module")
def found() -> list[dict[str, Usage]]:
    """Measure all operations but the last one, a query, with each size of data."""
    with engine() as how:
        if isinstance(how, str):
            pytest.skip(how)
        way = ByTracker()
        found = [dict(islice(measured(way, size), 8)) for size in SIZES.values()]
        way.client.close()
        return found


def cells(page: str, row: str) -> list[str]:
    """Return the cells of a row of a table."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    ((_, *found),) = [line for line in lines if line[0].strip() == row and not line[1].strip().startswith("**")]
    return [cell.strip() for cell in found]


def shown(*values: float) -> str:
    return "; ".join(f"{value:g}" for value in values)


def test_the_readme_says_what_a_run_takes(found: list[dict[str, Usage]]) -> None:
    small = found[0]
    run, failing, first = small["run"], small["failing run"], small[LONG]
    assert cells("README.md", "create") == [shown(small["create"].requests), shown(small["create"].write_units)]
    assert cells("README.md", "run: claim and finish") == [shown(run.requests), shown(run.write_units)]
    assert cells("README.md", "run that fails") == [shown(failing.requests), shown(failing.write_units)]
    assert cells("README.md", "run that fails with a new, long traceback") == [
        shown(first.requests),
        shown(first.write_units),
    ]
    assert (small[AGAIN].requests, small[AGAIN].write_units) == (failing.requests, failing.write_units)
    refused = small["refused, with the reason"]
    assert cells("README.md", "refused claim, with its reason") == [
        shown(refused.requests),
        f"{shown(refused.write_units)}, and {shown(refused.read_units)} read unit",
    ]


def test_the_page_says_what_failures_and_large_data_take(found: list[dict[str, Usage]]) -> None:
    page, small = "docs/explanation/cost.md", found[0]
    assert cells(page, f"a {LONG}") == [shown(small[LONG].write_units), "0"]
    assert cells(page, AGAIN) == [shown(small[AGAIN].write_units), "0"]
    assert cells(page, "create") == [shown(each["create"].write_units) for each in found]
    assert cells(page, "run that does not use it") == [shown(each["run"].write_units) for each in found]
    assert cells(page, "run that changes it") == [
        " and ".join(map(shown, filter(None, (each[name].write_units, each[name].read_units))))
        for each in found
        for name in ("run that adds to data",)
    ]


def test_a_failure_costs_the_same_whatever_the_size_of_the_data(found: list[dict[str, Usage]]) -> None:
    for name, expected in {"failing run": (2, 6), LONG: (3, 7), AGAIN: (2, 6)}.items():
        assert {(each[name].requests, each[name].write_units) for each in found} == {expected}
