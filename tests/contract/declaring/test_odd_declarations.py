"""Declarations: what cannot work is refused when the class is created, and any stored name works."""

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from pynamodb.attributes import (
    BooleanAttribute,
    JSONAttribute,
    ListAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
    UTCDateTimeAttribute,
)

from pynamodb_tracker import DefinitionError, Status, Step, UseCase
from tests.contract.odd_values import CENTURY, INF, LONGEST, NAN, STATE, STEP, Level, columns
from tests.support.declaring import declare, new_table, refusal
from tests.support.shop import AppTask


def each(name: str, make: Callable[[Any], dict[str, Any]], values: list[Any], message: str) -> list[Any]:
    return [pytest.param(make(value), message, id=name) for value in values]


def steps(setting: str, values: list[Any], message: str) -> list[Any]:
    return each(setting, lambda value: {"ship": Step(**{"number": 10, setting: value})}, values, message)


def use_cases(setting: str, values: list[Any], message: str) -> list[Any]:
    settings = {"name": "order"}
    return each(setting, lambda value: {"use_case_id": UseCase(**{**settings, setting: value})}, values, message)


def with_defaults(kind: Any, defaults: list[Any]) -> list[Any]:
    return [kind(default=default) for default in defaults]


def optional() -> UnicodeAttribute:
    return UnicodeAttribute(null=True)


DEFINITIONS = [
    *steps("number", [0, 991, INF, -INF, Level.HIGH, 10**30, 10**5000], "write a whole number from 1 to 990"),
    *steps("number", [10.0, 10.5, "10", True, None, b"10", (10,)], "write a whole number from 1 to 990"),
    *steps("max_attempts", [0, -1, 2.5, "3", True, None], "max_attempts=.*write a whole number from 1 to "),
    *steps("max_attempts", [1.0, NAN, INF, Level.HIGH, 2**63, 10**40 + 1], "max_attempts=.*write a whole number from"),
    *steps("lock_for", [300, "5m", None, timedelta(0), timedelta.max], "lock_for=.*write a timedelta above zero"),
    *steps("lock_for", [timedelta.min, CENTURY, NAN, True], "lock_for=.*write .* at most 36500 days"),
    *steps(
        "retry_delay",
        [timedelta(microseconds=-1), NAN, True, {}, 60, "1m", (timedelta(1),)],
        "retry_delay=.*write a timedelta, or a function that takes the attempt's number and returns one",
    ),
    *steps(
        "give_up_on", [{KeyError}, ((KeyError,),), (None,), (Status,), 5], "give_up_on=.*write a tuple of exception"
    ),
    *steps("give_up_on", [KeyError, "KeyError", (KeyError("x"),), (str,), None], "give_up_on=.*write a tuple of exc"),
    *steps(
        "also_from", [{STATE}, iter(()), ((),), 5, "failed", ("failed",), (12,), (None,), None], "also_from.*write "
    ),
    *steps("also_from", [STATE, (STEP,)], "also_from.*write "),
    *use_cases("name", ["é" * 128, "a\ud800", "", "#", "a#b"], r"UseCase\(.*the name needs 1 to 255 bytes and no '#'"),
    *use_cases("name", [["order"], Level.HIGH, None, 5, b"order"], r"UseCase\(.*the name is text"),
    *use_cases("status_shards", [NAN, INF, Level.HIGH, 10_001, 10**5000], "write a whole number from 1 to 10,000"),
    *use_cases("status_shards", [0, 1.5, "5", True, None], "write a whole number from 1 to 10,000"),
    *use_cases(
        "keep_for", [timedelta.min, CENTURY, NAN, True, 30, "30d", timedelta(0)], "write a timedelta above zero"
    ),
    *use_cases("keep_ignored_for", [timedelta.min, CENTURY, 30], "write a timedelta above zero, at most 36500 days"),
    *use_cases("index_succeeded", [0, 1, "no", None], "write True or False"),
    *use_cases(
        "max_inline_data", [-1, 350_001, 1.0, NAN, True, "1024", None], "write a number of bytes from 0 to 350,000"
    ),
    *each("step", lambda name: {name: Step(10)}, ["", "a b", "a\ud800", "1st", "a.b"], "not a valid name in Python"),
    *each("attribute", lambda name: {name: optional()}, ["", "a b"], "not a valid name in Python"),
    *each(
        "attribute",
        lambda name: {name: optional()},
        ["hash_key", "range_key", "cls", "self", "until", "wait_for"],
        "clashes with a name",
    ),
    *each(
        "attr_name",
        lambda name: {"mine": UnicodeAttribute(attr_name=name)},
        ["a[0]", "a]", "a\ud800", "x" * 65_536],
        r"\.mine has the attr_name .*, which cannot be stored: write one of",
    ),
    *each(
        "default",
        lambda attribute: {"mine": attribute},
        [
            *with_defaults(UTCDateTimeAttribute, ["now", date(2026, 1, 1).toordinal()]),
            *with_defaults(NumberAttribute, ["5", NAN, True, 10**126]),
            NumberAttribute(default_for_new=INF),
            *with_defaults(UnicodeAttribute, [5, "\ud800"]),
            *with_defaults(BooleanAttribute, ["no"]),
            ListAttribute(default=()),
            *with_defaults(UnicodeSetAttribute, ["abc"]),
            JSONAttribute(default=(1,)),
        ],
        r"\.mine has a default that cannot be stored: ",
    ),
]


@pytest.mark.parametrize(("namespace", "message"), DEFINITIONS)
def test_what_cannot_work_is_refused_when_the_class_is_made(namespace: dict[str, Any], message: str) -> None:
    told = refusal(**namespace)
    assert re.match(f"(?s)Order.*{message}", told)
    assert len(told) < 1000


@columns("margin")([timedelta(microseconds=-1), CENTURY, timedelta.max, 2, "2s", 0.0, NAN, None, True])
def test_a_clock_margin_is_a_duration_within_bounds(margin: object) -> None:
    with pytest.raises(DefinitionError, match=r"Shop.Meta.clock_margin = .*: write a timedelta of zero or more"):
        new_table(clock_margin=margin)


@columns("margin")([timedelta(0), timedelta(microseconds=1), LONGEST])
def test_a_clock_margin_may_be_nothing_or_a_century(margin: timedelta) -> None:
    assert new_table(clock_margin=margin).tracker.margin == margin


STORED_NAMES = [
    (" ", "a.b"),
    ("\0", "\0"),
    ("a\nb", "a b"),
    ("odd:10", ":x"),
    ("😀" * 63, "😀"),
    ("x" * 255, "x" * 255),
    ("é" * 127 + "x", "size"),
    ("None", "None"),
    ("\u200b", "#"),
    ("long", "x" * 65_535),
]


@pytest.mark.usefixtures("table")
@columns("name", "attr_name")(STORED_NAMES)
def test_a_use_case_and_an_attribute_of_any_stored_name_work(name: str, attr_name: str) -> None:
    mine = UnicodeAttribute(null=True, attr_name=attr_name)
    case = declare("OddlyStored", AppTask, use_case_id=UseCase(name), mine=mine)
    case.create("c-1", mine="old")
    assert [(task.use_case_id, task.mine) for task in case.pack.pending.query()] == [(name, "old")]
    with case.pack.start("c-1") as ctx:
        ctx.task.mine = "new"
    task = case.get_task("c-1")
    assert (task.state, task.mine) == (case.pack.succeeded, "new")
    task.update([case.mine.set("newer")])
    assert (case.get_task("c-1").mine, case.delete_use_case().succeeded) == ("newer", ["c-1"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [("dax_read_endpoints", ["a:8111"]), ("host", "dax://cluster:8111"), ("host", "daxs://cluster")],
)
def test_dax_is_refused(setting: str, value: object) -> None:
    with pytest.raises(DefinitionError, match=rf"Shop.Meta.{setting}: DAX is not supported"):
        new_table(**{setting: value})


@pytest.mark.parametrize("setting", ["read_capacity_units", "write_capacity_units"])
def test_provisioned_units_come_in_pairs(setting: str) -> None:
    with pytest.raises(DefinitionError, match=r"Shop\.Meta has only one of read_capacity_units and write"):
        new_table(**{setting: 5})


def test_requests_are_retried_as_the_table_configures_it() -> None:
    retries = {"total_max_attempts": 7, "mode": "adaptive"}
    client = new_table(region="us-east-1", retry_configuration=retries).tracker.connection().connection.client
    assert client.meta.config.retries == retries
    client.close()
