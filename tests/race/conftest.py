"""The fixtures of these tests: see tests/support/fixtures.py."""

from tests.support.fixtures import freeze, name, new_worker, order, quick_sdk, rival, session, table
from tests.support.network import network

__all__ = ["freeze", "name", "network", "new_worker", "order", "quick_sdk", "rival", "session", "table"]
