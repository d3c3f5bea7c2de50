"""Prints the benchmarks that are named on the command line, all of them by default."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from tests.benchmarks import cost, cpu, imports
from tests.conftest import pytest_configure as replace_aws_settings

BENCHMARKS: dict[str, Callable[[], Iterator[str]]] = {
    "cpu": cpu.report,
    "cost": cost.report,
    "imports": imports.report,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(BENCHMARKS)}")
    names = parser.parse_args().names or [*BENCHMARKS]
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}: choose from {', '.join(BENCHMARKS)}")
    replace_aws_settings()
    for name in names:
        for line in BENCHMARKS[name]():
            print(line, flush=True)  # noqa: T201 - the tables are what this script is for
        print()  # noqa: T201 - the same


if __name__ == "__main__":
    main()
