"""A table in memory that each test finds empty, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.shop import Context, ShopTask
from tests.support.engines import Engine, Moto


@pytest.fixture(scope="module")
def memory() -> Iterator[Engine]:
    """Make the table once for each module: a new one needs a new client, and AWS mocked again."""
    with Moto.of([ShopTask]) as tables:
        yield tables


@pytest.fixture
def clock(memory: Engine, stopped_clock: StoppedClock) -> Iterator[StoppedClock]:
    """Open the shop, and return its clock."""
    yield stopped_clock
    memory.empty()


@pytest.fixture
def context(clock: StoppedClock) -> Context:
    """Return the context of an invocation that has 30 seconds."""
    return Context(clock)
