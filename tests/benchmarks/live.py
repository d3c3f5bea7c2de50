"""Client CPU and time of a run against dynoxide: the socket, the answers and the server's time are real."""

import statistics
import time
from collections.abc import Callable, Iterator

from tests.benchmarks.apart import Apart, all_apart
from tests.benchmarks.orders import Change, add_entry, data_of
from tests.benchmarks.tables import table
from tests.benchmarks.ways import LIBRARY, Way, engine, missing, ways

SIZES = {"0.2 KB": 200, "20 KB": 20_000}
BLOCKS = {"changes nothing": None, "adds to data": add_entry}
ROUNDS = 12
RUNS = 20
"""In each round of each way; the ways take turns."""
BY_HAND = "botocore by hand"

Times = list[tuple[float, float]]


def report() -> Iterator[str]:
    yield f"Client CPU and time of a run against dynoxide; medians of {ROUNDS * RUNS} runs, as ratios"
    yield from missing()
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        rows = []
        with all_apart(Live, ways()) as every:
            for size, size_bytes in SIZES.items():
                for block, change in BLOCKS.items():
                    taken = medians(every, size_bytes, change)
                    for kind, what in enumerate(("CPU", "time")):
                        one = taken[BY_HAND][kind]
                        ratios = [f"{both[kind] / one:.2f}" for both in taken.values()]
                        rows.append([size, block, what, *ratios, f"{one * 1000:.2f} ms"])
            header = ["data", "the block", "", *every, "1.00 is here"]
    yield from table(header, rows, left=3)
    yield f"{LIBRARY} as it comes, with large data beside the row; {BY_HAND} without parameter validation"


def medians(every: dict[str, Apart], size_bytes: int, change: Change | None) -> dict[str, tuple[float, float]]:
    """Return the median CPU time and the median time of a run by each way, in seconds."""
    times: dict[str, Times] = {name: [] for name in every}
    for way in every.values():
        way.call("open")
        way.call("times", RUNS, size_bytes, change)
    for _ in range(ROUNDS):
        for name, way in every.items():
            times[name] += way.call("times", RUNS, size_bytes, change)
    for way in every.values():
        way.call("close")
    return {
        name: (statistics.median(cpu for cpu, _ in taken), statistics.median(wall for _, wall in taken))
        for name, taken in times.items()
    }


class Live:
    """One way, in its own process, with a table of its own."""

    def __init__(self, make: Callable[[], Way]) -> None:
        self._way = make()
        self._created = 0

    def open(self) -> None:
        """Create the table."""
        self._way.make_table()

    def close(self) -> None:
        """Delete the table."""
        self._way.drop_table()

    def times(self, runs: int, size_bytes: int, change: Change | None) -> Times:
        """Return the CPU time and the time of each of so many runs, of new tasks."""
        data, taken = data_of(size_bytes), []
        for _ in range(runs):
            self._created += 1
            task_id = f"o-{self._created}"
            self._way.create(task_id, data)
            began, began_cpu = time.perf_counter(), time.process_time()
            self._way.run(task_id, change)
            taken.append((time.process_time() - began_cpu, time.perf_counter() - began))
        return taken
