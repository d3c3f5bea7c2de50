"""Two interchangeable engines for tests: moto and dynoxide."""

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal
from unittest import mock

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends

from pynamodb_tracker import Task
from pynamodb_tracker.testing import StoppedClock, local_table
from tests.engine.dynoxide import PATH_VARIABLE
from tests.engine.engine import VARIABLE
from tests.support.quick_moto import hurry
from tests.support.rows import client, keys

_MOST_WRITES = 25

hurry()

ENGINES = [("moto",), ("dynoxide",)]

only_moto = pytest.mark.parametrize("engine", ["moto"], indirect=True)
"""For tests in which the engine does not matter, for example because no requests reach it."""

only_dynoxide = pytest.mark.parametrize("engine", [pytest.param("dynoxide", marks=pytest.mark.engine)], indirect=True)
"""For contract tests with hundreds of requests. moto is many times slower, and adds nothing."""


def is_moto(model: type[Task]) -> bool:
    return getattr(model.Meta, "host", None) is None


def chosen(config: pytest.Config, ways: Sequence[tuple[str, ...]]) -> list[Any]:
    """Return the ways to run a test that pytest's options select, as values for `parametrize`.

    pytest does not create the other tests, because creating and skipping thousands takes seconds per process.
    `--one-engine` selects dynoxide, or moto where dynoxide lacks that way. With `--quick` as well, it selects one way.
    Without it, `--in-memory` and `--quick` select moto.
    """
    quick = config.getoption("quick")
    if _prefers_dynoxide(config):
        ways = [way for way in ways if way[0] == "dynoxide" or ("dynoxide", *way[1:]) not in ways]
        ways = ways[:1] if quick else ways
    elif config.getoption("in_memory"):
        ways = [way for way in ways if way[0] == "moto"]
    return [pytest.param(*way) for way in ways] if quick else values(ways)


def _prefers_dynoxide(config: pytest.Config) -> bool:
    """Return whether tests should run only on dynoxide, where a request takes a third of moto's CPU time."""
    return bool(config.getoption("one_engine")) and bool({VARIABLE, PATH_VARIABLE} & os.environ.keys())


def values(ways: Sequence[tuple[str, ...]]) -> list[Any]:
    return [pytest.param(*way, marks=[pytest.mark.engine] if way[0] == "dynoxide" else []) for way in ways]


class Engine(ABC):
    def __init__(self, tables: Sequence[type[Task]]) -> None:
        self.tables = tables

    @abstractmethod
    def empty(self) -> None:
        pass


class Moto(Engine):
    """An engine in this process: quick, and correct for a single thread."""

    @classmethod
    @contextmanager
    def of(cls, tables: Sequence[type[Task]]) -> Iterator[Engine]:
        with local_table(*tables), ExitStack() as stack:
            for table in tables:
                stack.callback(_close, table)
            yield cls(tables)

    def empty(self) -> None:
        """Drop the rows without a request, because a request to moto takes milliseconds."""
        backend = dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"]
        for table in self.tables:
            backend.tables[table.Meta.table_name].items.clear()


class Dynoxide(Engine):
    """An engine in a separate process, which is the reference."""

    @classmethod
    @contextmanager
    def of(cls, tables: Sequence[type[Task]], endpoint: str, *, suffix: str | None = None) -> Iterator[Engine]:
        """Create the tables, with unique names unless a suffix is given."""
        with ExitStack() as stack:
            for table in tables:
                name = table.Meta.table_name + (f"-{uuid.uuid4().hex}" if suffix is None else suffix)
                stack.enter_context(mock.patch.multiple(table.Meta, host=endpoint, table_name=name))
                stack.callback(table.tracker.table.reconnect)
                table.tracker.table.reconnect()
                table.create_table(wait=True)
                stack.callback(_close, table)
                stack.callback(table.delete_table)
            yield cls(tables)

    def empty(self) -> None:
        """Delete the rows, or the whole table if there are many."""
        for table in self.tables:
            rows = list(keys(table))
            if len(rows) > _MOST_WRITES:
                table.delete_table()
                table.create_table(wait=True)
            elif rows:
                writes = [{"DeleteRequest": {"Key": key}} for key in rows]
                client(table).batch_write_item(RequestItems={table.Meta.table_name: writes})


def opened(
    *tables: type[Task], scope: Literal["function", "module", "package"] = "package", in_memory: bool = True
) -> Any:
    """Return the fixture `engine`, which opens these tables once per scope, in memory or on the quickest engine."""

    @pytest.fixture(scope=scope)
    def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
        with Moto.of(tables) if in_memory else quickest(request, *tables) as engine:
            yield engine

    return engine


@pytest.fixture
def empty_tables(engine: Engine, stopped_clock: StoppedClock) -> Iterator[StoppedClock]:
    """Give the test empty tables, and a clock that it can move."""
    yield stopped_clock
    engine.empty()


@contextmanager
def quickest(request: pytest.FixtureRequest, *tables: type[Task]) -> Iterator[Engine]:
    """Open tables for tests in which the engine does not matter: on dynoxide in `make test`, otherwise on moto."""
    if _prefers_dynoxide(request.config):
        with Dynoxide.of(tables, request.getfixturevalue("dynamodb").endpoint, suffix="") as engine:
            yield engine
    else:
        with Moto.of(tables) as engine:
            yield engine


def _close(table: type[Task]) -> None:
    """Close the client's connections, so that the garbage collector does not have to."""
    client(table).close()
