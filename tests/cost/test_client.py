"""One table is one botocore client, however many use cases and threads want it first."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.session
import pynamodb.connection.base
import pytest
from pynamodb.attributes import NumberAttribute

from pynamodb_tracker import Step, Task, UseCase
from tests.engine.engine import Engine
from tests.support.orders import close


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the clients that are built from now on."""
    built: list[Any] = []
    original = botocore.session.Session.create_client

    def create_client(*args: Any, **options: Any) -> Any:
        built.append(original(*args, **options))
        return built[-1]

    monkeypatch.setattr(botocore.session.Session, "create_client", create_client)
    monkeypatch.setattr(pynamodb.connection.base, "get_session", botocore.session.get_session)  # as without quick_sdk
    return built


@pytest.fixture
def use_cases(dynamodb: Engine, table: str, name: str) -> Iterator[list[Any]]:
    """Return two use cases of one table that nobody has used yet."""

    class ShopTask(Task):
        class Meta:
            table_name = table
            region = "us-east-1"
            host = dynamodb.endpoint

    class Order(ShopTask):
        use_case_id = UseCase(f"{name}-order")
        ship = Step(10)
        amount = NumberAttribute(null=True)

    class Refund(ShopTask):
        use_case_id = UseCase(f"{name}-refund")
        pay = Step(10)

    yield [Order, Refund]
    close(ShopTask)


def test_two_use_cases_of_one_table_build_one_client(clients: list[Any], use_cases: list[Any]) -> None:
    order, refund = use_cases
    order.create("o")
    order.ship.run("o", lambda _: None)
    refund.create("r")
    refund.pay.pending.count()
    assert order.counts()[order.ship.succeeded] == 1
    assert len(clients) == 1


def test_8_threads_at_first_use_build_one_client(clients: list[Any], use_cases: list[Any]) -> None:
    barrier = threading.Barrier(8)

    def use(number: int) -> None:
        barrier.wait(30)
        use_cases[number % 2].create(f"o-{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert len(clients) == 1


def test_declaring_use_cases_builds_no_client(clients: list[Any], use_cases: list[Any]) -> None:
    assert (len(use_cases), clients) == (2, [])
