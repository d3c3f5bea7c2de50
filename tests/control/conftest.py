"""The fixtures of these tests: those of the contract, on both engines, with a stopped clock."""

from tests.contract.conftest import clock, engine, network, pytest_generate_tests, table

__all__ = ["clock", "engine", "network", "pytest_generate_tests", "table"]
