"""Time, requests, read units and memory of status queries, as the table has more and more tasks."""

import itertools
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from pynamodb_tracker.clock import stamp
from tests.benchmarks.orders import Order, data_of
from tests.benchmarks.tables import table
from tests.benchmarks.usage import usages
from tests.benchmarks.ways import LIBRARY, Way, engine, missing, ways

SIZES = (100, 1_000, 10_000, 100_000)
MOST_OF_ALL = 10_000
"""Beyond it the library alone is measured: the engine has a gigabyte of memory."""
REPEATED = 5
WARM_UP = 50
BATCH = 25
THREADS = 4
LIMIT = 10
FIRST = "o-0"
TIMES = ("due_time", "update_time", "create_time")

Query = Callable[[], object]


def report() -> Iterator[str]:
    yield "Status queries over pending tasks of 0.2 KB, by how many there are"
    yield from missing()
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        made = {name: way() for name, way in ways().items() if name in QUERIES}
        for way in made.values():
            way.make_table()
        for begin, size in itertools.pairwise([0, *SIZES]):
            measured = made if size <= MOST_OF_ALL else {LIBRARY: made[LIBRARY]}
            for way in measured.values():
                fill(way, begin, size)
            if begin == 0:
                warm_up(made)
            yield f"\n{size:,} tasks"
            yield from of_size(measured)
        for way in made.values():
            way.drop_table()


def of_size(measured: dict[str, Way]) -> Iterator[str]:
    """Yield the table of one size, as soon as it is known: the last one takes minutes."""
    rows = [
        [query, name, *figures(way, run)] for name, way in measured.items() for query, run in QUERIES[name](way).items()
    ]
    rows.sort(key=lambda row: row[0])
    rows.append(["all of them", LIBRARY, *figures(measured[LIBRARY], every_task, once=True)])
    yield from table(["query", "way", "time", "requests", "read units"], rows, left=2)
    yield f"reading all of them held {peak(every_task) / 2**20:.1f} MB at most"


def warm_up(made: dict[str, Way]) -> None:
    """Let the engine compile what it runs: the first way would be slow for all."""
    for name, way in made.items():
        for query in QUERIES[name](way).values():
            quickest(query, WARM_UP)


def of_tracker(_: Way) -> dict[str, Query]:
    pending = Order.ship.pending
    return {
        f"{LIMIT} oldest, whole": lambda: list(pending.query(limit=LIMIT)),
        f"{LIMIT} newest, whole": lambda: list(pending.query(limit=LIMIT, latest_due_first=True)),
        "page of 100": lambda: pending.page(limit=100),
        "count": pending.count,
    }


def by_hand(way: Any) -> dict[str, Query]:
    return {f"{LIMIT} oldest, whole": lambda: way.oldest("10", LIMIT)}


QUERIES: dict[str, Callable[[Any], dict[str, Query]]] = {
    LIBRARY: of_tracker,
    "botocore by hand": by_hand,
    "pynamodb_mate": lambda way: {f"{LIMIT} oldest, whole": lambda: way.oldest(10, LIMIT)},
}


def every_task() -> None:
    for _ in Order.ship.pending.query():
        pass


def figures(way: Way, query: Query, *, once: bool = False) -> list[str]:
    times: list[float] = []
    ((_, used),) = usages(way.client, way.table, way.keys, iter([("", lambda: times.append(quickest(query, 1)))]))
    seconds = times[0] if once else quickest(query, REPEATED)
    return [f"{1000 * seconds:.1f} ms", str(used.requests), f"{used.read_units:g}"]


def quickest(query: Query, repeated: int) -> float:
    """Return the least of some times: the engine and others use the same processors."""
    times = []
    for _ in range(repeated):
        began = time.perf_counter()
        query()
        times.append(time.perf_counter() - began)
    return min(times)


def peak(query: Query) -> int:
    tracemalloc.start()
    try:
        query()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def fill(way: Way, begin: int, end: int) -> None:
    """Write rows as `create` writes them, by BatchWriteItem: each like a first one, and a millisecond later."""
    if begin == 0:
        way.create(FIRST, data_of(200))
    (first,) = way.client.scan(TableName=way.table, Limit=1)["Items"]
    copy(way, first, max(begin, 1), end)


def copy(way: Way, first: dict[str, Any], begin: int, end: int) -> None:
    """Write rows like the first one, with these numbers at the end of their ids."""
    start = datetime.now(UTC) - timedelta(days=1)

    def write(number: int) -> None:
        items = [numbered(first, each, start) for each in range(number, min(number + BATCH, end))]
        requests = [{"PutRequest": {"Item": item}} for item in items]
        assert not way.client.batch_write_item(RequestItems={way.table: requests})["UnprocessedItems"]

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(begin, end, BATCH)))


def numbered(first: dict[str, Any], number: int, start: datetime) -> dict[str, Any]:
    """Return a row like another one, of a task with that number."""
    key = "task_id" if "task_id" in first else "key"
    name = re.sub(r"\d+$", str(number), first[key]["S"])
    moment = stamp(start + timedelta(milliseconds=number))
    return {**first, key: {"S": name}, **{each: {"S": moment} for each in TIMES if each in first}}
