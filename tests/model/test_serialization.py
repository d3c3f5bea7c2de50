"""Stored forms: which are equal, and what is refused before it is stored."""

from datetime import datetime
from typing import Any

import pytest
from pynamodb.attributes import (
    BooleanAttribute,
    DynamicMapAttribute,
    JSONAttribute,
    MapAttribute,
    NumberAttribute,
    UnicodeAttribute,
)

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.model.serialization import (
    IntegerAttribute,
    TimeAttribute,
    check_map,
    refuse_json,
    rewrite_value,
    same,
    serialize_value,
)


class Line(MapAttribute[str, Any]):
    item = UnicodeAttribute()
    price = NumberAttribute()


class Bag(DynamicMapAttribute):
    item = UnicodeAttribute()


class YesOrNo(BooleanAttribute):
    def serialize(self, value: object) -> bool:
        return value == "yes"


class BasketTask(Task):
    class Meta:
        table_name = "baskets"
        region = "us-east-1"


class Basket(BasketTask):
    use_case_id = UseCase("basket")

    fill = Step(10)

    bag = Bag(null=True)  # type: ignore[no-untyped-call]  # PynamoDB's
    line = Line(null=True)  # type: ignore[no-untyped-call]  # PynamoDB's
    paid = YesOrNo(null=True)
    text = JSONAttribute(null=True)


def test_a_naive_time_is_refused_because_it_could_mean_any_zone() -> None:
    with pytest.raises(ValueError, match="needs an aware datetime"):
        TimeAttribute(attr_name="due_time").serialize(datetime(2026, 1, 1))  # noqa: DTZ001 - that is what is refused


def test_a_boolean_is_stored_in_a_whole_number_as_its_digit() -> None:
    assert IntegerAttribute().serialize(True) == "1"  # noqa: FBT003 - any whole number


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"N": "1.50"}, {"N": "1.5"}, True),
        ({"N": "1"}, {"N": "2"}, False),
        ({"N": "no number"}, {"N": "another one"}, False),
        ({"S": "1"}, {"N": "1"}, False),
        ({"NS": ["1", "2.0"]}, {"NS": ["2", "1"]}, True),
        ({"NS": ["1"]}, {"NS": ["2"]}, False),
        ({"SS": ["a", "b"]}, {"SS": ["b", "a"]}, True),
        ({"SS": ["a"]}, {"L": ["a"]}, False),
        ({"L": [{"N": "1.0"}]}, {"L": [{"N": "1"}]}, True),
        ({"L": [{"N": "1"}]}, {"L": [{"N": "1"}, {"N": "2"}]}, False),
        ({"M": {"a": {"N": "1.0"}}}, {"M": {"a": {"N": "1"}}}, True),
        ({"M": {"a": {"N": "1"}}}, {"M": {"a": {"N": "1"}, "b": {"N": "1"}}}, False),
        ({"NULL": True}, None, True),
        ({"NULL": True}, {"S": "a"}, False),
        (None, {"S": "a"}, False),
    ],
    ids=str,
)
def test_stored_values_are_equal_by_what_they_mean(one: Any, other: Any, *, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal


def test_a_dictionary_that_contains_itself_further_down_is_refused_with_the_path() -> None:
    outer: dict[str, Any] = {"inner": {}}
    outer["inner"]["outer"] = outer
    with pytest.raises(ValueError, match=r"^data\['inner'\]\['outer'\] contains itself$"):
        refuse_json(outer, "data")


def test_the_same_value_twice_is_no_circle() -> None:
    twice = [1]
    refuse_json({"a": twice, "b": twice}, "data")


def test_a_map_of_declared_and_other_entries_takes_both() -> None:
    given = {"item": "chair", "colour": "red"}
    check_map("Basket", "bag", Basket.bag, given)
    with pytest.raises(ValueError, match="it has no 'colour'"):
        check_map("Basket", "line", Basket.line, given)


def test_an_attribute_that_stores_in_its_own_way_decides_what_it_takes() -> None:
    assert serialize_value(Basket, "paid", Basket.paid, "yes") == {"BOOL": True}


def test_a_map_that_another_program_stored_without_a_required_entry_is_written_again_as_it_is() -> None:
    stored = {"M": {"item": {"S": "chair"}}}
    assert rewrite_value(Basket("b-1"), "line", Basket.line, stored) == stored


def test_a_number_that_json_does_not_have_is_written_again_if_another_program_stored_it() -> None:
    assert rewrite_value(Basket("b-1"), "text", Basket.text, {"S": '{"a":NaN}'}) == {"S": '{"a": NaN}'}
