"""What the writes of the library look like as statements of PartiQL."""

from typing import Any

import pytest
from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords
from pynamodb.attributes import ListAttribute, NumberAttribute, NumberSetAttribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path
from pynamodb.expressions.update import Action

from pynamodb_tracker.dynamodb import partiql
from pynamodb_tracker.writes.conditions import PreparedWrite, fill, parameter
from tests.support.shop import Order

KEY = {"task_id": {"S": "o-1"}, "use_case_id": {"S": "order"}}

status, errors = NumberAttribute(attr_name="status"), ListAttribute[Any](attr_name="errors")
fence = NumberAttribute(attr_name="fence")
numbers, x = NumberSetAttribute(attr_name="numbers"), UnicodeAttribute(attr_name="x")
IS_X = x == parameter(x, "x")


def request(*actions: Action, condition: Condition = IS_X, returned: str | None = None, number: str = "10") -> Any:
    write = PreparedWrite(
        Order.tracker.connection(), condition=condition, actions=list(actions) or None, return_values=returned
    )
    return {"TableName": "tasks", **write.request(KEY, {"number": number, "x": "x"})}


def named(name: str) -> UnicodeAttribute:
    return UnicodeAttribute(attr_name=name)


def test_an_update_has_the_values_of_its_changes_its_key_and_its_condition_in_that_order() -> None:
    unfinished, dotted, quoted = Path("unfinished"), Path(named("a.b")), Path(named('say "x"'))
    number: Any = parameter(status, "number")
    actions = named("a.b").remove(), fill(status, "number"), unfinished[9999].set(Path(fence) + number)
    condition = (status.is_in(number, 7) & unfinished.exists()) | (
        ~(dotted <= parameter(x, "x")) & quoted.does_not_exist()
    )
    found: Any = partiql.statement(
        "UpdateItem", request(*actions, named('say "x"').remove(), condition=condition, returned="ALL_NEW")
    )
    assert found.text == (
        'UPDATE "tasks" SET "status" = ? SET "unfinished"[9999] = fence + ? REMOVE "a.b" REMOVE "say ""x""" '
        'WHERE "task_id" = ? AND "use_case_id" = ? AND (("status" IN [?, ?] AND "unfinished" IS NOT MISSING) '
        'OR ((NOT "a.b" <= ?) AND "say ""x""" IS MISSING)) RETURNING ALL NEW *'
    )
    assert [*found.parameters] == [{"N": "10"}, {"N": "10"}, *KEY.values(), {"N": "10"}, {"N": "7"}, {"S": "x"}]


def test_a_value_that_equals_the_name_of_a_slot_is_not_taken_for_it() -> None:
    found: Any = partiql.statement("UpdateItem", request(x.set("number"), fill(status, "number"), named("y").set("x")))
    assert found.parameters == [{"S": "number"}, {"N": "10"}, {"S": "x"}, *KEY.values(), {"S": "x"}]


def test_one_text_is_filled_with_the_values_of_each_request() -> None:
    first = partiql.statement("UpdateItem", request(fill(status, "number")))
    second = partiql.statement("UpdateItem", request(fill(status, "number"), number="11"))
    assert first is not None
    assert second is not None
    assert (second.text, second.parameters) == (first.text, [{"N": "11"}, *KEY.values(), {"S": "x"}])


@pytest.mark.parametrize(
    "action", [errors.set((errors | []).append(["x"])), numbers.add({1}), numbers.delete({1}), named("#x").set("x")]
)
def test_what_partiql_cannot_express_is_no_statement(action: Action) -> None:
    assert partiql.statement("UpdateItem", request(action)) is None


@pytest.mark.parametrize("name", ["status", "Fence", "a b", "größe"])
def test_a_sum_with_a_name_that_is_not_known_to_be_safe_without_quotes_is_no_statement(name: str) -> None:
    added = Path(NumberAttribute(attr_name=name))
    assert partiql.statement("UpdateItem", request(fence.set(added + 1))) is None
    assert partiql.statement("UpdateItem", request(fence.set(added - 1))) is None


def test_a_sum_with_a_part_of_an_attribute_is_no_statement() -> None:
    assert partiql.statement("UpdateItem", request(status.set(Path("fence.x") + 1))) is None
    assert partiql.statement("UpdateItem", request(status.set(Path("fence")[0] + 1))) is None


@pytest.mark.parametrize("name", sorted(partiql._SUMMANDS))
def test_a_name_without_quotes_is_not_a_reserved_word(name: str) -> None:
    assert name.isascii()
    assert name.isidentifier()
    assert name.upper() not in ReservedKeywords.get_reserved_keywords()


def test_a_condition_that_partiql_cannot_express_is_no_statement() -> None:
    assert partiql.statement("UpdateItem", request(x.set("x"), condition=x.startswith("x"))) is None


def test_an_expression_that_was_not_rendered_from_objects_is_no_statement() -> None:
    written = {**request(x.set("x")), "ConditionExpression": "#0 = :0"}
    assert partiql.statement("UpdateItem", written) is None


def test_a_statement_that_is_too_long_is_none() -> None:
    assert partiql.statement("UpdateItem", request(named("x" * 8_000).set("x"))) is None


def test_a_delete_has_its_condition() -> None:
    found: Any = partiql.statement("DeleteItem", request())
    assert found.text == 'DELETE FROM "tasks" WHERE "task_id" = ? AND "use_case_id" = ? AND "x" = ?'


def test_a_put_that_replaces_nothing_is_an_insert() -> None:
    put = {
        "TableName": "tasks",
        "Item": {**KEY, "it's": {"L": []}},
        "ConditionExpression": "attribute_not_exists (task_id)",
    }
    found: Any = partiql.statement("PutItem", put)
    assert found.text == """INSERT INTO "tasks" VALUE {'task_id': ?, 'use_case_id': ?, 'it''s': ?}"""
    assert found.parameters == [*KEY.values(), {"L": []}]
    assert partiql.statement("PutItem", {**put, "ConditionExpression": "attribute_exists (task_id)"}) is None


def test_the_impossible_update_changes_nothing_and_keeps_the_condition() -> None:
    found: Any = partiql.build_probe("UpdateItem", request(x.set("y"), condition=named("a WHERE b") == "x"))
    assert found.text == (
        'UPDATE "tasks" REMOVE "no such attribute" WHERE "task_id" = ? AND "use_case_id" = ? '
        'AND ("a WHERE b" = ? AND "task_id" IS MISSING)'
    )
    assert found.parameters == [*KEY.values(), {"S": "x"}]
