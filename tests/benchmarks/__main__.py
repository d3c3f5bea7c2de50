"""Prints the benchmarks that are named on the command line, or all but the soak: 20 minutes on two cores."""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

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
        began = time.monotonic()
        for line in benchmarks[name]():
            print(line, flush=True)  # noqa: T201 - the tables are what this script is for
        print(f"{name} took {time.monotonic() - began:.0f} s\n", flush=True)  # noqa: T201 - the same


if __name__ == "__main__":
    main()
