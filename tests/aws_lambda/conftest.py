"""A table in memory that each test finds empty, and a clock that stands still."""

from __future__ import annotations

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.shop import Context, ShopTask
from tests.support.engines import empty_tables, opened

engine, clock = opened(ShopTask, scope="module"), empty_tables


@pytest.fixture
def context(clock: StoppedClock) -> Context:
    """Return the context of an invocation that has 30 seconds."""
    return Context(clock)
