"""Single writes: conditions, update expressions, and values that DynamoDB refuses."""

from decimal import Decimal
from typing import Any

import pytest

from tests.assumptions.ledger import Table, code, loads, moto_differs, refusal

REFUSED = "ConditionalCheckFailedException"
INVALID = "ValidationException"


@pytest.mark.parametrize("operation", ["update_item", "delete_item"])
def test_a_refused_write_returns_the_row(table: Table, operation: str) -> None:
    """Parity Suite: tier1/updateItem/conditions.

    "ReturnValuesOnConditionCheckFailure ALL_OLD returns existing item on failure".
    AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_DeleteItem.html.
    """
    key = table.put(fence=1, note="as it is")
    write = getattr(table.client, operation)
    answer = refusal(
        lambda: write(**table.action(key, condition="fence = :x", x=2), ReturnValuesOnConditionCheckFailure="ALL_OLD")
    )
    assert answer["Error"]["Code"] == REFUSED
    assert loads(answer["Item"]) == loads(key) | {"fence": 1, "note": "as it is"}


def test_a_refused_put_returns_the_row_that_is_there(table: Table) -> None:
    """Parity Suite: tier1/putItem/conditions.

    "returns the conflicting item via ReturnValuesOnConditionCheckFailure on a failed Put".
    """
    key = table.put(note="first")
    put = {"TableName": table.name, "Item": key, "ConditionExpression": "attribute_not_exists(id)"}
    answer = refusal(lambda: table.client.put_item(**put, ReturnValuesOnConditionCheckFailure="ALL_OLD"))
    assert (answer["Error"]["Code"], loads(answer["Item"])["note"]) == (REFUSED, "first")


def test_a_refused_update_creates_no_row(table: Table) -> None:
    """Parity Suite: tier1/updateItem/conditions.

    "comparison condition rejects update on non-existent key; no ghost item".
    """
    key = table.key()
    assert code(lambda: table.update(key, "SET note = :x", "fence = :n", x="x", n=1)) == REFUSED
    assert table.read(key) is None


@pytest.mark.parametrize("condition", ["absent = :n", "absent < :n", "absent > :n"])
def test_a_comparison_with_a_missing_attribute_does_not_hold_and_its_negation_does(
    table: Table, condition: str
) -> None:
    """Parity Suite: tier1/putItem/conditions.

    "equals on a missing attribute evaluates to false" and "OR with not-equals and less-than on missing attributes
    succeeds".
    """
    key = table.put(note="x")
    assert code(lambda: table.update(key, "REMOVE absent", condition, n=1)) == REFUSED
    assert table.update(key, "REMOVE absent", f"NOT ({condition})", n=1) == {"note": "x"}


@pytest.mark.parametrize("condition", ["note < :n", "note > :n"])
@moto_differs("Text compared with a number never matches.")
def test_a_comparison_with_another_type_does_not_hold(table: Table, condition: str) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Condition.html.

    {"S":"6"} does not equal {"N":"6"}, and is not less or greater either.
    """
    key = table.put(note="x")
    assert code(lambda: table.update(key, "REMOVE absent", condition, n=1)) == REFUSED


def test_setting_an_element_far_beyond_the_end_of_a_list_appends_it(table: Table) -> None:
    """Parity Suite: tier1/updateItem/paths, "SET on list index beyond bounds extends the list"."""
    key = table.put(unfinished=[1])
    assert table.update(key, "SET unfinished[9999] = :n", n=2) == {"unfinished": [1, 2]}


def test_all_actions_of_an_update_read_the_row_as_it_was(table: Table) -> None:
    """Parity Suite: tier1/updateItem/basic, "a second SET clause reads the pre-update value of another attribute"."""
    key = table.put(fence=1, unfinished=[])
    after = table.update(key, "SET fence = fence + :n, unfinished[9999] = fence + :n", n=1)
    assert after == {"fence": 2, "unfinished": [2]}


def test_functions_in_an_update_can_be_nested(table: Table) -> None:
    """Parity Suite: tier1/updateItem/basic.

    "composes nested functions: list_append(if_not_exists(list, :empty), :more) on a missing list" and "applies
    arithmetic around if_not_exists".
    """
    key = table.put()
    append = "SET things = list_append(if_not_exists(things, :empty), :more), amount = if_not_exists(amount, :n) + :n"
    table.update(key, append, empty=[], more=["a"], n=1)
    assert table.update(key, append, empty=[], more=["b"], n=1) == {"things": ["a", "b"], "amount": 3}


def test_a_set_without_its_last_entry_is_no_attribute(table: Table) -> None:
    """Parity Suite: tier1/updateItem/basic, "DELETE all elements from set removes the attribute entirely"."""
    key = table.put(awaits={"paid"})
    assert table.update(key, "DELETE awaits :x", x={"paid"}) == {}


def test_removing_what_is_not_there_changes_nothing(table: Table) -> None:
    """Parity Suite: tier1/updateItem/basic, "REMOVE on non-existent attribute succeeds silently"."""
    key = table.put(note="x")
    assert table.update(key, "REMOVE absent") == {"note": "x"}


def test_deleting_a_row_that_does_not_exist_succeeds(table: Table) -> None:
    """Parity Suite: tier1/deleteItem/basic, "succeeds silently when deleting a non-existent item"."""
    table.client.delete_item(TableName=table.name, Key=table.key())


def test_a_condition_that_needs_a_row_refuses_to_delete_one_that_does_not_exist(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_DeleteItem.html.

    The condition must be satisfied for the delete to succeed.
    """
    action = table.action(table.key(), condition="attribute_exists(id)")
    assert code(lambda: table.client.delete_item(**action)) == REFUSED


def test_a_reserved_word_needs_a_placeholder(table: Table) -> None:
    """Parity Suite: tier3/limits/reservedWords.

    "reserved word without # in UpdateExpression fails".
    AWS: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ReservedWords.html.
    """
    key = table.put()
    assert code(lambda: table.update(key, "SET status = :n", n=1)) == INVALID


@moto_differs("A number with more than 38 digits is refused, whether the condition holds or not.")
def test_an_invalid_value_is_refused_before_the_condition_is_checked(table: Table) -> None:
    """Parity Suite: tier3/limits/numberPrecision.

    "rejects a number with 39 significant digits". The order is that of dynoxide: the Parity Suite does not test it.
    """
    action = table.action(table.key(), update="SET amount = :n", condition="fence = :n", n=1)
    action["ExpressionAttributeValues"][":n"] = {"N": "1" * 39}
    assert code(lambda: table.client.update_item(**action)) == INVALID


def test_numbers_of_38_digits_are_exact(table: Table) -> None:
    """Parity Suite: tier3/limits/numberPrecision, "accepts a number with 38 significant digits"."""
    number = Decimal("1234567890123456789012345678901234567.8")
    assert table.read(table.put(amount=number)) == {"amount": number}


@moto_differs("A row may have at most 409,600 bytes.")
def test_a_row_has_at_most_400_kb(table: Table) -> None:
    """Parity Suite: tier3/limits/itemSize.

    "accepts an item measuring exactly 409,600 bytes" and "refuses the same item one byte over, with the put wording".
    AWS: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html.
    """
    key = table.key()
    rest = 400 * 1024 - sum(len(name) + len(value["S"]) for name, value in key.items()) - len("big")
    put = {"TableName": table.name, "Item": {**key, "big": {"S": "x" * (rest + 1)}}}
    assert code(lambda: table.client.put_item(**put)) == INVALID
    table.client.put_item(TableName=table.name, Item={**key, "big": {"S": "x" * rest}})


def test_an_update_that_makes_a_row_too_large_is_refused(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html.

    A row has at most 400 KB.
    """
    key = table.put(one="x" * 300_000)
    assert code(lambda: table.update(key, "SET two = :x", x="x" * 200_000)) == INVALID


def nested(levels: int) -> Any:
    """Return a value that is nested that deep."""
    return [nested(levels - 1)] if levels else "leaf"


@moto_differs("A value nested deeper than 32 levels is refused.")
def test_values_are_nested_at_most_32_levels_deep(table: Table) -> None:
    """Parity Suite: tier3/limits/nestingDepth.

    "accepts a stored attribute nested 31 levels (leaf at level 32)" and "rejects a stored attribute nested 32 levels
    (leaf at level 33)".
    """
    table.put(deep=nested(31))
    assert code(lambda: table.put(deep=nested(32))) == INVALID


def test_a_key_of_an_index_is_not_empty(table: Table) -> None:
    """Parity Suite: tier1/putItem/indexKeyValidation, "rejects an empty-string index key attribute"."""
    assert code(lambda: table.put(st="x", due="")) == INVALID


@moto_differs("A value of the wrong type for an index key is refused.")
def test_a_key_of_an_index_has_its_type(table: Table) -> None:
    """Parity Suite: tier1/putItem/indexKeyValidation, "rejects a wrong-typed index key attribute"."""
    assert code(lambda: table.put(st="x", due=1)) == INVALID


def test_a_set_is_not_empty(table: Table) -> None:
    """Parity Suite: tier3/limits/emptyValues, "empty string set (SS) is rejected"."""
    put = {"TableName": table.name, "Item": {**table.key(), "awaits": {"SS": []}}}
    assert code(lambda: table.client.put_item(**put)) == INVALID
