"""What the writes of the library look like as statements of PartiQL."""

from __future__ import annotations

from typing import Any

import pytest

from pynamodb_tracker.dynamodb import partiql

KEY = {"task_id": {"S": "o-1"}, "use_case_id": {"S": "order"}}


def update(actions: str, condition: str, names: dict[str, str], **also: Any) -> dict[str, Any]:
    return {
        "TableName": "tasks",
        "Key": KEY,
        "UpdateExpression": actions,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {":0": {"N": "10"}, ":1": {"S": "x"}},
        **also,
    }


def test_an_update_has_the_values_of_its_changes_its_key_and_its_condition_in_that_order() -> None:
    request = update(
        "SET #0 = :0, #1[9999] = #0 + :0 REMOVE #2, #3",
        "((#0 IN (:0, :1) AND attribute_exists (#1)) OR (NOT #2 <= :1 AND attribute_not_exists (#3)))",
        {"#0": "status", "#1": "unfinished", "#2": "a.b", "#3": 'say "x"'},
        ReturnValues="ALL_NEW",
    )
    found = partiql.statement("UpdateItem", request)
    assert found is not None
    assert found.text == (
        'UPDATE "tasks" SET "status" = ? SET "unfinished"[9999] = "status" + ? REMOVE "a.b" REMOVE "say ""x""" '
        'WHERE "task_id" = ? AND "use_case_id" = ? AND ((("status" IN [?, ?] AND "unfinished" IS NOT MISSING) '
        'OR (NOT "a.b" <= ? AND "say ""x""" IS MISSING))) RETURNING ALL NEW *'
    )
    assert [*found.parameters] == [
        {"N": "10"},
        {"N": "10"},
        *KEY.values(),
        {"N": "10"},
        {"S": "x"},
        {"S": "x"},
    ]


def test_one_text_is_filled_with_the_values_of_each_request() -> None:
    names = {"#0": "status"}
    first = partiql.statement("UpdateItem", update("SET #0 = :0", "#0 = :1", names))
    values = {":0": {"N": "11"}, ":1": {"S": "y"}}
    second = partiql.statement("UpdateItem", update("SET #0 = :0", "#0 = :1", names, ExpressionAttributeValues=values))
    assert first is not None
    assert second is not None
    assert (second.text, second.parameters) == (first.text, [{"N": "11"}, *KEY.values(), {"S": "y"}])


@pytest.mark.parametrize(
    "actions", ["SET #0 = list_append (if_not_exists (#0, :0), :1)", "ADD #0 :0", "SET #0 = :0 DELETE #0 :1"]
)
def test_what_partiql_cannot_express_is_no_statement(actions: str) -> None:
    assert partiql.statement("UpdateItem", update(actions, "#0 = :1", {"#0": "errors"})) is None


def test_a_statement_that_is_too_long_is_none() -> None:
    assert partiql.statement("UpdateItem", update("SET #0 = :0", "#0 = :1", {"#0": "x" * 4_000})) is None


def test_a_delete_has_its_condition() -> None:
    request = update("", "#0 = :1", {"#0": "status"})
    del request["UpdateExpression"]
    found = partiql.statement("DeleteItem", request)
    assert found is not None
    assert found.text == 'DELETE FROM "tasks" WHERE "task_id" = ? AND "use_case_id" = ? AND ("status" = ?)'


def test_a_put_that_replaces_nothing_is_an_insert() -> None:
    request = {
        "TableName": "tasks",
        "Item": {**KEY, "it's": {"L": []}},
        "ConditionExpression": "attribute_not_exists (#0)",
        "ExpressionAttributeNames": {"#0": "task_id"},
    }
    found = partiql.statement("PutItem", request)
    assert found is not None
    assert found.text == """INSERT INTO "tasks" VALUE {'task_id': ?, 'use_case_id': ?, 'it''s': ?}"""
    assert found.parameters == [*KEY.values(), {"L": []}]
    assert partiql.statement("PutItem", {**request, "ConditionExpression": "attribute_exists (#0)"}) is None


def test_the_impossible_update_changes_nothing_and_keeps_the_condition() -> None:
    found = partiql.impossible("UpdateItem", update("SET #0 = :0", "#0 = :1", {"#0": "a WHERE b"}))
    assert found is not None
    assert found.text == (
        'UPDATE "tasks" REMOVE "no such attribute" WHERE "task_id" = ? AND "use_case_id" = ? '
        'AND ("a WHERE b" = ? AND "task_id" IS MISSING)'
    )
    assert found.parameters == [*KEY.values(), {"S": "x"}]
