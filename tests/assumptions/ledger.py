"""A table for the assumptions, and the list of those that moto does not meet."""

import itertools
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import boto3
import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.engine.engine import AWS, VARIABLE

Item = dict[str, Any]
Test = TypeVar("Test", bound=Callable[..., None])

MOTO_DIFFERS: dict[str, str] = {}
"""By the name of a test that fails on moto, how DynamoDB differs. docs/reference/testing.md lists the sentences."""

LONGEST_WAIT = 20.0
"""Seconds for an index on AWS to have what was written; elsewhere it has it at once."""

INDEX = "by-state"
KEY = ("id", "part")

_serialize, _deserialize = TypeSerializer().serialize, TypeDeserializer().deserialize


def moto_differs(sentence: str) -> Callable[[Test], Test]:
    """Expect a test to fail on moto. If moto is mended, the test passes there, and that is a failure."""

    def note(test: Test) -> Test:
        MOTO_DIFFERS[test.__name__] = sentence
        return test

    return note


def is_for_aws() -> bool:
    """Return whether `TRACKER_TEST_ENDPOINT` is `aws`; only `make assumptions` gets that far."""
    return os.environ.get(VARIABLE) == AWS


def client_of_aws() -> Any:
    """Return a client with the credentials and the region of the user, whatever endpoint they have set for DynamoDB."""
    return boto3.client("dynamodb", config=Config(ignore_configured_endpoint_urls=True))


def code(call: Callable[[], object]) -> str:
    """Return the code of the error with which DynamoDB refuses a request."""
    return str(refusal(call)["Error"]["Code"])


def refusal(call: Callable[[], object]) -> Item:
    """Return the response with which DynamoDB refuses a request."""
    with pytest.raises(ClientError) as error:
        call()
    return dict(error.value.response)


def dumps(item: Mapping[str, Any]) -> Item:
    """Return an item as requests have it."""
    return {name: _serialize(value) for name, value in item.items()}


def loads(item: Mapping[str, Any]) -> Item:
    """Return an item of a response with plain values; numbers are Decimals."""
    return {name: _deserialize(value) for name, value in item.items()}


def own(item: Mapping[str, Any] | None) -> Item | None:
    """Return what an item of a response has beside its key."""
    return None if item is None else {name: value for name, value in loads(item).items() if name not in KEY}


class Table:
    """A table with a composite key, and an index that projects `note`."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name
        self._numbers = itertools.count(1)

    def key(self) -> Item:
        """Return a key that no row has, as requests have it."""
        return dumps({"id": f"row-{next(self._numbers)}", "part": "a"})

    def put(self, **attributes: Any) -> Item:
        """Write a new row and return its key."""
        key = self.key()
        self.client.put_item(TableName=self.name, Item=key | dumps(attributes))
        return key

    def read(self, key: Item) -> Item | None:
        """Return what a row has beside its key, or None if it does not exist."""
        return own(self.client.get_item(TableName=self.name, Key=key, ConsistentRead=True).get("Item"))

    def action(self, key: Item, *, update: str = "", condition: str = "", **values: Any) -> Item:
        """Return the arguments of a write; `values` are those of the placeholders in its expressions."""
        given = {
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": {f":{name}": _serialize(value) for name, value in values.items()},
        }
        return {"TableName": self.name, "Key": key, **{name: value for name, value in given.items() if value}}

    def update(self, key: Item, update: str, condition: str = "", **values: Any) -> Item | None:
        """Update a row and return what it has then."""
        action = self.action(key, update=update, condition=condition, **values)
        return own(
            self.client.update_item(**action, ReturnValues="ALL_NEW", ReturnValuesOnConditionCheckFailure="ALL_OLD")[
                "Attributes"
            ]
        )

    def execute(self, *statements: tuple[str, Sequence[Any]]) -> list[Item]:
        """Send statements in one request, and return what is answered for each; `TABLE` stands for the table."""
        entries = [
            {
                "Statement": text.replace("TABLE", f'"{self.name}"'),
                "Parameters": [value if type(value) is dict else _serialize(value) for value in parameters],
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
            for text, parameters in statements
        ]
        return list(self.client.batch_execute_statement(Statements=entries)["Responses"])

    def query(self, st: str, **options: Any) -> Item:
        """Query the index for one hash key."""
        values = dumps({":st": st, **options.pop("values", {})})
        return dict(
            self.client.query(
                TableName=self.name,
                IndexName=INDEX,
                KeyConditionExpression="st = :st",
                ExpressionAttributeValues=values,
                **options,
            )
        )

    def entries(self, st: str, number: int) -> list[Item]:
        """Return the entries of a hash key, on AWS as soon as the index has that many."""
        deadline = time.monotonic() + LONGEST_WAIT
        while True:
            page = self.query(st)
            found = page["Items"]
            while "LastEvaluatedKey" in page:
                page = self.query(st, ExclusiveStartKey=page["LastEvaluatedKey"])
                found += page["Items"]
            if len(found) == number or not is_for_aws() or time.monotonic() > deadline:
                return [loads(item) for item in found]
            time.sleep(0.2)


@contextmanager
def new_table(client: Any) -> Iterator[Table]:
    """Create a table with a name of its own, and delete it whatever happens."""
    name = f"pynamodb-tracker-assumptions-{uuid.uuid4().hex[:12]}"
    try:
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=_keys("id", "part"),
            AttributeDefinitions=[
                {"AttributeName": each, "AttributeType": "S"} for each in ("id", "part", "st", "due")
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": INDEX,
                    "KeySchema": _keys("st", "due"),
                    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["note"]},
                }
            ],
        )
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2})
        client.update_time_to_live(
            TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
        )
        yield Table(client, name)
    finally:
        _delete(client, name)
        client.close()


def _keys(hash_key: str, range_key: str) -> list[Item]:
    return [{"AttributeName": hash_key, "KeyType": "HASH"}, {"AttributeName": range_key, "KeyType": "RANGE"}]


def _delete(client: Any, name: str) -> None:
    """Delete the table, also if its creation was interrupted."""
    with suppress(client.exceptions.ResourceNotFoundException):
        try:
            client.delete_table(TableName=name)
        except client.exceptions.ResourceInUseException:  # it is being created
            client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2})
            client.delete_table(TableName=name)
