"""The tables as their classes declare them, on moto and on DynamoDB Local."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pynamodb_tracker import Task
from tests.doctor.shops import ArchiveTask, LocalTask, ShopTask
from tests.support.engines import DynamoDBLocal, Moto

ENGINES = ["moto", pytest.param("dynamodb_local", marks=pytest.mark.engine)]


@contextmanager
def _made(table: type[Task], request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "moto":
        with Moto.of([table]):
            yield
    else:
        with DynamoDBLocal.of([table], request.getfixturevalue("dynamodb_local").endpoint):
            yield


@pytest.fixture(params=ENGINES)
def shop(request: pytest.FixtureRequest) -> Iterator[type[Task]]:
    """Make a table whose use case has no `keep_for`."""
    with _made(ShopTask, request):
        yield ShopTask


@pytest.fixture(params=ENGINES)
def archive(request: pytest.FixtureRequest) -> Iterator[type[Task]]:
    """Make a table whose use case has `keep_for`."""
    with _made(ArchiveTask, request):
        yield ArchiveTask


@pytest.fixture(params=ENGINES)
def local(request: pytest.FixtureRequest) -> Iterator[type[Task]]:
    """Make a table with a local index."""
    with _made(LocalTask, request):
        yield LocalTask


@pytest.fixture
def described() -> Iterator[type[Task]]:
    """Make a table on moto alone, for tests that write down what DynamoDB answers."""
    with Moto.of([ShopTask]):
        yield ShopTask


@pytest.fixture
def described_archive() -> Iterator[type[Task]]:
    """Make the same with a use case that has `keep_for`."""
    with Moto.of([ArchiveTask]):
        yield ArchiveTask
