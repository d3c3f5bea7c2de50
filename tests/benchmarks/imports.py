"""CPU time of importing the library in a fresh interpreter, above bare Python and above PynamoDB."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator

from tests.benchmarks.tables import table

__all__ = ["report"]

IMPORTS = {
    "bare Python": "",
    "botocore.session": "import botocore.session; ",
    "pynamodb.models": "import pynamodb.models; ",
    "pynamodb_tracker": "import pynamodb_tracker; ",
}
ROUNDS = 11
TOLD = "import time; print(time.process_time())"


def report() -> Iterator[str]:
    yield f"CPU time of an import in a fresh interpreter; medians of {ROUNDS} interleaved runs"
    times: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(ROUNDS):
        for name, statement in IMPORTS.items():
            times[name].append(cpu_of(statement))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    bare, pynamodb = medians["bare Python"], medians["pynamodb.models"]
    rows = [
        [
            name,
            f"{median * 1000:.0f} ms",
            f"{(median - bare) * 1000:.0f} ms",
            f"{(median - bare) / (pynamodb - bare):.2f}",
        ]
        for name, median in medians.items()
    ]
    yield from table(["import", "whole process", "above bare Python", "of pynamodb.models"], rows)
    above = medians["pynamodb_tracker"] - pynamodb
    yield f"pynamodb_tracker above pynamodb.models: {above * 1000:.0f} ms"


def cpu_of(statement: str) -> float:
    """Return the CPU seconds that a fresh interpreter has used after the statement, its own start included."""
    done = subprocess.run([sys.executable, "-c", statement + TOLD], capture_output=True, text=True, check=True)  # noqa: S603 - it is this Python
    return float(done.stdout)
