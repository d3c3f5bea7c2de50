"""The tables of the shop, in memory, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.cli.shop import OtherTask, StoreTask
from tests.contract.engines import Engine, Moto


@pytest.fixture(scope="package")
def engine() -> Iterator[Engine]:
    """Open the tables once."""
    with Moto.of([StoreTask, OtherTask]) as engine:
        yield engine


@pytest.fixture
def store(engine: Engine, stopped_clock: StoppedClock) -> Iterator[StoppedClock]:
    """Give the test empty tables, and a clock that it moves."""
    yield stopped_clock
    engine.empty()
