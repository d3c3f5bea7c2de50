"""Client CPU of a run, claim and success, against the same two requests by botocore and by `Model.update`."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from tests.benchmarks.by_hand import ByHand
from tests.benchmarks.by_model import ByModel
from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.orders import claimed, data_of
from tests.benchmarks.stub import Stub
from tests.benchmarks.tables import table

__all__ = ["report"]


class Way(Protocol):
    """One way to claim a task and record its success, with a client of its own."""

    client: Any

    def run(self, task_id: str, *, change: bool) -> None:
        """Do it once, with a new entry in `data` where `change` is set."""
        ...


SIZES = {"0.2 KB": 200, "20 KB": 20_000, "200 KB": 200_000}
BLOCKS = {"changes nothing": False, "adds to data": True}
WAYS: dict[str, Callable[[], Way]] = {
    "botocore by hand": ByHand,
    "Model.update twice": ByModel,
    "pynamodb_tracker": ByTracker,
}
SECONDS = 2.5
WARM_UP = 20


def report() -> Iterator[str]:
    yield "Client CPU of a run (claim and success), HTTP answers stubbed; ratios of the medians of interleaved runs"
    rows = []
    for size, size_bytes in SIZES.items():
        for block, change in BLOCKS.items():
            by_hand, *others = medians(size_bytes, change=change)
            ratios = [f"{other / by_hand:.2f}" for other in others]
            rows.append([size, block, "1.00", *ratios, f"{by_hand * 1000:.2f} ms"])
    yield from table(["data", "the block", *WAYS, "1.00 is here"], rows, left=2)


def medians(size_bytes: int, *, change: bool) -> list[float]:
    """Return the median CPU time of a run by each way, in seconds."""
    row = claimed("o-1", data_of(size_bytes))
    ways = [way() for way in WAYS.values()]
    stubs = [Stub(way.client, row) for way in ways]
    for _ in range(WARM_UP):
        for way in ways:
            way.run("o-1", change=change)
    check_same([stub.requests for stub in stubs])
    times: list[list[float]] = [[] for _ in ways]
    runs, end = WARM_UP, time.monotonic() + SECONDS
    while time.monotonic() < end:
        runs += 1
        for way, taken in zip(ways, times, strict=True):
            begin = time.process_time()
            way.run("o-1", change=change)
            taken.append(time.process_time() - begin)
    if any(stub.count != 2 * runs for stub in stubs):
        raise AssertionError("a run took other than two requests: the comparison is of different things")
    return [statistics.median(taken) for taken in times]


def check_same(requests: list[list[dict[str, Any]]]) -> None:
    """Fail where the ways have come to do different things: the figures would compare nothing."""
    told = [[(attributes(request, "Condition"), attributes(request, "Update")) for request in run] for run in requests]
    for other, name in zip(told, WAYS, strict=True):
        if other != told[-1]:
            raise AssertionError(f"{name} no longer sends what the library sends: {other} is not {told[-1]}")


def attributes(request: dict[str, Any], kind: str) -> list[str]:
    """Return the attributes that an expression of a request names."""
    names = request["ExpressionAttributeNames"]
    words = re.findall(r"(?<![:\w])(?:#\w+|[a-z_]+)", request[f"{kind}Expression"])
    return sorted({names.get(word, word) for word in words} - {"attribute_not_exists"})
