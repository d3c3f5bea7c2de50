"""The fixtures of these tests: see tests/race/fixtures.py."""

from tests.race.fixtures import freeze, name, new_worker, order, quick_sdk, rival, session, table

__all__ = ["freeze", "name", "new_worker", "order", "quick_sdk", "rival", "session", "table"]
