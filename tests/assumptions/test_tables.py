"""Tables: missing ones, existing ones, and rows that have expired."""

import time

import pytest

from tests.assumptions.ledger import INDEX, Table, code, dumps, moto_differs


@pytest.mark.parametrize("operation", ["get_item", "describe_table"])
def test_a_table_that_does_not_exist_has_an_error_of_its_own(table: Table, operation: str) -> None:
    """Parity Suite: tier1/getItem/validation.

    "rejects GetItem on a non-existent table".
    Parity Suite: tier1/describeTable/basic, "returns ResourceNotFoundException for non-existent table".
    """
    key = {"Key": table.key()} if operation == "get_item" else {}
    call = getattr(table.client, operation)
    assert code(lambda: call(TableName="pynamodb-tracker-no-such-table", **key)) == "ResourceNotFoundException"


@moto_differs("A query on a missing index raises a ValidationException.")
def test_an_index_that_does_not_exist_is_invalid(table: Table) -> None:
    """Parity Suite: tier3/validation-ordering/index, "Query on a non-existent index reports ValidationException"."""
    values = dumps({":x": "x"})
    query = {"TableName": table.name, "KeyConditionExpression": "st = :x", "ExpressionAttributeValues": values}
    assert code(lambda: table.client.query(**query, IndexName="no-such-index")) == "ValidationException"


def test_a_table_is_created_once(table: Table) -> None:
    """Parity Suite: tier1/createTable/basic, "rejects duplicate table creation with ResourceInUseException"."""
    schema = {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}
    types = {"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]}
    again = {"TableName": table.name, "BillingMode": "PAY_PER_REQUEST", **schema, **types}
    assert code(lambda: table.client.create_table(**again)) == "ResourceInUseException"


def test_a_description_names_the_keys_and_the_projection_of_an_index(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html."""
    (index,) = table.client.describe_table(TableName=table.name)["Table"]["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["IndexStatus"]) == (INDEX, "ACTIVE")
    assert [each["AttributeName"] for each in index["KeySchema"]] == ["st", "due"]
    assert index["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["note"]}


def test_a_row_that_has_expired_is_there_until_it_is_deleted(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ttl-expired-items.html.

    DynamoDB deletes it within a few days, and reads return it until then.
    """
    described = table.client.describe_time_to_live(TableName=table.name)["TimeToLiveDescription"]
    assert described["AttributeName"] == "expires"
    assert table.read(table.put(expires=int(time.time()) - 60)) is not None
