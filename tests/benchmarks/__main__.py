"""Prints the benchmarks that the command line names, or all of them: 20 minutes on two cores."""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks import batch, cold, cost, cpu, imports, latency, layouts, loops, queries, settings, workers
from tests.benchmarks.ways import missing
from tests.conftest import prepare_process

BENCHMARKS: dict[str, Callable[[], Iterator[str]]] = {
    "cost": cost.report,
    "settings": settings.report,
    "cpu": cpu.report,
    "imports": imports.report,
    "cold": cold.report,
    "workers": workers.report,
    "batch": batch.report,
    "loops": loops.report,
    "queries": queries.report,
    "layouts": layouts.report,
    "latency": latency.report,
}

PRINTED = Path(__file__).parent / "printed"
KEPT = ("cost", "cpu")
"""Their tables are kept: tests/cost/test_cost_page.py compares docs/explanation/cost.md with them."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(BENCHMARKS)}")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}: choose from {', '.join(BENCHMARKS)}")
    prepare_process()
    for name in given.names or [*BENCHMARKS]:
        began, lines = time.monotonic(), list[str]()
        for line in BENCHMARKS[name]():
            print(line, flush=True)  # noqa: T201 - the tables are what this script is for
            lines.append(line)
        if name in KEPT and not [*missing()]:
            (PRINTED / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name} took {time.monotonic() - began:.0f} s\n", flush=True)  # noqa: T201 - the same


if __name__ == "__main__":
    main()
