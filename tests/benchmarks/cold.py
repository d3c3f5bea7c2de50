"""CPU time of a function's import and of its first invocation, in the client that runs handlers in AWS Lambda."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Iterator

from tests.aws_lambda.runtime import Runtime
from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.tables import table
from tests.benchmarks.ways import LIBRARY, engine, missing, peers

__all__ = ["report"]

POWERTOOLS = "Powertools idempotency"
PROGRAMS = {
    LIBRARY: "tests.benchmarks.cold_tracker",
    POWERTOOLS: "tests.benchmarks.cold_powertools",
}
ROUNDS = 9


def report() -> Iterator[str]:
    yield f"CPU time in awslambdaric, the client built at import, against DynamoDB Local; medians of {ROUNDS} processes"
    if importlib.util.find_spec("awslambdaric") is None:
        yield "left out: awslambdaric is built for Linux only"
        return
    yield from missing()
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        ways = {LIBRARY: ByTracker(), **{name: make() for name, make in peers().items() if name in PROGRAMS}}
        for way in ways.values():
            way.make_table()
        taken: dict[str, list[list[float]]] = {name: [] for name in ways}
        for number in range(ROUNDS + 1):
            for name, way in ways.items():
                way.create(f"o-{number}", {})
                times = times_of(PROGRAMS[name], way.table, found.endpoint, f"o-{number}")
                if number:  # the first process writes what Python compiles
                    taken[name].append(times)
    medians = {name: [statistics.median(kind) for kind in zip(*times, strict=True)] for name, times in taken.items()}
    rows = [[name, *(f"{seconds * 1000:.0f} ms" for seconds in times)] for name, times in medians.items()]
    yield from table(["", "import", "first invocation", "second"], rows)
    if POWERTOOLS in medians:
        yield f"first invocation: {medians[LIBRARY][1] / medians[POWERTOOLS][1]:.2f} of that of {POWERTOOLS}"


def times_of(module: str, table_name: str, endpoint: str, task_id: str) -> list[float]:
    """Return the CPU seconds of the import, of the first invocation, and of a repeated one."""
    environment = {"AWS_ENDPOINT_URL_DYNAMODB": endpoint, "TABLE": table_name}
    with Runtime("handler", environment, module=module) as function:
        answers = [function.invoke({"id": task_id}) for _ in range(2)]
    for answer in answers:
        assert answer.kind == "response", answer.body
    (imported, first), (_, second) = (answer.body for answer in answers)
    return [imported, first, second]
