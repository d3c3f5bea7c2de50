"""Requests and capacity units of each operation by each way, as dynoxide reports them."""

from collections.abc import Callable, Iterator

from tests.benchmarks.by_tracker import ByTrackerInRow
from tests.benchmarks.orders import data_of
from tests.benchmarks.tables import table
from tests.benchmarks.usage import Usage, usages
from tests.benchmarks.ways import LIBRARY, Way, engine, missing, ways

SIZES = {"0.2 KB": 200, "2 KB": 2_000, "20 KB": 20_000, "200 KB": 200_000}
IN_ROW = "the same, all in the row"


def report() -> Iterator[str]:
    yield "Requests, write units (W) and read units (R) of an operation, by the size of data"
    yield from missing()
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        yield f"as reported by {found.how.partition(' (')[0]}"
        made: dict[str, Callable[[], Way]] = {}
        for name, way in ways().items():
            made[name] = way
            if name == LIBRARY:
                made[IN_ROW] = ByTrackerInRow
        by_way = {name: [dict(measured(way(), size)) for size in SIZES.values()] for name, way in made.items()}
    header = ["operation", "way", "requests", *(f"W {size}" for size in SIZES), *(f"R {size}" for size in SIZES)]
    operations = list(dict.fromkeys(operation for usages in by_way.values() for operation in usages[0]))
    rows = [
        row(operation, name, [of_size[operation] for of_size in of_way])
        for operation in operations
        for name, of_way in by_way.items()
        if operation in of_way[0]
    ]
    yield from table(header, rows, left=2)
    yield "* The engine does not say what a refused write used. AWS charges it by the size of the row that is there, so"
    yield "  the figure is that of a write of the same row that changes nothing."
    for name, way in ways().items():
        yield f"{name}: {way().about}"


def row(operation: str, name: str, used: list[Usage]) -> list[str]:
    requests = sorted({usage.requests for usage in used})
    star = "*" if any(usage.refused for usage in used) else ""
    writes = [f"{usage.write_units:g}{star}" for usage in used]
    reads = [f"{usage.read_units:g}" for usage in used]
    return [operation, name, "/".join(map(str, requests)), *writes, *reads]


def measured(way: Way, size_bytes: int) -> Iterator[tuple[str, Usage]]:
    way.make_table()
    try:
        yield from usages(way.client, way.table, way.keys, way.operations(data_of(size_bytes)))
    finally:
        way.drop_table()
