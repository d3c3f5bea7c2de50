"""How long the page takes to show 11,028 tasks in every state: asked for anew, and kept."""

import time
from collections.abc import Iterator
from statistics import median

from starlette.testclient import TestClient

from pynamodb_tracker.web import dashboard
from tests.benchmarks.ways import engine
from tests.web.conftest import OWN
from tests.web.pile import Pile, filled

REPEATED = 15


def report() -> Iterator[str]:
    yield "The page of 11,028 tasks on dynoxide, median and range of 15"
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        with filled(found.endpoint):
            cold, kept = [], []
            for _ in range(REPEATED):
                client = TestClient(dashboard(Pile, user=lambda _: "ada"), headers=OWN)
                cold.append(time_of(client))
                kept.append(time_of(client))
            for name, times in {"first of the process": cold[:1], "cold": cold[1:], "kept": kept}.items():
                low, high = min(times) * 1000, max(times) * 1000
                yield f"{name:22} {median(times) * 1000:6.0f} ms   {low:.0f} to {high:.0f}"


def time_of(client: TestClient) -> float:
    """Return the seconds that the page takes."""
    began = time.perf_counter()
    assert client.get("/Pile/").status_code == 200
    return time.perf_counter() - began
