"""A table in memory that each test finds empty, and a clock that stands still."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.shop import Context, ShopTask
from tests.support.engines import Engine, empty_tables, quickest

clock = empty_tables


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Make the table once for each module: a new one needs a new client. Queues are in memory."""
    with mock_aws(), quickest(request, ShopTask) as tables:
        yield tables


@pytest.fixture
def context(clock: StoppedClock) -> Context:
    return Context(clock)
