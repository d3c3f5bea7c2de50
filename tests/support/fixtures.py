"""Fixtures for tests on dynoxide: a table, workers with their own clients, and an SDK that never waits."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import botocore.retries.standard
import botocore.session
import pynamodb.connection.base
import pytest

from tests.engine.actions import pass_everything
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.support.orders import close, orders

NewWorker = Callable[..., Any]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def session() -> botocore.session.Session:
    """Return a shared botocore session, because loading its service descriptions takes longer than most tests."""
    return botocore.session.get_session()


@pytest.fixture(autouse=True)
def quick_sdk(monkeypatch: pytest.MonkeyPatch, session: botocore.session.Session) -> None:
    """Remove the SDK's pauses of up to a second, and build all clients from one session."""
    monkeypatch.setattr(botocore.retries.standard.ExponentialBackoff, "delay_amount", lambda *_: 0.0)
    monkeypatch.setattr(pynamodb.connection.base, "get_session", lambda: session)


@pytest.fixture(scope="session")
def table(dynamodb: Engine) -> Iterator[str]:
    """Create one table per folder of tests, and return its name."""
    table = f"orders-{os.getpid()}-{next(_numbers)}"
    owner = orders(dynamodb.endpoint, table)
    owner.create_table(wait=True)
    yield table
    owner.delete_table()
    close(owner)


@pytest.fixture
def name() -> str:
    return f"order-{next(_numbers)}"


@pytest.fixture
def new_worker(table: str, name: str) -> Iterator[NewWorker]:
    """Return a function that declares the use case for another worker, with its own client."""
    with contextlib.ExitStack() as stack:

        def declare(endpoint: str, **options: Any) -> Any:
            worker = orders(endpoint, table, **{"name": name, **options})
            stack.callback(close, worker)
            return worker

        yield declare


@pytest.fixture
def order(new_worker: NewWorker, proxy: Proxy) -> Any:
    """Return the use case for a worker behind the proxy."""
    return new_worker(proxy.endpoint)


@pytest.fixture
def rival(new_worker: NewWorker, dynamodb: Engine) -> Any:
    """Return the use case for a worker that bypasses the proxy, even while one of its rules is running."""
    return new_worker(dynamodb.endpoint)


@pytest.fixture
def freeze(new_worker: NewWorker, proxy: Proxy) -> Iterator[Callable[..., "Frozen"]]:
    """Return a function that starts a run and leaves it inside its block, like a dead or frozen worker."""
    del new_worker  # only needed so that its clients close after the last run has ended
    runs: list[Frozen] = []

    def start(step: Any, task_id: str, **options: Any) -> Frozen:
        runs.append(Frozen(step.start(task_id, **options)))
        return runs[-1]

    yield start
    proxy.rule = pass_everything
    for run in runs:
        with contextlib.suppress(Exception):
            run.wake()


class Frozen:
    def __init__(self, run: contextlib.AbstractContextManager[Any]) -> None:
        self._run = run
        self.ctx = run.__enter__()

    def wake(self, error: BaseException | None = None) -> None:
        """End the block, optionally with an exception. A second call does nothing."""
        run, self._run = self._run, contextlib.nullcontext()
        if not run.__exit__(type(error) if error else None, error, None) and error:
            raise error
