"""The tables of these tests, in memory."""

from collections.abc import Iterator

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.support.engines import Engine, opened
from tests.support.shop import AppTask

engine = opened(AppTask, scope="module")


@pytest.fixture
def table(engine: Engine) -> Iterator[type]:
    yield engine.tables[0]
    engine.empty()


@pytest.fixture
def clock(table: object, stopped_clock: StoppedClock) -> StoppedClock:
    """Stop the clock once the table is there."""
    del table
    return stopped_clock
