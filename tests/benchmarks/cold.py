"""CPU time of a function's import and of its invocations, in the client that runs handlers in AWS Lambda."""

import importlib.util
import statistics
from collections.abc import Iterator, Sequence

from tests.aws_lambda.runtime import Runtime
from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.tables import table
from tests.benchmarks.ways import LIBRARY, engine, missing, peers

POWERTOOLS = "Powertools idempotency"
CREATING = f"{LIBRARY}, create_if_missing"
PROGRAMS = {
    LIBRARY: "tests.benchmarks.cold_tracker",
    CREATING: "tests.benchmarks.cold_creating",
    POWERTOOLS: "tests.benchmarks.cold_powertools",
}
ROUNDS = 9
NEW = 5
"""Invocations with new ids after the first one, of which the median counts."""


def report() -> Iterator[str]:
    yield f"CPU time in awslambdaric, the client built at import, against dynoxide; medians of {ROUNDS} processes"
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
        ways[CREATING] = ways[LIBRARY]
        taken: dict[str, list[list[float]]] = {name: [] for name in ways}
        for number in range(ROUNDS + 1):
            for name, way in ways.items():
                ids = [f"{name} {number} {each}" for each in range(NEW + 1)]
                if name == LIBRARY:
                    for each in ids:
                        way.create(each, {})
                times = times_of(PROGRAMS[name], way.table, found.endpoint, ids)
                if number:  # the first process writes what Python compiles
                    taken[name].append(times)
    medians = {name: [statistics.median(kind) for kind in zip(*times, strict=True)] for name, times in taken.items()}
    rows = [[name, *(f"{seconds * 1000:.1f} ms" for seconds in times)] for name, times in medians.items()]
    yield from table(["", "import", "first invocation", "the same again", "another id"], rows)
    for name in (LIBRARY, CREATING) if POWERTOOLS in medians else ():
        first, _, later = (
            mine / theirs for mine, theirs in zip(medians[name][1:], medians[POWERTOOLS][1:], strict=True)
        )
        yield f"{name}: {first:.2f} of the first invocation of {POWERTOOLS}, {later:.2f} of one with another id"


def times_of(module: str, table_name: str, endpoint: str, ids: Sequence[str]) -> list[float]:
    """Return the CPU seconds of the import, of the first invocation, of a repeated one, and of one with another id."""
    environment = {"AWS_ENDPOINT_URL_DYNAMODB": endpoint, "TABLE": table_name}
    with Runtime("handler", environment, module=module, is_new=True) as function:
        answers = [function.invoke({"id": each}) for each in (ids[0], *ids)]
    for answer in answers:
        assert answer.kind == "response", answer.body
    [imported, first], *later = (answer.body for answer in answers)
    again, *others = (taken for _, taken in later)
    return [imported, first, again, statistics.median(others)]
