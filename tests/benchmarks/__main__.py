"""Prints the benchmarks that are named on the command line, or all but the soak: 20 minutes on two cores."""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.benchmarks import (
    batch,
    cold,
    cost,
    cpu,
    finding,
    hooks,
    imports,
    latency,
    layouts,
    live,
    loops,
    page,
    queries,
    settings,
    soak,
    workers,
)
from tests.benchmarks.pipeline import report as pipeline
from tests.benchmarks.ways import missing
from tests.conftest import prepare_process

BENCHMARKS: dict[str, Callable[[], Iterator[str]]] = {
    "cost": cost.report,
    "settings": settings.report,
    "cpu": cpu.report,
    "hooks": hooks.report,
    "live": live.report,
    "imports": imports.report,
    "cold": cold.report,
    "workers": workers.report,
    "batch": batch.report,
    "loops": loops.report,
    "queries": queries.report,
    "layouts": layouts.report,
    "page": page.report,
}


BY_NAME_ONLY: dict[str, Callable[[], Iterator[str]]] = {
    "finding": finding.report,
    "lambda": pipeline.report,
    "latency": latency.report,
    "soak": soak.report,
}
"""Benchmarks that take many minutes, and run only if they are named."""

KNOWN = BENCHMARKS | BY_NAME_ONLY

PRINTED = Path(__file__).parent / "printed"
KEPT = ("cost", "cpu")
"""Their tables are kept: tests/cost/test_cost_page.py compares docs/explanation/cost.md with them."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(KNOWN)}")
    parser.add_argument(
        "--tasks", type=int, default=queries.SIZES[-1], help="the most tasks of queries and of the soak (%(default)s)"
    )
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in KNOWN]:
        parser.error(f"there is no benchmark {unknown[0]!r}: choose from {', '.join(KNOWN)}")
    prepare_process()
    sized = {"queries": partial(queries.report, most=given.tasks), "soak": partial(soak.report, most=given.tasks)}
    benchmarks = KNOWN | sized
    for name in given.names or [*BENCHMARKS]:
        began, lines = time.monotonic(), list[str]()
        for line in benchmarks[name]():
            print(line, flush=True)  # noqa: T201 - the tables are what this script is for
            lines.append(line)
        if name in KEPT and not [*missing()]:
            (PRINTED / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name} took {time.monotonic() - began:.0f} s\n", flush=True)  # noqa: T201 - the same


if __name__ == "__main__":
    main()
