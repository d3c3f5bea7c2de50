"""Prints the benchmarks that are named on the command line, or all of them: a quarter of an hour on two cores."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

from tests.benchmarks import cold, cost, cpu, imports, layouts, live, queries, settings, workers
from tests.conftest import pytest_configure as replace_aws_settings

BENCHMARKS: dict[str, Callable[[], Iterator[str]]] = {
    "cost": cost.report,
    "settings": settings.report,
    "cpu": cpu.report,
    "live": live.report,
    "imports": imports.report,
    "cold": cold.report,
    "workers": workers.report,
    "queries": queries.report,
    "layouts": layouts.report,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(BENCHMARKS)}")
    parser.add_argument(
        "--tasks", type=int, default=queries.SIZES[-1], help="the most tasks that queries run over (%(default)s)"
    )
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}: choose from {', '.join(BENCHMARKS)}")
    replace_aws_settings()
    benchmarks = BENCHMARKS | {"queries": partial(queries.report, most=given.tasks)}
    for name in given.names or [*benchmarks]:
        began = time.monotonic()
        for line in benchmarks[name]():
            print(line, flush=True)  # noqa: T201 - the tables are what this script is for
        print(f"{name} took {time.monotonic() - began:.0f} s\n", flush=True)  # noqa: T201 - the same


if __name__ == "__main__":
    main()
