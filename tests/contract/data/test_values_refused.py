"""Values that do not read back equal, or that DynamoDB refuses: none of them is ever sent."""

import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import pytest

from pynamodb_tracker import ValueNotStorableError
from tests.contract.odd_rows import Address, Odd, nested_map, recursive
from tests.contract.odd_values import EAST, INF, NAN, WEST, Colour, Plain, Point, columns, of_value, refuses
from tests.support.engines import only_dynoxide
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.rows import nested

DEEP = "deeper than the 32 levels"

OF_ATTRIBUTES: list[Any] = [
    *(("text", value, "is not text") for value in (5, True, b"x", ["x"], Plain.A, datetime.now(UTC))),
    ("text", "a\ud800", "lone surrogate at 1"),
    ("text", "\ud83d\ude00", "lone surrogate at 0"),
    ("number", NAN, "NaN is not a finite number"),
    ("number", -INF, "-Infinity is not a finite number"),
    ("number", True, "true is not a number"),
    ("number", "5", '"5" is not a number'),
    *(("number", value, "") for value in ("a lot", 10**40 + 1, 10**5000, object())),
    ("number", "", '"" is not a number'),
    ("number", int("1" * 39), "has more than 38 digits"),
    *(("number", value, "is outside 1E-130 to 9.9E") for value in (10**126, -1e126, 1e-131, 5e-324)),
    *(("number", value, "is not JSON serializable") for value in (Decimal(1), Decimal("1E126"), Fraction(1, 2), 1j)),
    ("number", [1], "is not a number"),
    *(("flag", value, "write True or False") for value in ("no", "", NAN, 2, b"x")),
    ("flag", [], "write True or False"),
    *(
        ("when", value, "out of range")
        for value in (datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=WEST))
    ),
    *(("when", value, "write a datetime") for value in (date(2026, 1, 1), "2026-01-01", 0, NAN, timedelta(1))),
    *(("binary", value, "is not bytes") for value in ("x", memoryview(b"x"), [120], 5)),
    *(("legacy", value, "bytes-like object is required") for value in ("x", 5)),
    *(("raw_list", value, "write a list") for value in ("abc", b"abc", {"a": 1}, {1}, (1, 2), 5, range(3))),
    ("worded", "abc", "write a list"),
    ("raw_list", [(1, 2)], "Unsupported value type .*tuple"),
    *(("raw_list", [value], "Unsupported value type ") for value in (Decimal(1), date(2026, 1, 1), Colour.RED)),
    ("raw_list", [set()], "Cannot serialize empty set"),
    ("raw_list", [{1, "a"}], "Cannot serialize set consisting of types"),
    ("raw_list", [NAN], "NaN is not a finite number"),
    ("raw_list", [{1, NAN}], "NaN is not a finite number"),
    ("raw_list", [["\ud800"]], "lone surrogate"),
    ("raw_list", [{1: 2}], "1 is not text"),
    ("raw_list", [{"": 1}], "empty name"),
    *(("raw_list", value, DEEP) for value in (nested(31), nested(500), [nested_map(30)])),
    *(("raw_list", value, "recursion|" + DEEP) for value in (recursive(), nested(99_999))),
    *(("numbered", [value], "is not a number") for value in ("5", True, [1])),
    ("worded", [5], "5 is not text"),
    ("worded", ["\ud800"], "lone surrogate"),
    ("addresses", [Address(floor=1)], "street is missing"),
    ("addresses", [Address(street=5)], "5 is not text"),
    ("addresses", [5], "'int' object is not iterable"),
    ("raw_map", 5, "'int' object is not iterable"),
    ("raw_map", "x", "must be integers"),
    ("raw_map", {"a": (1,)}, "Unsupported value type .*tuple"),
    ("raw_map", {"a": NAN}, "NaN is not a finite number"),
    ("raw_map", {"a": {1: 2}}, "1 is not text"),
    ("raw_map", {"\ud800": 1}, "lone surrogate"),
    *(("raw_map", value, "empty name") for value in ({"": 1}, {"a": {"": 1}})),
    ("raw_map", {"x" * 65_536: 1}, "65,535"),
    *(("raw_map", value, DEEP) for value in (nested_map(31), {"a": nested(30)})),
    ("raw_map", {1: 2}, "1 is not text"),
    ("raw_map", {"self": 1}, "'self'"),
    ("raw_map", {"_user_instantiated": False}, "'_user_instantiated'"),
    ("raw_list", [object()], "Unsupported value type"),
    *(("address", value, "") for value in (Address(street=None), Address(street="\ud800"), "Nowhere 1")),
    ("address", {}, "street is missing"),
    ("address", {"street": 5}, "5 is not text"),
    ("address", {"street": "x", "floor": NAN}, "NaN is not a finite number"),
    ("address", {"street": "x", "flor": 1}, "'flor'.*did you mean 'floor'"),
    ("address", {1: 2}, "1 is not text"),
    *(("texts", value, "write a set") for value in ("abc", {"a": 1}, "", ["a", "b"], 5, {"a": 1}.keys())),
    *(("texts", {value}, "is not text") for value in (None, 5)),
    ("texts", {"\ud800"}, "lone surrogate"),
    ("numbers", {NAN}, "NaN is not a finite number"),
    *(("numbers", {value}, "is not a number") for value in ("5", True, None)),
    ("numbers", {int("1" * 39)}, "has more than 38 digits"),
    ("numbers", {10**25, 1e25}, "occurs twice"),
    ("numbers", [1, 1.0], "write a set"),
    *(("binaries", {value}, "is not bytes") for value in ("x", None)),
    *(("binaries", value, "write a set") for value in (b"abc", [bytearray(b"a")])),
]

OF_THEIR_OWN: list[Any] = [("picky", "refused", "not this one"), ("picky", 5, "")]

OF_JSON: list[Any] = [
    *(("json", value, "is not JSON serializable") for value in (b"x", {1}, {"a": Decimal(1)}, datetime.now(UTC))),
    ("json", {"a": object()}, "is not JSON serializable"),
    ("json", recursive(), "Circular reference"),
    *(("json", nested(depth), "json is nested more than 200 levels deep") for depth in (200, 5_000, 99_999)),
    ("json", 10**5000, "4300 digits"),
    ("json", (1, 2), "json is a tuple"),
    ("json", {"a": Point(1, 2)}, r"json\['a'\] is a Point"),
    *(("json", {key: 2}, f"json has the key {key}: keys are strings") for key in (1, None, True, 1.5)),
    ("json", "\ud83d\ude00", "json does not read back equal from JSON"),
    *(("json", [value], r"json\[0\] is (nan|-?inf)") for value in (NAN, INF, -INF)),
    *(
        ("data", value, "data is a dictionary, not ")
        for value in (["a"], [], "text", "", 0, False, MappingProxyType({"a": 1}))
    ),
    ("data", {"a": object()}, r"data\['a'\]"),
    ("data", {"a": NAN}, r"data\['a'\] is nan"),
    ("data", {"a": [INF]}, r"data\['a'\]\[0\] is inf"),
    ("data", {"a": (1,)}, r"data\['a'\] is a tuple"),
    ("data", {"a": Point(1, 2)}, r"data\['a'\] is a Point"),
    ("data", {"a": {1}}, r"data\['a'\] is a set"),
    ("data", {"a": b"x"}, r"data\['a'\] is a bytes"),
    ("data", {"a": bytearray(b"x")}, r"data\['a'\] is a bytearray"),
    ("data", {"a": Decimal("0.1")}, r"data\['a'\] is a Decimal"),
    ("data", {"a": datetime(2026, 1, 1, tzinfo=UTC)}, r"data\['a'\] is a datetime"),
    ("data", {"a": uuid.UUID(int=1)}, r"data\['a'\] is a UUID"),
    ("data", {"a": Plain.A}, r"data\['a'\] is a Plain"),
    ("data", {"a": 1j}, r"data\['a'\] is a complex"),
    ("data", {"a": {1: 2, "1": 3}}, r"data\['a'\] has the key 1"),
    *(("data", {key: 1}, f"data has the key {key}") for key in (True, None, 1.5, NAN)),
    ("data", {"a": {(1, 2): 3}}, r"data\['a'\] has the key \(1, 2\)"),
    ("data", {"a": "\ud83d\ude00"}, "data does not read back"),
    ("data", {"a": 10**4300}, "4300 digits"),
    ("data", {"a": recursive()}, r"data\['a'\]\[0\] contains itself"),
    *(("data", {"a": nested(depth)}, "data is nested more than 200 levels deep") for depth in (199, 5_000, 99_999)),
]


REFUSED: dict[str, list[tuple[Any, str]]] = {}
"""Values that are refused, by kind of attribute, each with what the error says."""
for _kind, _value, _message in (*OF_ATTRIBUTES, *OF_JSON, *OF_THEIR_OWN):
    REFUSED.setdefault(_kind, []).append((_value, _message))


@pytest.mark.parametrize("kind", REFUSED)
def test_a_task_is_not_created_with_what_cannot_be_stored(kind: str) -> None:
    for number, (value, message) in enumerate(REFUSED[kind]):
        words = f"(?s)Odd.{kind}.*{message}"
        with of_value(number, value), unreached(), pytest.raises(ValueNotStorableError, match=words) as caught:
            Odd.create("o-1", **{kind: value})
        assert (caught.value.attribute, caught.value.task_id) == (kind, "o-1")


@only_dynoxide
@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("kind", REFUSED)
def test_a_block_that_assigns_what_cannot_be_stored_fails_and_none_of_it_is_sent(kind: str) -> None:
    for number, (value, message) in enumerate(REFUSED[kind]):
        with of_value(number, value):
            words = f"(?s)Odd.{kind}.*{message}"
            Odd.create(f"o-{number}")
            with (
                recorded() as requests,
                pytest.raises(ValueNotStorableError, match=words) as caught,
                Odd.work.start(f"o-{number}") as ctx,
            ):
                setattr(ctx.task, kind, value)
            assert caught.value.attribute == kind
            # PynamoDB's maps refuse a key before they belong to a task.
            assert caught.value.task_id in {f"o-{number}", ""}
            assert all(kind not in request.written and "Error" not in request.answer for request in requests)
    given_up = list(Odd.work.ignored.query())
    assert len(given_up) == len(REFUSED[kind])
    assert {(task.attempt, task.errors[-1].type) for task in given_up} == {(1, "ValueNotStorableError")}


@pytest.mark.usefixtures("table")
@columns("name", "value")([("number", NAN), ("text", "\ud800"), ("data", {"a": (1,)}), ("texts", {None}), ("flag", "")])
def test_a_save_that_is_refused_sends_nothing_and_the_run_goes_on(name: str, value: object) -> None:
    Odd.create("o-1")
    with Odd.work.start("o-1") as ctx:
        setattr(ctx.task, name, value)
        refuses(ctx.save, name)
        setattr(ctx.task, name, None)
    assert Odd.get_task("o-1").state == Odd.work.succeeded


@pytest.mark.usefixtures("table")
@columns("name", "value")(
    [
        ("data", {"a": NAN}),
        ("data", {"a": (1,)}),
        ("data", ["a"]),
        ("number", NAN),
        ("number", "5"),
        ("number", int("1" * 39)),
        ("text", 5),
        ("text", "\ud800"),
        ("raw_map", {"": 1}),
        ("numbers", {NAN}),
    ]
)
def test_an_update_of_own_attributes_refuses_what_cannot_be_stored(name: str, value: object) -> None:
    task = Odd.create("o-1")
    refuses(lambda: task.update([getattr(Odd, name).set(value)]), name)
    assert getattr(Odd.get_task("o-1"), name) in (None, {})


@pytest.mark.usefixtures("table")
@columns("actions")([[], *(actions for actions in (None, 5, ["x"], "x"))])
def test_an_update_by_what_is_no_action_is_refused(actions: Any) -> None:
    task = Odd.create("o-1")
    refuses(lambda: task.update(actions), "actions")
