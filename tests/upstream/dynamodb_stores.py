"""A pytest plugin: runs the tests of APScheduler's tests/test_jobstores.py on one more store, and on no other.

That file names its stores in the parameters of two fixtures. A mark on each test takes precedence over them, so the
file stays as it was released. `-p dynamodb_stores` loads this plugin, where `tests` is the package of APScheduler.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from pynamodb_tracker import Task
from pynamodb_tracker.apscheduler import DynamoDBJobStore
from pynamodb_tracker.testing import local_table

ITEMS = 48
"""How many items of the release ask for a store that persists: one more or less means that some were not seen."""

STORES = {"jobstore", "persistent_jobstore"}
ENGINE = os.environ["UPSTREAM_ENGINE"]
"""`moto`, or the address of a dynoxide."""

passed: set[str] = set()


class AppTask(Task):
    """The table of the store."""

    class Meta:
        table_name = "upstream"
        region = "us-east-1"
        host = None if ENGINE == "moto" else ENGINE


@pytest.fixture(scope="session")
def dynamodb_table() -> Iterator[type[Task]]:
    with local_table(AppTask) if ENGINE == "moto" else nullcontext():
        AppTask.create_table(wait=True)
        yield AppTask
        AppTask.delete_table()


@pytest.fixture
def dynamodbjobstore(dynamodb_table: type[Task]) -> Iterator[DynamoDBJobStore]:
    """Start and stop a store as the fixtures of that file do."""
    store = DynamoDBJobStore(dynamodb_table)
    store.start(None, "dynamodb")
    yield store
    store.remove_all_jobs()
    store.shutdown()


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have each test use the store instead of the seven that the file names."""
    for name in STORES.intersection(metafunc.fixturenames):
        metafunc.definition.add_marker(
            pytest.mark.parametrize(name, ["dynamodbjobstore"], ids=["dynamodb"], indirect=True)
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Leave out what is about the seven."""
    others = [item for item in items if not STORES.intersection(item.fixturenames)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what passed."""
    if report.when == "call" and report.passed:
        passed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail unless each item has passed, skipped ones included."""
    if len(passed) != ITEMS:
        sys.stdout.write(f"\n{len(passed)} of {session.testscollected} items passed, and {ITEMS} were expected to\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
