"""Transactions: all or nothing, why they are cancelled, and what they cost."""

import uuid
from typing import Any

from tests.assumptions.ledger import Item, Table, code, moto_differs, own, refusal


def add(table: Table, key: Item, condition: str = "attribute_exists(id)", **values: Any) -> Item:
    """Return an action that adds 1 to `fence`, and returns the row if it is refused."""
    action = table.action(key, update="SET fence = fence + :one", condition=condition, one=1, **values)
    return {"Update": {**action, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}


def put(table: Table, key: Item, **attributes: Any) -> Item:
    """Return an action that writes a row; the attributes are as requests have them."""
    return {"Put": {"TableName": table.name, "Item": key | attributes}}


def transact(table: Table, *actions: Item, **options: Any) -> Item:
    """Send a transaction."""
    return dict(table.client.transact_write_items(TransactItems=actions, ReturnConsumedCapacity="INDEXES", **options))


def test_one_refused_write_cancels_all_and_the_reasons_are_in_their_order(table: Table) -> None:
    """Parity Suite: tier3/error-messages/transactWriteItems.

    "one passing, one failing: positional reason codes (None for the survivor)".
    Parity Suite: tier2/transactions/transactWrite, "returns ALL_OLD item via ReturnValuesOnConditionCheckFailure".
    """
    first, second = table.put(fence=1), table.put(fence=7)
    answer = refusal(lambda: transact(table, add(table, first), add(table, second, "fence = :x", x=1)))
    assert answer["Error"]["Code"] == "TransactionCanceledException"
    passed, refused = answer["CancellationReasons"]
    assert (passed["Code"], refused["Code"]) == ("None", "ConditionalCheckFailed")
    assert (own(refused["Item"]), table.read(first)) == ({"fence": 7}, {"fence": 1})


def test_a_check_without_a_write_cancels_too(table: Table) -> None:
    """Parity Suite: tier2/transactions/transactWrite, "rolls back entire transaction when ConditionCheck fails"."""
    first, second = table.put(fence=1), table.put(fence=7)
    check = {"ConditionCheck": table.action(second, condition="fence = :x", x=1)}
    assert code(lambda: transact(table, add(table, first), check)) == "TransactionCanceledException"
    assert table.read(first) == {"fence": 1}


@moto_differs("A transaction that is sent twice with the same token is applied once.")
def test_the_same_token_applies_a_transaction_once(table: Table) -> None:
    """Parity Suite: tier2/transactions/transactWrite, "supports idempotency via ClientRequestToken"."""
    key, token = table.put(fence=1), uuid.uuid4().hex
    for _ in range(2):
        transact(table, add(table, key), ClientRequestToken=token)
    assert table.read(key) == {"fence": 2}


@moto_differs("A transaction that is sent twice with the same token is applied once.")
def test_the_same_token_with_other_writes_is_refused(table: Table) -> None:
    """Parity Suite: tier2/transactions/transactWrite, "rejects same ClientRequestToken with different payload"."""
    token = uuid.uuid4().hex
    transact(table, add(table, table.put(fence=1)), ClientRequestToken=token)
    other = add(table, table.put(fence=1))
    assert code(lambda: transact(table, other, ClientRequestToken=token)) == "IdempotentParameterMismatchException"


def test_a_transaction_writes_no_row_twice(table: Table) -> None:
    """Parity Suite: tier2/transactions/transactWrite, "rejects duplicate target items in same transaction"."""
    key = table.put(fence=1)
    assert code(lambda: transact(table, add(table, key), add(table, key))) == "ValidationException"


def test_a_transaction_has_at_most_100_writes(table: Table) -> None:
    """Parity Suite: tier3/limits/transactionLimits.

    "TransactWriteItems with exactly 100 Put actions succeeds" and "TransactWriteItems with 101 actions fails with
    ValidationException".
    """
    writes = [put(table, table.key()) for _ in range(101)]
    assert code(lambda: transact(table, *writes)) == "ValidationException"
    transact(table, *writes[:100])


@moto_differs("A transaction of more than 4 MB is refused.")
def test_a_transaction_has_at_most_4_mb(table: Table) -> None:
    """Parity Suite: tier3/limits/transactionLimits.

    "TransactWriteItems total item size over 4MB fails with ValidationException".
    """
    writes = [put(table, table.key(), big={"S": "x" * 390_000}) for _ in range(11)]
    assert code(lambda: transact(table, *writes)) == "ValidationException"


@moto_differs("A value of the wrong type for an index key is refused.")
def test_a_value_of_the_wrong_type_for_an_index_cancels_with_a_reason_of_its_own(table: Table) -> None:
    """Parity Suite: tier2/transactions/transactWriteIndexKeys.

    "Put with a wrong-typed index key cancels with a ValidationError reason".
    """
    wrong = put(table, table.key(), st={"S": "x"}, due={"N": "1"})
    answer = refusal(lambda: transact(table, put(table, table.key()), wrong))
    assert answer["Error"]["Code"] == "TransactionCanceledException"
    assert [reason["Code"] for reason in answer["CancellationReasons"]] == ["None", "ValidationError"]


@moto_differs("A write reports capacity units for the table and for each index.")
def test_in_a_transaction_a_row_costs_twice_its_units_and_an_index_entry_once(table: Table) -> None:
    """Parity Suite: tier2/transactions/transactWrite.

    "charges 2 write capacity units per item".
    AWS:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-capacity-handling.
    dynoxide: tests/transactional_index_consumed_capacity.rs of dynoxide 3.2.0 for the index, as measured on AWS.
    """
    answer = transact(table, put(table, table.key(), st={"S": "cost"}, due={"S": "a"}, note={"S": "x" * 1_500}))
    (consumed,) = answer["ConsumedCapacity"]
    assert consumed["Table"]["CapacityUnits"] == 4
    assert consumed["GlobalSecondaryIndexes"]["by-state"]["CapacityUnits"] == 2


@moto_differs("A write reports capacity units for the table and for each index.")
def test_a_changed_index_key_costs_a_unit_for_the_old_entry_and_one_for_the_new(table: Table) -> None:
    """Parity Suite: tier1/putItem/indexConsumedCapacity.

    "charges two index writes for a key change: delete plus insert" and "charges nothing on the index for a non-
    projected attribute".
    """
    key = table.put(st="one", due="a", extra="x")
    told = []
    for update, value in (("SET st = :x", "two"), ("SET extra = :x", "y")):
        action = table.action(key, update=update, x=value)
        consumed = table.client.update_item(**action, ReturnConsumedCapacity="INDEXES")["ConsumedCapacity"]
        told.append((consumed["Table"]["CapacityUnits"], consumed["CapacityUnits"]))
    assert told == [(1, 3), (1, 1)]
