"""A table in memory that each test finds empty, and a clock that stands still."""

from collections.abc import Iterator

import pytest

from tests.support.engines import empty_tables, opened
from tests.support.network import network
from tests.support.untraced import measured
from tests.worker.shop import ShopTask

__all__ = ["engine", "network", "processes", "shop"]


@pytest.fixture(scope="package", autouse=True)
def processes() -> Iterator[None]:
    """Measure the processes of a worker: what they run runs nowhere else."""
    with measured():
        yield


engine, shop = opened(ShopTask, scope="module"), empty_tables
