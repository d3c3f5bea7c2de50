"""The fixtures of the contract: the engines, and the stopped clock.

A behaviour is tested on dynoxide, which answers as AWS does. The same tests run on moto for those whose own tests do:
in `make environments`, with each Python and with the oldest moto.
"""

from collections.abc import Iterator

import pytest

from pynamodb_tracker import Task
from pynamodb_tracker.clock import StoppedClock
from tests.support.blocking import CLIENTS, START, through_asyncio
from tests.support.engines import ENGINES, Dynoxide, Engine, Moto, chosen
from tests.support.network import network
from tests.support.shop import AppTask, Order

__all__ = ["client", "clock", "engine", "network", "table"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on both engines, and those that use `client` through both clients, unless a mark says otherwise."""
    if any("engine" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")):
        return
    if "client" in metafunc.fixturenames:
        ways = START if metafunc.definition.get_closest_marker("only_blocking") else CLIENTS
        metafunc.parametrize(("engine", "client"), chosen(metafunc.config, ways), indirect=True)
    elif "engine" in metafunc.fixturenames:
        metafunc.parametrize(("engine",), chosen(metafunc.config, ENGINES), indirect=True)


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have `start` run tasks as it does, or through `astart`."""
    if getattr(request, "param", "start") == "start":
        yield
    else:
        with through_asyncio():
            yield


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open the tables of the module, `TABLES` or the one of orders.py, on each engine in turn."""
    tables = getattr(request.module, "TABLES", [AppTask])
    if request.param == "moto":
        with Moto.of(tables) as engine:
            yield engine
    else:
        with Dynoxide.of(tables, request.getfixturevalue("dynamodb").endpoint) as engine:
            yield engine


@pytest.fixture
def clock(stopped_clock: StoppedClock) -> StoppedClock:
    """Stop the time; a test that wants it to pass moves it."""
    return stopped_clock


@pytest.fixture
def table(engine: Engine, clock: StoppedClock) -> Iterator[type[Task]]:  # noqa: ARG001 - it is to stand
    """Give the test empty tables on each engine, and a stopped clock."""
    yield engine.tables[0]
    engine.empty()


@pytest.fixture
def task(request: pytest.FixtureRequest, table: type[Task]) -> None:  # noqa: ARG001 - it is to stand
    """Create the task that all tests of a file are about, `CREATED` or the order o-1, with the options of `created`."""
    use_case, task_id, *options = getattr(request.module, "CREATED", (Order, "o-1"))
    use_case.create(task_id, **getattr(request, "param", options[0] if options else {}))
