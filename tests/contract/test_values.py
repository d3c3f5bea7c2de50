"""Values of every kind of attribute: stored, read back equal, and written again when something in them changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from pynamodb.attributes import (
    BinaryAttribute,
    BinarySetAttribute,
    BooleanAttribute,
    DynamicMapAttribute,
    JSONAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    NumberSetAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
    UTCDateTimeAttribute,
)

from pynamodb_tracker import Step, UseCase
from tests.support.recorder import recorded
from tests.support.rows import stored
from tests.support.shop import AppTask

pytestmark = pytest.mark.usefixtures("table")


class Line(MapAttribute[str, object]):
    sku = UnicodeAttribute()
    count = NumberAttribute(default=1)
    tags = UnicodeSetAttribute(null=True)


class Address(MapAttribute[str, object]):
    street = UnicodeAttribute()
    floor = NumberAttribute(null=True)
    lines = ListAttribute[Line](of=Line, null=True)


class Anything(DynamicMapAttribute):
    kind = UnicodeAttribute()


class Sample(AppTask):
    use_case_id = UseCase("sample")

    work = Step(10)

    text = UnicodeAttribute(null=True)
    renamed = UnicodeAttribute(null=True, attr_name="r")
    number = NumberAttribute(null=True)
    flag = BooleanAttribute(null=True)
    when = UTCDateTimeAttribute(null=True)
    json = JSONAttribute(null=True)
    binary = BinaryAttribute(null=True, legacy_encoding=False)
    raw_list = ListAttribute[Any](null=True)
    lines = ListAttribute[Line](of=Line, null=True)
    raw_map = MapAttribute[str, Any](null=True)
    address = Address(null=True)
    anything = Anything(null=True)
    texts = UnicodeSetAttribute(null=True)
    numbers = NumberSetAttribute(null=True)
    binaries = BinarySetAttribute(null=True, legacy_encoding=False)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


VALUES: list[tuple[str, Any]] = [
    ("text", "a text"),
    ("text", ""),
    ("text", "\0 ä 道 😀 \n\t\"'\\ #"),
    ("text", "x" * 100_000),
    ("text", Colour.RED),
    ("renamed", "a text"),
    ("number", 0),
    ("number", -1),
    ("number", 2**63),
    ("number", 10**37),
    ("number", -(10**37) - 1),
    ("number", 0.1),
    ("number", -1.5e-9),
    ("number", 1e20),
    ("number", 123456789.123456789),
    ("number", 1e-130),
    ("number", Level.HIGH),
    ("flag", True),
    ("flag", False),
    ("when", datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=UTC)),
    ("when", datetime(2026, 7, 1, 12, 0, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
    ("when", datetime(1970, 1, 1, tzinfo=UTC)),
    ("json", {"a": [1, 2.5, None, True, {"b": "ä"}]}),
    ("json", [1, [2, [3]]]),
    ("json", "text"),
    ("json", {}),
    ("json", 0),
    ("json", False),
    ("binary", b"\x00\xff\n"),
    ("binary", b""),
    ("raw_list", [1, "two", 3.5, None, True, [4, ["five"]], {"six": 6}]),
    ("raw_list", []),
    ("raw_list", [{}, []]),
    ("lines", [Line(sku="a"), Line(sku="b", count=5, tags={"x", "y"})]),
    ("lines", []),
    ("raw_map", {"a": 1, "b": [2, {"c": None}], "d": {"e": "f"}}),
    ("raw_map", {}),
    ("address", Address(street="Nowhere 1", floor=3, lines=[Line(sku="a")])),
    ("address", Address(street="")),
    ("texts", {"a", "b", "ä"}),
    ("texts", {""}),
    ("numbers", {1, 2.5, -3}),
    ("binaries", {b"a", b"\xff"}),
    ("data", {"a": [1, 2.5, None, True, {"b": "ä"}], "": "empty key"}),
    ("data", {"big": 2**200, "small": -1e-300, "long": 10**4000}),
    ("data", {"text": "\0\ud800 lone surrogates are kept \udfff"}),
    ("data", {"\ud800": 1}),
    ("data", {"colour": Colour.RED, "level": Level.HIGH}),
    ("data", {"deep": json.loads("[" * 200 + "]" * 200)}),
    ("data", {"NULL": None, "S": {"S": "x"}}),
]


def plain(value: Any) -> Any:
    """Return maps and lists of attributes as plain ones, so that they compare."""
    if isinstance(value, MapAttribute):
        return {name: plain(entry) for name, entry in value.attribute_values.items()}
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value


def told(part: object) -> str:
    return part if isinstance(part, str) and part.isidentifier() else type(part).__name__


@pytest.mark.parametrize(("name", "value"), VALUES, ids=told)
def test_a_value_that_a_task_is_created_with_reads_back_equal(name: str, value: object) -> None:
    created = Sample.create("s-1", **{name: value})
    assert plain(getattr(created, name)) == plain(value)
    assert plain(getattr(Sample.get_task("s-1"), name)) == plain(value)


@pytest.mark.parametrize(("name", "value"), VALUES, ids=told)
def test_a_value_that_a_block_assigns_reads_back_equal(name: str, value: object) -> None:
    Sample.create("s-1")
    with Sample.work.start("s-1") as ctx:
        setattr(ctx.task, name, value)
    assert plain(getattr(Sample.get_task("s-1"), name)) == plain(value)


@pytest.mark.parametrize(("name", "value"), VALUES, ids=told)
def test_a_value_that_a_block_only_reads_is_not_written(name: str, value: object) -> None:
    Sample.create("s-1", **{name: value})
    before = stored(Sample, "s-1")
    with recorded() as requests, Sample.work.start("s-1") as ctx:
        assert plain(getattr(ctx.task, name)) == plain(value)
    attribute = Sample.get_attributes()[name].attr_name
    assert attribute not in requests[-1].written
    assert stored(Sample, "s-1")[attribute] == before[attribute]


@pytest.mark.parametrize(("name", "value"), VALUES, ids=told)
def test_a_value_can_be_removed(name: str, value: object) -> None:
    Sample.create("s-1", **{name: value})
    with Sample.work.start("s-1") as ctx:
        setattr(ctx.task, name, None)
    assert Sample.get_attributes()[name].attr_name not in stored(Sample, "s-1")


@pytest.mark.parametrize("name", ["texts", "numbers", "binaries"])
def test_an_empty_set_is_stored_as_nothing(name: str) -> None:
    Sample.create("s-1", texts={"a"}, numbers={1}, binaries={b"a"})
    with Sample.work.start("s-1") as ctx:
        setattr(ctx.task, name, set())
    assert name not in stored(Sample, "s-1")


def test_a_renamed_attribute_is_stored_under_its_other_name() -> None:
    Sample.create("s-1", renamed="x")
    assert stored(Sample, "s-1")["r"] == {"S": "x"}


NESTED: list[tuple[str, Callable[[Sample], object], Callable[[Sample], object], object]] = [
    ("raw_list", lambda t: t.raw_list.append(3), lambda t: t.raw_list, [1, {"a": [2]}, 3]),
    ("raw_list", lambda t: t.raw_list[1]["a"].append(9), lambda t: t.raw_list[1], {"a": [2, 9]}),
    ("raw_list", lambda t: t.raw_list.clear(), lambda t: t.raw_list, []),
    ("lines", lambda t: setattr(t.lines[0], "count", 7), lambda t: t.lines[0].count, 7),
    ("lines", lambda t: t.lines.append(Line(sku="b")), lambda t: [line.sku for line in t.lines], ["a", "b"]),
    ("lines", lambda t: setattr(t.lines[0], "tags", {"x"}), lambda t: t.lines[0].tags, {"x"}),
    ("raw_map", lambda t: t.raw_map.__setitem__("b", 2), lambda t: plain(t.raw_map), {"a": [1], "b": 2}),
    ("raw_map", lambda t: t.raw_map["a"].append(2), lambda t: plain(t.raw_map), {"a": [1, 2]}),
    ("address", lambda t: setattr(t.address, "floor", 4), lambda t: t.address.floor, 4),
    ("address", lambda t: setattr(t.address.lines[0], "sku", "z"), lambda t: t.address.lines[0].sku, "z"),
    ("texts", lambda t: t.texts.add("b"), lambda t: t.texts, {"a", "b"}),
    ("numbers", lambda t: t.numbers.discard(1), lambda t: t.numbers, {2}),
    ("json", lambda t: t.json["a"].append(2), lambda t: t.json, {"a": [1, 2]}),
    ("data", lambda t: t.data["a"]["b"].append(2), lambda t: t.data, {"a": {"b": [1, 2]}}),
    ("data", lambda t: t.data["a"].pop("b"), lambda t: t.data, {"a": {}}),
]


@pytest.mark.parametrize(("name", "change", "read", "expected"), NESTED, ids=told)
def test_a_change_within_a_value_is_saved(
    name: str, change: Callable[[Sample], object], read: Callable[[Sample], object], expected: object
) -> None:
    Sample.create(
        "s-1",
        raw_list=[1, {"a": [2]}],
        lines=[Line(sku="a")],
        raw_map={"a": [1]},
        address=Address(street="x", lines=[Line(sku="a")]),
        texts={"a"},
        numbers={1, 2},
        json={"a": [1]},
        data={"a": {"b": [1]}},
    )
    with recorded() as requests, Sample.work.start("s-1") as ctx:
        change(ctx.task)
    own = {attribute.attr_name for _, attribute in Sample.tracker.own_attributes()}
    assert requests[-1].written & own == {name}
    assert read(Sample.get_task("s-1")) == expected


def test_a_map_with_entries_of_any_name_is_not_written_where_it_is_left_alone() -> None:
    Sample.create("s-1", anything=Anything(kind="x", extra=[1, {"y": "z"}]))
    before = stored(Sample, "s-1")
    with recorded() as requests, Sample.work.start("s-1") as ctx:
        assert ctx.task.anything.extra == [1, {"y": "z"}]
    assert "anything" not in requests[-1].written
    assert stored(Sample, "s-1")["anything"] == before["anything"]


def test_a_set_in_another_order_is_not_a_change() -> None:
    Sample.create("s-1", texts={f"{number}" for number in range(50)})
    with recorded() as requests, Sample.work.start("s-1") as ctx:
        ctx.task.texts = {f"{number}" for number in reversed(range(50))}
    assert "texts" not in requests[-1].written


def test_a_number_that_is_equal_is_not_a_change() -> None:
    Sample.create("s-1", number=5)
    with recorded() as requests, Sample.work.start("s-1") as ctx:
        ctx.task.number = 5.0
    assert "number" not in requests[-1].written


def test_a_naive_time_is_stored_as_pynamodb_does() -> None:
    Sample.create("s-1", when=datetime(2026, 1, 1))  # noqa: DTZ001 - PynamoDB takes it as UTC
    assert Sample.get_task("s-1").when == datetime(2026, 1, 1, tzinfo=UTC)


def test_all_at_once() -> None:
    values = dict(VALUES)
    Sample.create("s-1", **values)
    with Sample.work.start("s-1") as ctx:
        for name, value in values.items():
            setattr(ctx.task, name, value)
    task = Sample.get_task("s-1")
    assert {name: plain(getattr(task, name)) for name in values} == {name: plain(values[name]) for name in values}
