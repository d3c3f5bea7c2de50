"""The tables as their classes declare them, on moto and dynoxide: created once, restored after each test."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from pynamodb_tracker import Task
from tests.doctor.shops import ArchiveTask, LocalTask, ShopTask
from tests.doctor.tables import client, settings
from tests.support.engines import ENGINES, Dynoxide, Moto, chosen

ALL = (ShopTask, ArchiveTask, LocalTask)

AsMade = dict[type[Task], Any]
"""The settings of each table as its class made it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on both engines, and on moto alone where it writes down what DynamoDB answers."""
    if "engine" in metafunc.fixturenames:
        alone = {"described", "described_archive"} & set(metafunc.fixturenames)
        ways = chosen(metafunc.config, ENGINES[:1] if alone else ENGINES)
        metafunc.parametrize(("engine",), ways, indirect=True, scope="module")


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[AsMade]:
    with ExitStack() as stack:
        if request.param == "moto":
            stack.enter_context(Moto.of(ALL))
        else:
            stack.enter_context(Dynoxide.of(ALL, request.getfixturevalue("dynamodb").endpoint))
        yield {table: settings(table) for table in ALL}


@contextmanager
def _restored(table: type[Task], as_made: AsMade) -> Iterator[type[Task]]:
    """Give a test the table, and create it again if the test has changed or deleted it."""
    yield table
    found = settings(table)
    if found == as_made[table]:
        return
    if found is not None:
        client(table).update_table(TableName=table.Meta.table_name, DeletionProtectionEnabled=False)
        table.delete_table()
    table.create_table(wait=True)


@pytest.fixture
def shop(engine: AsMade) -> Iterator[type[Task]]:
    """Make a table whose use case has no `keep_for`."""
    with _restored(ShopTask, engine) as table:
        yield table


@pytest.fixture
def archive(engine: AsMade) -> Iterator[type[Task]]:
    """Make a table whose use case has `keep_for`."""
    with _restored(ArchiveTask, engine) as table:
        yield table


@pytest.fixture
def local(engine: AsMade) -> Iterator[type[Task]]:
    with _restored(LocalTask, engine) as table:
        yield table


described, described_archive = shop, archive
"""The same on moto alone, for tests that write down what DynamoDB answers."""
