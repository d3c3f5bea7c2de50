"""The pytest fixtures `local_table`, `local_server` and `stopped_clock`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pynamodb_tracker.clock import StoppedClock
    from pynamodb_tracker.testing import LocalServer, LocalTable


def pytest_collection_finish() -> None:
    """Close the tables from `open_local_table` in modules, so that tests begin with empty ones."""
    if tables := sys.modules.get("pynamodb_tracker.testing.tables"):
        tables.close_local_tables()


@pytest.fixture
def local_table() -> Iterator[LocalTable]:
    """Keep a table in memory until the test ends. Call it with the table or a use case."""
    from pynamodb_tracker import testing  # noqa: PLC0415 - only tests that use it import it

    with ExitStack() as stack:
        yield lambda table, *further: stack.enter_context(testing.local_table(table, *further))


@pytest.fixture
def local_server() -> Iterator[LocalServer]:
    """Run a local server for a table until the test ends. Call it with the table or a use case."""
    from pynamodb_tracker import testing  # noqa: PLC0415 - only tests that use it import it

    with ExitStack() as stack:
        yield lambda *tables, **options: stack.enter_context(testing.local_server(*tables, **options))


@pytest.fixture
def stopped_clock() -> Iterator[StoppedClock]:
    """Stop the library's clock until the test ends. Move it with `stopped_clock.advance(timedelta(...))`."""
    from pynamodb_tracker import testing  # noqa: PLC0415 - only tests that use it import it

    with testing.stopped_clock() as clock:
        yield clock
