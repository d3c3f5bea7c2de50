"""What a function builds at its import, and what copies of its snapshot share."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from pynamodb_tracker.aws_lambda import handles, retry_handler
from pynamodb_tracker.dynamodb import backoff
from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare
from tests.aws_lambda.shop import Context, Order, ShopTask, ready, ship

URL = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"


@pytest.fixture
def built(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:  # noqa: ARG001 - moto is on
    """Return for which services clients were built, and which requests were sent, from now on."""
    seen: list[str] = []
    create_client, dispatch = botocore.session.Session.create_client, SharedConnection.dispatch

    def create(session: Any, service: str, *arguments: Any, **options: Any) -> Any:
        seen.append(service)
        return create_client(session, service, *arguments, **options)

    def send(connection: Any, operation: str, request: Any) -> Any:
        seen.append(operation)
        return dispatch(connection, operation, request)

    monkeypatch.setattr(botocore.session.Session, "create_client", create)
    monkeypatch.setattr(SharedConnection, "dispatch", send)
    table = ShopTask.tracker.table
    table.reconnect()
    yield seen
    table.reconnect()


def test_connect_builds_the_client_and_sends_nothing(built: list[str]) -> None:
    ShopTask.connect()
    Order.connect()
    assert built == ["dynamodb"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("AWS_LAMBDA_FUNCTION_NAME", "ship", ["dynamodb", "sqs"]),
        ("AWS_EXECUTION_ENV", "AWS_Lambda_python3.13", ["dynamodb", "sqs"]),
        ("AWS_EXECUTION_ENV", "AWS_ECS_FARGATE", []),
    ],
)
def test_a_handler_builds_its_clients_at_import_in_lambda_alone(
    built: list[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: list[str]
) -> None:
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME", raising=False)
    monkeypatch.setenv(name, value)
    handles(Order.ship, task_id="order_id", next_queue_url=URL)(ship)
    retry_handler(Order.ship, lambda _: None)
    assert built == expected


def test_the_first_invocation_builds_no_client(
    built: list[str], clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready("o-1")
    built.clear()
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "ship")
    handler = handles(Order.ship, task_id="order_id")(ship)
    built.clear()
    handler(bare("o-1"), Context(clock))
    assert built == ["UpdateItem", "UpdateItem"]


def test_copies_of_a_snapshot_draw_numbers_of_their_own() -> None:
    package = Path(backoff.__file__).parents[1]
    state = random.getstate()
    drawing = {
        path.name for path in package.rglob("*.py") if re.search(r"^import random", path.read_text(), re.MULTILINE)
    }
    backoff.jittered_pause(3)
    assert drawing == {"backoff.py", "orders.py"}, "the last one is of the demo"
    assert isinstance(backoff.RANDOM, random.SystemRandom)
    assert random.getstate() == state
