"""The fixtures of these tests: as in the contract, with an SDK that never waits."""

from tests.contract.conftest import clock, engine, network, pytest_generate_tests, table
from tests.support.fixtures import quick_sdk, session

__all__ = ["clock", "engine", "network", "pytest_generate_tests", "quick_sdk", "session", "table"]
