"""The shop of the worker's tests."""

from tests.support.engines import empty_tables, opened
from tests.worker.shop import ShopTask

__all__ = ["engine", "shop"]

engine, shop = opened(ShopTask, scope="module"), empty_tables
