"""Fixtures of the tests on dynoxide: a table, workers with clients of their own, an SDK that never waits."""

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
    """Return one botocore session: loading its descriptions of AWS takes longer than most of these tests."""
    return botocore.session.get_session()


@pytest.fixture(autouse=True)
def quick_sdk(monkeypatch: pytest.MonkeyPatch, session: botocore.session.Session) -> None:
    """Let the SDK repeat a request at once instead of after up to a second, and build clients from one session."""
    backoff = botocore.retries.standard.ExponentialBackoff
    monkeypatch.setattr(backoff, "delay_amount", lambda *_: 0.0)
    monkeypatch.setattr(pynamodb.connection.base, "get_session", lambda: session)


@pytest.fixture(scope="session")
def table(dynamodb: Engine) -> Iterator[str]:
    """Create one table for all tests of a folder, and return its name."""
    table = f"orders-{os.getpid()}-{next(_numbers)}"
    owner = orders(dynamodb.endpoint, table)
    owner.create_table(wait=True)
    yield table
    owner.delete_table()
    close(owner)


@pytest.fixture
def name() -> str:
    """Return the name of a use case that no other test has."""
    return f"order-{next(_numbers)}"


@pytest.fixture
def new_worker(table: str, name: str) -> Iterator[NewWorker]:
    """Return a function that declares the use case for one more worker, with a client of its own."""
    with contextlib.ExitStack() as stack:

        def declare(endpoint: str, **options: Any) -> Any:
            worker = orders(endpoint, table, **{"name": name, **options})
            stack.callback(close, worker)
            return worker

        yield declare


@pytest.fixture
def order(new_worker: NewWorker, proxy: Proxy) -> Any:
    """Return the use case of a worker behind the proxy."""
    return new_worker(proxy.endpoint)


@pytest.fixture
def rival(new_worker: NewWorker, dynamodb: Engine) -> Any:
    """Return the use case of a worker whose requests all arrive, also while a rule of the proxy is deciding."""
    return new_worker(dynamodb.endpoint)


@pytest.fixture
def freeze(new_worker: NewWorker, proxy: Proxy) -> Iterator[Callable[..., "Frozen"]]:
    """Return a function that starts a run and leaves it inside its block, like a worker that died or is frozen."""
    del new_worker  # named because its clients close later than the last run ends
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
    """A run whose block has begun, and ends on request."""

    def __init__(self, run: contextlib.AbstractContextManager[Any]) -> None:
        self._run = run
        self.ctx = run.__enter__()

    def wake(self, error: BaseException | None = None) -> None:
        """End the block, with that exception or none; the second time nothing happens."""
        run, self._run = self._run, contextlib.nullcontext()
        if not run.__exit__(type(error) if error else None, error, None) and error:
            raise error
