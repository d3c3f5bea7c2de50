"""Client CPU of a run, claim and success, with HTTP stubbed: by each way, against the same two requests by hand."""

import re
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from tests.benchmarks.apart import Apart, all_apart
from tests.benchmarks.by_hand import ByHand, WithUserAgent, WithValidation
from tests.benchmarks.by_model import ByModel
from tests.benchmarks.by_tracker import ByTrackerInRow
from tests.benchmarks.cost import SIZES
from tests.benchmarks.orders import Change, add_entry, change_entry, data_of
from tests.benchmarks.stub import Stub
from tests.benchmarks.tables import table
from tests.benchmarks.ways import LIBRARY, missing, peers


class Way(Protocol):
    """One way to claim a task and record its success, with a client of its own."""

    client: Any

    def run(self, task_id: str, change: Change | None = None) -> None: ...

    def claimed(self, task_id: str, data: dict[str, Any]) -> dict[str, Any]: ...


BLOCKS = {"changes nothing": None, "adds to data": add_entry, "changes an entry": change_entry}
SAME: dict[str, Callable[[], Way]] = {
    "by hand": ByHand,
    "one user agent": WithUserAgent,
    "as botocore is": WithValidation,
    "Model.update": ByModel,
    LIBRARY: ByTrackerInRow,
}
"""Ways that send the same two requests; the first is what the others are compared with."""
ROUNDS = 12
RUNS = 25
"""In each round of each way; the ways take turns."""


def report() -> Iterator[str]:
    yield f"Client CPU of a run (claim and success), HTTP answers stubbed; medians of {ROUNDS * RUNS} runs, as ratios"
    yield from missing()
    rows = []
    with all_apart(Stubbed, {**SAME, **peers()}) as every:
        for size, size_bytes in SIZES.items():
            for block, change in BLOCKS.items():
                by_hand, *others = medians(every, size_bytes, change)
                ratios = [f"{other / by_hand:.2f}" for other in others]
                rows.append([size, block, "1.00", *ratios, f"{by_hand * 1000:.2f} ms"])
        header = ["data", "the block", *every, "1.00 is here"]
    yield from table(header, rows, left=2)
    yield "by hand: botocore without parameter validation; as botocore is: with it; data is in the row in all ways"


def medians(every: dict[str, Apart], size_bytes: int, change: Change | None) -> list[float]:
    check_same({name: way.call("prepare", size_bytes, change) for name, way in every.items() if name in SAME})
    for name in every.keys() - SAME.keys():
        every[name].call("prepare", size_bytes, change)
    times: dict[str, list[float]] = {name: [] for name in every}
    for _ in range(ROUNDS):
        for name, way in every.items():
            times[name] += way.call("times", RUNS)
    return [statistics.median(taken) for taken in times.values()]


class Stubbed:
    """One way, in its own process, whose requests are answered from memory."""

    def __init__(self, make: Callable[[], Way]) -> None:
        self._make = make

    def prepare(self, size_bytes: int, change: Change | None) -> list[dict[str, Any]]:
        """Begin anew, with a row that has so much data, and return the requests of a run."""
        self._way = self._make()
        self._change = change
        self._stub = Stub(self._way.client, self._way.claimed("o-1", data_of(size_bytes)))
        self.times(RUNS)
        return self._stub.requests

    def times(self, runs: int) -> list[float]:
        taken, before = [], self._stub.count
        for _ in range(runs):
            began = time.process_time()
            self._way.run("o-1", self._change)
            taken.append(time.process_time() - began)
        if self._stub.count != before + 2 * runs:
            raise AssertionError("a run took other than two requests: the comparison is of different things")
        return taken


def check_same(requests: dict[str, list[dict[str, Any]]]) -> None:
    """Fail where the ways have come to do different things: the figures would compare nothing.

    Only the library keeps a task's last successes, which is part of its figure.
    """
    told = {
        name: [(attributes(request, "Condition"), attributes(request, "Update")) for request in run]
        for name, run in requests.items()
    }
    for name, other in told.items():
        if other != told[LIBRARY]:
            raise AssertionError(f"{name} no longer sends what the library sends: {other} is not {told[LIBRARY]}")


def attributes(request: dict[str, Any], kind: str) -> list[str]:
    names = request["ExpressionAttributeNames"]
    words = re.findall(r"(?<![:\w])(?:#\w+|[a-z_]+)", request[f"{kind}Expression"])
    return sorted({names.get(word, word) for word in words} - {"attribute_not_exists", "recent_ends"})
