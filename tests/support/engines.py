"""Two engines that look alike to a test: moto, and dynoxide."""

import functools
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal
from unittest import mock

import botocore.session
import pynamodb.connection.base
import pytest
from botocore.loaders import Loader
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
"""For tests of what the engine has no part in, such as requests that do not reach it."""

only_dynoxide = pytest.mark.parametrize("engine", [pytest.param("dynoxide", marks=pytest.mark.engine)], indirect=True)
"""For a test of the contract that sends hundreds of requests: moto takes many times as long, and decides nothing."""


def chosen(config: pytest.Config, ways: Sequence[tuple[str, ...]]) -> list[Any]:
    """Return the ways to run a test that the options of pytest ask for, as values for `parametrize`.

    pytest makes no other tests: making thousands and leaving them out takes seconds in each process.

    Args:
        config: `--quick` wants moto. `--one-engine` wants dynoxide, and moto where dynoxide has no such way.
        ways: an engine each, and what else differs.
    """
    if config.getoption("quick"):
        ways = [way for way in ways if way[0] == "moto"]
    elif _prefers_dynoxide(config):
        ways = [way for way in ways if way[0] == "dynoxide" or ("dynoxide", *way[1:]) not in ways]
    return values(ways)


def _prefers_dynoxide(config: pytest.Config) -> bool:
    """Return whether tests run on dynoxide alone. A request to it takes a third of the CPU time that moto needs."""
    return bool(config.getoption("one_engine")) and bool({VARIABLE, PATH_VARIABLE} & os.environ.keys())


def values(ways: Sequence[tuple[str, ...]]) -> list[Any]:
    """Return all of these ways as values for `parametrize`."""
    return [pytest.param(*way, marks=[pytest.mark.engine] if way[0] == "dynoxide" else []) for way in ways]


@functools.cache
def _loader() -> Loader:
    """Return what reads the descriptions of AWS and keeps them: reading them takes longer than most tests."""
    loader: Loader = botocore.session.get_session().get_component("data_loader")
    return loader


def quick_session() -> botocore.session.Session:
    """Return a botocore session, with credentials of its own, that has the descriptions of AWS from the one before."""
    session = botocore.session.get_session()  # made after the import of moto, whose handlers it gets
    session.register_component("data_loader", _loader())
    return session


def quick_sessions() -> AbstractContextManager[object]:
    """Have every client of this process built from such a session."""
    return mock.patch.object(pynamodb.connection.base, "get_session", quick_session)


class Engine(ABC):
    """The tables of a test module on one engine."""

    def __init__(self, tables: Sequence[type[Task]]) -> None:
        self.tables = tables

    @abstractmethod
    def empty(self) -> None:
        """Delete every row of every table."""


class Moto(Engine):
    """In this process: quick, and good for what one thread does."""

    @classmethod
    @contextmanager
    def of(cls, tables: Sequence[type[Task]]) -> Iterator[Engine]:
        """Have the tables in memory."""
        with quick_sessions(), local_table(*tables), ExitStack() as stack:
            for table in tables:
                stack.callback(_close, table)
            yield cls(tables)

    def empty(self) -> None:
        """Forget the rows, without a request: a request to moto takes milliseconds."""
        backend = dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"]
        for table in self.tables:
            backend.tables[table.Meta.table_name].items.clear()


class Dynoxide(Engine):
    """In a process of its own: it decides what is right."""

    @classmethod
    @contextmanager
    def of(cls, tables: Sequence[type[Task]], endpoint: str, *, suffix: str | None = None) -> Iterator[Engine]:
        """Create the tables, under unique names unless a suffix is given."""
        with quick_sessions(), ExitStack() as stack:
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
        """Delete the rows, or the whole table where there are many."""
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
    """Return the fixture `engine` that opens these tables once for its scope: in memory, or where that is quickest."""

    @pytest.fixture(scope=scope)
    def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
        with Moto.of(tables) if in_memory else quickest(request, *tables) as engine:
            yield engine

    return engine


@pytest.fixture
def empty_tables(engine: Engine, stopped_clock: StoppedClock) -> Iterator[StoppedClock]:
    """Give the test the tables, empty, and a clock that it moves."""
    yield stopped_clock
    engine.empty()


@contextmanager
def quickest(request: pytest.FixtureRequest, *tables: type[Task]) -> Iterator[Engine]:
    """Open tables for tests to which the engine does not matter: on dynoxide in `make test`, else on moto."""
    if _prefers_dynoxide(request.config):
        with Dynoxide.of(tables, request.getfixturevalue("dynamodb").endpoint, suffix="") as engine:
            yield engine
    else:
        with Moto.of(tables) as engine:
            yield engine


def _close(table: type[Task]) -> None:
    """Close the connections of the client, so that none is left to the garbage collector."""
    client(table).close()
