"""A table in memory, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pynamodb_tracker.testing import StoppedClock, local_table
from tests.worker.shop import ShopTask


@pytest.fixture
def shop(stopped_clock: StoppedClock) -> Iterator[StoppedClock]:
    """Open the shop, and return the clock."""
    with local_table(ShopTask):
        yield stopped_clock
