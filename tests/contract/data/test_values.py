"""Values of every kind of attribute: each is stored and reads back equal, and is written only when it changes."""

import collections
import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from tests.contract.odd_rows import Address, Anything, Line, Odd, check_equal, nested_map, plain
from tests.contract.odd_values import EARLIER, LATER, Colour, Level, Member, Text, columns, of_value
from tests.support.engines import only_dynoxide
from tests.support.recorder import recorded
from tests.support.rows import change, nested, stored

pytestmark = pytest.mark.usefixtures("table")

STORED: dict[str, list[Any]] = {
    "text": [
        *("", " ", "\0", "a\nb", "\u2028", "\ufeff", "😀", "道" * 40_000, "x" * 100_000, "\0 ä 道 😀 \n\t\"'\\ #"),
        *(Text("x"), Colour.RED, Member.RED),
    ],
    "renamed": ["a text"],
    "number": [
        *(0, -0.0, 1.0, 10**37, 10**125, int("9" * 38), -(10**38), 2**53 + 1, 2**63, -1, -(10**37) - 1, Level.HIGH),
        *(0.1 + 0.2, 1 / 3, -1e-130, 1e-130, 1e16, 1e20, 1.5e-7, -1.5e-9, 123456789.123456789),
    ],
    "flag": [True, False],
    "when": [
        *LATER,
        *EARLIER,
        datetime(2026, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
    ],
    "json": [
        *(
            False,
            0,
            -0.0,
            1.0,
            "",
            "\0",
            "\ud800",
            "text",
            [],
            [None],
            {},
            {"": None},
            10**4299,
            Colour.RED,
            nested(199),
        ),
        *([1, [2, [3]]], {"a": [1, 2.5, None, True, {"b": "ä"}]}),
    ],
    "binary": [b"", b"\0", b"\x00\xff\n", bytes(range(256)), bytearray(b"x")],
    "legacy": [b"", b"\0", bytes(range(256)), bytearray(b"x"), memoryview(b"x")],
    "raw_list": [
        *([], [None], [""], [b""], [[]], [{}], [True, False], [{1, 2}], [{"a"}], [-0.0], ["\0"], [10**125], [{}, []]),
        *([{"NULL": True}], [{"S": "x"}], nested(30), [nested_map(29)]),
        [1, "two", 3.5, None, True, [4, ["five"]], {"six": 6}],
    ],
    "numbered": [[], [None], [1, 2.5], [-0.0]],
    "worded": [[], [None], ["", "\0"], [Colour.RED]],
    "lines": [[Line(sku="a"), Line(sku="b", count=5, tags={"x", "y"})], []],
    "raw_map": [
        *({}, {"a": None}, {"a": {}}, {"a": b""}, MappingProxyType({"a": 1}), nested_map(30), {" ": 1}, {"a.b": 1}),
        *({"#": 1}, {":x": 1}, {"null": 1}, {"default": 1}, {"attribute_values": 1}, {"\0": 1}, {"x" * 65_535: 1}),
        {"a": 1, "b": [2, {"c": None}], "d": {"e": "f"}},
    ],
    "address": [
        *({"street": ""}, {"street": "\0", "floor": -0.0}, Address(street="x")),
        Address(street="Nowhere 1", floor=3, lines=[Line(sku="a")]),
    ],
    "texts": [{""}, {"\0"}, {"a", "A", "ä"}, frozenset({"a"}), {Colour.RED}],
    "numbers": [{0}, {1, 2.0}, {1, 2.5, -3}, {-0.0}, {10**125, 1e-130}, frozenset({1}), {Level.HIGH}],
    "binaries": [{b""}, {b"\0", b"\xff"}, frozenset({b"a"})],
    "data": [
        *({"a": value} for value in (0, 1, 1.0, -0.0, True, False, None, "", 5e-324, -1e-300, 1e308, 10**4299)),
        *({"a": []}, {"a": {}}),
        *({"a": value} for value in (Text("x"), Colour.RED, Level.HIGH, int("9" * 39), -(2**63) - 1, 0.1 + 0.2)),
        *({"a": value} for value in ("\0", "\ud800", "\udfff\ud800", "\u2028", "\U0010ffff", "\\u0000", '"')),
        *({"a": value} for value in (collections.OrderedDict(b=1), collections.Counter("ab"), nested(198))),
        *({key: 1} for key in ("", " ", "\0", "\ud800", "a.b", "S", "NULL", "__class__", Text("x"), Colour.RED)),
        *({}, collections.defaultdict(list, a=[1]), {"a": [1, 2.5, None, True, {"b": "ä"}], "": "empty key"}),
        *({"NULL": None, "S": {"S": "x"}}, {"text": "\0\ud800 lone surrogates are kept \udfff"}),
    ],
}
"""Values that are stored, by kind of attribute."""

AS_PYNAMODB_DOES: list[tuple[str, Any, Any]] = [
    ("flag", 1, True),
    ("when", datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),  # noqa: DTZ001 - it is taken as UTC
    ("texts", set(), None),
    ("numbers", frozenset(), None),
    ("address", {"street": "x", "floor": None}, {"street": "x"}),
    ("data", None, {}),
]

every_kind = pytest.mark.parametrize("name", STORED)


@only_dynoxide
@every_kind
def test_a_value_that_a_task_is_created_with_reads_back_equal_and_is_not_written_by_a_block_that_reads_it(
    name: str,
) -> None:
    attribute = Odd.get_attributes()[name].attr_name
    for number, value in enumerate(STORED[name]):
        with of_value(number, value):
            task_id = f"o-{number}"
            assert plain(getattr(Odd.create(task_id, **{name: value}), name)) == plain(value)
            check_equal(name, getattr(Odd.get_task(task_id), name), value)
            with recorded() as requests, Odd.work.start(task_id) as ctx:
                check_equal(name, getattr(ctx.task, name), value)
            assert attribute not in requests[-1].written


@only_dynoxide
@every_kind
def test_a_value_that_a_block_assigns_reads_back_equal_and_can_be_removed(name: str) -> None:
    attribute = Odd.get_attributes()[name].attr_name
    Odd.create("o-1")
    for number, value in enumerate(STORED[name]):
        with of_value(number, value):
            with Odd.work.start("o-1", also_from=[Odd.work.succeeded]) as ctx:
                setattr(ctx.task, name, value)
                if number % 2:
                    ctx.save()
            check_equal(name, getattr(Odd.get_task("o-1"), name), value)
            with Odd.work.start("o-1", also_from=[Odd.work.succeeded]) as ctx:
                setattr(ctx.task, name, None)
            left = {"S": "{}"} if name == "data" else None  # a mark that it had some
            assert stored(Odd, "o-1").get(attribute) == left


@pytest.mark.parametrize("name", ["texts", "numbers", "binaries"])
def test_an_empty_set_is_stored_as_nothing(name: str) -> None:
    Odd.create("o-1", texts={"a"}, numbers={1}, binaries={b"a"})
    with Odd.work.start("o-1") as ctx:
        setattr(ctx.task, name, set())
    assert name not in stored(Odd, "o-1")


def test_a_renamed_attribute_is_stored_under_its_other_name() -> None:
    Odd.create("o-1", renamed="x")
    assert stored(Odd, "o-1")["r"] == {"S": "x"}


def names(part: object) -> str:
    return part if isinstance(part, str) else type(part).__name__


NESTED: list[tuple[str, Callable[[Odd], object], Callable[[Odd], object], object]] = [
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


@pytest.mark.parametrize(("name", "change", "read", "expected"), NESTED, ids=names)
def test_a_change_within_a_value_is_saved(
    name: str, change: Callable[[Odd], object], read: Callable[[Odd], object], expected: object
) -> None:
    Odd.create(
        "o-1",
        raw_list=[1, {"a": [2]}],
        lines=[Line(sku="a")],
        raw_map={"a": [1]},
        address=Address(street="x", lines=[Line(sku="a")]),
        texts={"a"},
        numbers={1, 2},
        json={"a": [1]},
        data={"a": {"b": [1]}},
    )
    with recorded() as requests, Odd.work.start("o-1") as ctx:
        change(ctx.task)
    own = {attribute.attr_name for attribute in Odd.tracker.own_attributes.values()}
    assert (requests[-1].written & own, read(Odd.get_task("o-1"))) == ({name}, expected)


def test_a_map_with_entries_of_any_name_is_not_written_where_it_is_left_alone() -> None:
    Odd.create("o-1", anything=Anything(kind="x", extra=[1, {"y": "z"}]))
    before = stored(Odd, "o-1")
    with recorded() as requests, Odd.work.start("o-1") as ctx:
        assert ctx.task.anything.extra == [1, {"y": "z"}]
    assert "anything" not in requests[-1].written
    assert stored(Odd, "o-1")["anything"] == before["anything"]


@pytest.mark.parametrize(
    ("name", "before", "equal"),
    [("texts", {*map(str, range(50))}, {*map(str, reversed(range(50)))}), ("number", 5, 5.0)],
    ids=["a set in another order", "a number"],
)
def test_a_value_that_is_equal_is_not_a_change(name: str, before: Any, equal: Any) -> None:
    Odd.create("o-1", **{name: before})
    with recorded() as requests, Odd.work.start("o-1") as ctx:
        setattr(ctx.task, name, equal)
    assert name not in requests[-1].written


@columns("name", "value", "expected")(AS_PYNAMODB_DOES)
def test_a_few_values_read_back_as_pynamodb_has_them(name: str, value: Any, expected: object) -> None:
    Odd.create("o-1", **{name: value})
    assert plain(getattr(Odd.get_task("o-1"), name)) == expected


@columns("value")([1.2345678901234567e19, -9.99e125])
def test_a_float_beyond_all_exact_integers_is_the_nearest_one_of_what_reads_back(value: float) -> None:
    """DynamoDB tells its shortest digits in full, and PynamoDB takes those for an integer; moto tells them short."""
    Odd.create("o-1", number=value)
    assert float(Odd.get_task("o-1").number) == value


@columns("name")(["data", "json"])
def test_an_equal_value_of_another_type_is_a_change(name: str) -> None:
    one: Any = {"a": 1}
    Odd.create("o-1", **{name: one})
    for value in ({"a": True}, {"a": 1.0}, one):
        with Odd.work.start("o-1", also_from=[Odd.work.succeeded]) as ctx:
            setattr(ctx.task, name, value)
        check_equal(name, getattr(Odd.get_task("o-1"), name), value)


@columns("text")(["[NaN]", "[ Infinity,NaN ]", '{"a":1,"a":2}', "1e999"])
def test_json_that_another_program_stored_stops_no_task_and_is_left_as_it_is(text: str) -> None:
    Odd.create("o-1")
    change(Odd, "o-1", json={"S": text})
    with Odd.work.start("o-1") as ctx:
        assert json.dumps(ctx.task.json) == json.dumps(json.loads(text))
        ctx.task.text = "new"
    task = Odd.get_task("o-1")
    assert (task.state, task.text, json.dumps(task.json)) == (Odd.work.succeeded, "new", json.dumps(json.loads(text)))


@columns("name", "value")([("text", "x"), ("raw_list", [1]), ("json", [1]), ("raw_map", {"a": 1}), ("texts", {"a"})])
def test_a_null_that_another_program_stored_can_be_assigned_over(name: str, value: object) -> None:
    Odd.create("o-1")
    change(Odd, "o-1", **{name: {"NULL": True}})
    with Odd.work.start("o-1") as ctx:
        assert getattr(ctx.task, name) is None
        setattr(ctx.task, name, value)
    assert plain(getattr(Odd.get_task("o-1"), name)) == value


def test_values_of_all_kinds_are_stored_at_once() -> None:
    values = {name: of_kind[-1] for name, of_kind in STORED.items()}
    Odd.create("o-1", **values)
    with Odd.work.start("o-1") as ctx:
        for name, value in values.items():
            setattr(ctx.task, name, value)
    task = Odd.get_task("o-1")
    assert {name: plain(getattr(task, name)) for name in values} == {name: plain(values[name]) for name in values}
