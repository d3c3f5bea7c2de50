"""The harness itself: the server answers, and the proxy does to requests what a test asks for."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from tests.engine.actions import PASS, THROTTLED, Action, Delay, DropRequest, DropResponse, Duplicate, Fail, Hold, first
from tests.engine.engine import Engine, EngineUnavailable, start
from tests.engine.proxy import Proxy
from tests.engine.server import Server

TABLE = "test_engine"
KEY = {"id": {"S": "a"}}
SCHEMA: dict[str, Any] = {
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


@pytest.fixture
def client(proxy: Proxy, dynamodb: Engine) -> Iterator[Any]:
    """Return a client that goes through the proxy and never retries, and a table with one counter at 1."""
    config = Config(retries={"total_max_attempts": 1, "mode": "standard"})
    direct = boto3.client("dynamodb", endpoint_url=dynamodb.endpoint)
    direct.create_table(TableName=TABLE, **SCHEMA)
    direct.put_item(TableName=TABLE, Item=KEY | {"count": {"N": "1"}})
    through = boto3.client("dynamodb", endpoint_url=proxy.endpoint, config=config)
    yield through
    through.close()
    direct.delete_table(TableName=TABLE)
    direct.close()


def add_one(client: Any) -> Any:
    return client.update_item(
        TableName=TABLE,
        Key=KEY,
        UpdateExpression="ADD #c :one",
        ExpressionAttributeNames={"#c": "count"},
        ExpressionAttributeValues={":one": {"N": "1"}},
        ReturnValues="ALL_NEW",
        ReturnConsumedCapacity="INDEXES",
    )


def count(client: Any) -> int:
    return int(client.get_item(TableName=TABLE, Key=KEY, ConsistentRead=True)["Item"]["count"]["N"])


def test_the_server_answers(dynamodb: Engine) -> None:
    client = boto3.client("dynamodb", endpoint_url=dynamodb.endpoint)
    assert "TableNames" in client.list_tables()
    client.close()


def test_what_is_forwarded_is_logged_with_its_cost(client: Any, proxy: Proxy) -> None:
    add_one(client)
    (exchange,) = proxy.log
    assert (exchange.target, exchange.body["Key"], exchange.action) == ("UpdateItem", KEY, PASS)
    assert exchange.status == 200
    assert exchange.answer is not None
    assert exchange.answer["ConsumedCapacity"]["Table"] == {"CapacityUnits": 1.0}


@pytest.mark.parametrize(("action", "counted"), [(DropRequest(), 1), (DropResponse(), 2)])
def test_a_dropped_request_is_not_carried_out_and_one_with_a_dropped_answer_is(
    client: Any, proxy: Proxy, action: Action, counted: int
) -> None:
    proxy.rule = first("UpdateItem", action)
    with pytest.raises(ConnectionClosedError):
        add_one(client)
    assert count(client) == counted


@pytest.mark.parametrize(("action", "answered"), [(Duplicate(), "2"), (Duplicate("second"), "3")])
def test_a_duplicate_is_carried_out_twice(client: Any, proxy: Proxy, action: Action, answered: str) -> None:
    proxy.rule = first("UpdateItem", action)
    assert add_one(client)["Attributes"]["count"]["N"] == answered
    assert (count(client), len(proxy.log[0].answers)) == (3, 2)


def test_a_held_request_arrives_late(client: Any, proxy: Proxy) -> None:
    late = threading.Event()
    proxy.rule = first("UpdateItem", Hold(late))
    with pytest.raises(ConnectionClosedError):
        add_one(client)
    assert count(client) == 1
    late.set()
    assert proxy.log[0].done.wait(60)
    assert count(client) == 2


def test_what_is_still_held_at_the_end_is_forgotten(client: Any, proxy: Proxy) -> None:
    proxy.rule = first("UpdateItem", Hold())
    with pytest.raises(ConnectionClosedError):
        add_one(client)
    proxy.close()
    assert proxy.log[0].done.is_set()
    assert proxy.log[0].status is None


def test_a_delayed_request_is_answered_late(client: Any, proxy: Proxy) -> None:
    proxy.rule = first("UpdateItem", Delay(0.2))
    began = time.monotonic()
    add_one(client)
    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("action", [THROTTLED, Fail()])
def test_a_failed_request_gets_the_error_and_is_not_carried_out(client: Any, proxy: Proxy, action: Fail) -> None:
    proxy.rule = first("UpdateItem", action)
    with pytest.raises(ClientError) as error:
        add_one(client)
    assert error.value.response["Error"] == {"Code": action.code, "Message": action.message}
    assert (error.value.response["ResponseMetadata"]["HTTPStatusCode"], count(client)) == (action.status, 1)


def test_the_error_of_a_rule_leaves_from_close(dynamodb: Engine) -> None:
    def rule(*_: object) -> Action:
        raise ZeroDivisionError

    proxy = Proxy(dynamodb.endpoint)
    proxy.rule = rule
    client = boto3.client(
        "dynamodb", endpoint_url=proxy.endpoint, config=Config(retries={"total_max_attempts": 1, "mode": "standard"})
    )
    with pytest.raises(ConnectionClosedError):
        client.list_tables()
    client.close()
    with pytest.raises(ZeroDivisionError):
        proxy.close()


def test_a_given_endpoint_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKER_TEST_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(EngineUnavailable, match=r"TRACKER_TEST_ENDPOINT=http://127\.0\.0\.1:1"):
        start()


def test_a_killed_engine_has_its_tables_again_after_a_restart(dynoxide: str, tmp_path: Path) -> None:
    server = Server(dynoxide, path=tmp_path / "tables.sqlite")
    client = boto3.client(
        "dynamodb", endpoint_url=server.endpoint, config=Config(retries={"total_max_attempts": 1, "mode": "standard"})
    )
    client.create_table(TableName=TABLE, **SCHEMA)
    client.put_item(TableName=TABLE, Item=KEY | {"count": {"N": "1"}})
    server.kill()
    with pytest.raises(EndpointConnectionError):
        add_one(client)
    server.restart()
    assert add_one(client)["Attributes"]["count"]["N"] == "2"
    client.close()
    server.stop()
