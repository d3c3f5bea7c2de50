"""A table in memory, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pynamodb_tracker.testing import StoppedClock, local_table
from tests.aws_lambda.shop import Context, ShopTask


@pytest.fixture
def clock(stopped_clock: StoppedClock) -> Iterator[StoppedClock]:
    """Open the shop, and return its clock."""
    with local_table(ShopTask):
        yield stopped_clock


@pytest.fixture
def context(clock: StoppedClock) -> Context:
    """Return the context of an invocation that has 30 seconds."""
    return Context(clock)
