"""CPU time of an import in a fresh interpreter, above bare Python and against that of PynamoDB."""

import importlib.util
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

from tests.benchmarks.tables import table
from tests.benchmarks.ways import missing

MODULES = {
    "botocore": "botocore.session",
    "PynamoDB": "pynamodb.models",
    "pynamodb_tracker": "pynamodb_tracker.task.task",  # the package itself imports nothing
    "pynamodb_tracker.opentelemetry": "pynamodb_tracker.opentelemetry",
    "pynamodb_mate, status tracker": "pynamodb_mate.patterns.status_tracker.api",
    "Powertools idempotency, its DynamoDB layer": "aws_lambda_powertools.utilities.idempotency.persistence.dynamodb",
}
BARE = "bare Python"
ROUNDS = 11
TOLD = "import time; print(time.process_time())"


def report() -> Iterator[str]:
    yield f"CPU time of an import in a fresh interpreter; medians of {ROUNDS} interleaved runs"
    yield from missing()
    statements = {BARE: TOLD}
    for name, module in MODULES.items():
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            statements[name] = f"import {module}; {TOLD}"
    for statement in statements.values():
        cpu_of(statement)  # writes what Python compiles, once
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(ROUNDS):
        for name, statement in statements.items():
            times[name].append(cpu_of(statement))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    bare, pynamodb = medians[BARE], medians["PynamoDB"]
    rows = [
        [
            name,
            f"{median * 1000:.0f} ms",
            f"{(median - bare) * 1000:.0f} ms",
            f"{(median - bare) / (pynamodb - bare):.2f}",
        ]
        for name, median in medians.items()
    ]
    yield from table(["import", "whole process", "above bare Python", "of PynamoDB"], rows)
    above = medians["pynamodb_tracker"] - pynamodb
    yield f"pynamodb_tracker above PynamoDB: {above * 1000:.0f} ms"


def cpu_of(statement: str) -> float:
    """Return the CPU seconds that a fresh interpreter has used after the statement, its own start included."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", statement]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603 - it is this Python
    return float(done.stdout)
