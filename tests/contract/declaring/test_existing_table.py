"""A table that exists already: `create_table` changes nothing, and requests say if it is not the declared one."""

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import PynamoDBException, TableError

from pynamodb_tracker import Step, Task, UseCase, Worker
from pynamodb_tracker.testing import StoppedClock
from tests.engine.engine import Engine
from tests.support.rows import client

pytestmark = pytest.mark.engine

DOCTOR = r"table .* at http.* does not match its class: run pynamodb-tracker doctor to see the differences"


@pytest.fixture
def shop(dynamodb: Engine) -> Iterator[Any]:
    """Return a use case on a table that does not exist yet, with provisioned units."""

    class ShopTask(Task):
        class Meta:
            table_name = f"existing-{uuid.uuid4().hex}"
            region = "us-east-1"
            host = dynamodb.endpoint
            read_capacity_units = 3
            write_capacity_units = 4

    class Order(ShopTask):
        use_case_id = UseCase("order")
        ship = Step(10)

    yield Order
    ShopTask.delete_table()
    client(ShopTask).close()


def described(model: Any) -> Any:
    return client(model).describe_table(TableName=model.Meta.table_name)["Table"]


def has_time_to_live(model: Any) -> bool:
    answer = client(model).describe_time_to_live(TableName=model.Meta.table_name)
    return bool(answer["TimeToLiveDescription"]["TimeToLiveStatus"] == "ENABLED")


def create_by_hand(model: Any, *keys: str) -> None:
    client(model).create_table(
        TableName=model.Meta.table_name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=True)],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
    )


def test_a_table_is_created_once_with_units_for_its_index_and_a_second_call_changes_nothing(shop: Any) -> None:
    shop.create_table(wait=True)
    assert has_time_to_live(shop)
    before = described(shop)
    for each in (before, *before["GlobalSecondaryIndexes"]):
        units = each["ProvisionedThroughput"]
        assert (units["ReadCapacityUnits"], units["WriteCapacityUnits"]) == (3, 4)
    shop.create_table(wait=True)
    assert described(shop) == before


def test_units_that_the_call_gives_are_those_of_the_table(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop.Meta, "billing_mode", "PAY_PER_REQUEST", raising=False)  # as of a Meta that has no units
    shop.create_table(wait=True, read_capacity_units=1, write_capacity_units=2)
    units = described(shop)["ProvisionedThroughput"]
    assert (units["ReadCapacityUnits"], units["WriteCapacityUnits"]) == (1, 2)


def test_a_table_that_somebody_else_is_creating_is_waited_for(
    shop: Any, stopped_clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create_table(wait=True)
    table, before = described(shop), stopped_clock.now()
    answers = [table, *[{**table, "TableStatus": "CREATING"}] * 2]
    monkeypatch.setattr(TableConnection, "describe_table", lambda _: answers.pop())
    shop.create_table(wait=True)
    monkeypatch.undo()
    assert (answers, stopped_clock.now() - before) == ([], timedelta(seconds=2))


def test_a_table_that_was_created_a_moment_ago_gets_its_time_to_live_and_no_error(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop, "update_ttl", lambda _: None)
    shop.create_table(wait=True)  # it, or an earlier copy of the same request
    monkeypatch.undo()
    monkeypatch.setattr(shop, "exists", lambda: False)
    for _ in range(2):
        shop.create_table(wait=True)
        assert has_time_to_live(shop)


@pytest.mark.parametrize(
    ("keys", "difference"),
    [
        (("id", "use_case_id"), r"its hash key is id \(S\), not task_id \(S\)"),
        (("task_id", "use_case_id"), "it lacks the index status-index"),
    ],
)
def test_a_table_with_another_schema_is_refused_and_stays_as_it_is(
    shop: Any, keys: tuple[str, str], difference: str
) -> None:
    create_by_hand(shop, *keys)
    with pytest.raises(TableError, match=rf"'existing-.*' exists, but not as ShopTask declares it: .*{difference}"):
        shop.create_table(wait=True)
    assert not has_time_to_live(shop)


def test_without_the_index_every_search_says_so_and_how_to_find_out_more(shop: Any) -> None:
    create_by_hand(shop, "task_id", "use_case_id")
    shop.create("o-1")
    searches = [
        lambda: shop.ship.run_all(lambda _: None),
        lambda: list(shop.ship.pending.query()),
        shop.counts,
        lambda: Worker({shop.ship: lambda _: None}).run(until_idle=True),
    ]
    for search in searches:
        with pytest.raises(PynamoDBException, match=rf"does not have the specified index: status-index \({DOCTOR}"):
            search()


def test_on_other_keys_every_request_says_so(shop: Any) -> None:
    create_by_hand(shop, "id", "sort")
    operations: list[Callable[[str], object]] = [
        shop.create,
        shop.get_task,
        lambda task_id: shop.get_many([task_id]),
        lambda task_id: shop.ship.run(task_id, lambda _: None),
    ]
    for operation in operations:
        with pytest.raises(PynamoDBException, match=DOCTOR):
            operation("o-1")
