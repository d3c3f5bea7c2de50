"""A table in memory that each test finds empty, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.support.engines import Engine, Moto
from tests.support.untraced import measured
from tests.worker.shop import ShopTask


@pytest.fixture(scope="package", autouse=True)
def processes() -> Iterator[None]:
    """Measure the processes of a worker: what they run runs nowhere else."""
    with measured():
        yield


@pytest.fixture(scope="module")
def memory() -> Iterator[Engine]:
    """Make the table once for each module: what a new table costs is a client, and AWS mocked anew."""
    with Moto.of([ShopTask]) as tables:
        yield tables


@pytest.fixture
def shop(memory: Engine, stopped_clock: StoppedClock) -> Iterator[StoppedClock]:
    """Open the shop, and return the clock."""
    yield stopped_clock
    memory.empty()
