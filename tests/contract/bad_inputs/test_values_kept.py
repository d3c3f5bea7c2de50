"""Odd values that are stored: each reads back equal, whether a task is created with it or a block saves it."""

from __future__ import annotations

import collections
import json
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from tests.contract.odd_rows import Address, Odd, check_equal, nested, nested_map, plain
from tests.contract.odd_values import EARLIER, LATER, Colour, Level, Member, Text, columns
from tests.support.rows import change

pytestmark = pytest.mark.usefixtures("table")

KEPT: dict[str, list[Any]] = {
    "text": ["", " ", "\0", "a\nb", "\u2028", "\ufeff", "😀", "道" * 40_000, Text("x"), Colour.RED, Member.RED],
    "number": [
        *(0, -0.0, 1.0, 10**37, 10**125, int("9" * 38), -(10**38), 2**53 + 1, Level.HIGH),
        *(0.1 + 0.2, 1 / 3, -1e-130, 1e16, 1.5e-7),
    ],
    "flag": [True, False],
    "when": [*LATER, *EARLIER],
    "json": [False, 0, -0.0, 1.0, "", "\0", "\ud800", [], [None], {"": None}, 10**4299, Colour.RED, nested(200)],
    "binary": [b"", b"\0", bytes(range(256)), bytearray(b"x")],
    "legacy": [b"", b"\0", bytes(range(256)), bytearray(b"x"), memoryview(b"x")],
    "raw_list": [
        *([], [None], [""], [b""], [[]], [{}], [True, False], [{1, 2}], [{"a"}], [-0.0], ["\0"], [10**125]),
        *([{"NULL": True}], [{"S": "x"}], nested(30), [nested_map(29)]),
    ],
    "numbered": [[], [None], [1, 2.5], [-0.0]],
    "worded": [[], [None], ["", "\0"], [Colour.RED]],
    "raw_map": [
        *({}, {"a": None}, {"a": {}}, {"a": b""}, MappingProxyType({"a": 1}), nested_map(30), {" ": 1}, {"a.b": 1}),
        *({"#": 1}, {":x": 1}, {"null": 1}, {"default": 1}, {"attribute_values": 1}, {"\0": 1}, {"x" * 65_535: 1}),
    ],
    "address": [{"street": ""}, {"street": "\0", "floor": -0.0}, Address(street="x")],
    "texts": [{""}, {"\0"}, {"a", "A", "ä"}, frozenset({"a"}), {Colour.RED}],
    "numbers": [{0}, {1, 2.0}, {-0.0}, {10**125, 1e-130}, frozenset({1}), {Level.HIGH}],
    "binaries": [{b""}, {b"\0", b"\xff"}, frozenset({b"a"})],
    "data": [
        *({"a": value} for value in (0, 1, 1.0, -0.0, True, False, None, "", [], {}, 5e-324, 1e308, 10**4299)),
        *({"a": value} for value in (Text("x"), Colour.RED, Level.HIGH, int("9" * 39), -(2**63) - 1, 0.1 + 0.2)),
        *({"a": value} for value in ("\0", "\ud800", "\udfff\ud800", "\u2028", "\U0010ffff", "\\u0000", '"')),
        *({"a": value} for value in (collections.OrderedDict(b=1), collections.Counter("ab"), nested(200))),
        *({key: 1} for key in ("", " ", "\0", "\ud800", "a.b", "S", "NULL", "__class__", Text("x"), Colour.RED)),
        *({}, collections.defaultdict(list, a=[1])),
    ],
}

AS_PYNAMODB_DOES: list[tuple[str, Any, Any]] = [
    ("flag", 1, True),
    ("when", datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),  # noqa: DTZ001 - it is taken as UTC
    ("texts", set(), None),
    ("numbers", frozenset(), None),
    ("address", {"street": "x", "floor": None}, {"street": "x"}),
    ("data", None, {}),
]


@columns("name", "value")([(name, value) for name, values in KEPT.items() for value in values])
def test_an_odd_value_reads_back_equal(name: str, value: object) -> None:
    assert plain(getattr(Odd.create("o-1", **{name: value}), name)) == plain(value)
    check_equal(name, getattr(Odd.get_task("o-1"), name), value)
    Odd.create("o-2")
    with Odd.work.start("o-2") as ctx:
        setattr(ctx.task, name, value)
        ctx.save()
    task = Odd.get_task("o-2")
    check_equal(name, getattr(task, name), value)
    assert task.state == Odd.work.succeeded


@columns("name", "value", "expected")(AS_PYNAMODB_DOES)
def test_a_few_values_read_back_as_pynamodb_has_them(name: str, value: object, expected: object) -> None:
    Odd.create("o-1", **{name: value})
    assert plain(getattr(Odd.get_task("o-1"), name)) == expected


@columns("value")([1.2345678901234567e19, -9.99e125])
def test_a_float_beyond_all_exact_integers_is_the_nearest_one_of_what_reads_back(value: float) -> None:
    """DynamoDB tells its shortest digits in full, and PynamoDB takes those for an integer; moto tells them short."""
    Odd.create("o-1", number=value)
    assert float(Odd.get_task("o-1").number) == value


@columns("name")(["data", "json"])
def test_an_equal_value_of_another_type_is_a_change(name: str) -> None:
    Odd.create("o-1", **{name: {"a": 1}})
    for value in ({"a": True}, {"a": 1.0}, {"a": 1}):
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
