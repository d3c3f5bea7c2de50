"""Task ids: any text of 1 to 1024 bytes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker import Report
from tests.support.recorder import recorded
from tests.support.shop import Order, Parcel
from tests.support.workers import succeed

pytestmark = pytest.mark.usefixtures("table")

GOOD = [
    "o-1",
    " ",
    "0",
    "None",
    "a#b",
    "#",
    "order#10#0",
    "a\nb",
    "\r\n\t",
    "a\0b",
    "'\"\\",
    "die Straße",
    "道",
    "😀",
    "e\u0301",
    "é",
    "\u200b",
    "\ufeff",
    "\uffff",
    "x" * 1024,
    "道" * 341 + "x",
]

BAD: list[tuple[Any, type[Exception]]] = [
    ("", ValueError),
    ("x" * 1025, ValueError),
    ("道" * 342, ValueError),
    ("\ud800", ValueError),
    ("a\udcff", ValueError),
    (None, TypeError),
    (1, TypeError),
    (1.5, TypeError),
    (b"o-1", TypeError),
    (True, TypeError),
    (["o-1"], TypeError),
    (("o-1", "order"), TypeError),
]

TAKES_AN_ID: list[Callable[[Any], object]] = [
    Order.create,
    Order.get_task,
    Order.delete_task,
    Order.confirm_payment.start,
    lambda task_id: Order.confirm_payment.run(task_id, lambda _: None),
    Order.confirm_payment.reopen,
    lambda task_id: Order.confirm_payment.ignore(task_id, reason="x"),
    lambda task_id: Order.create_many([{"task_id": task_id}]),
]


@pytest.mark.parametrize("task_id", GOOD, ids=ascii)
def test_a_task_of_any_id_lives_its_life(task_id: str) -> None:
    Order.create(task_id)
    assert Order.get_task(task_id).task_id == task_id
    assert [task.task_id for task in Order.confirm_payment.pending.query()] == [task_id]
    succeed(Order.confirm_payment, task_id)
    assert Order.ship.run_all(lambda _: None) == Report(succeeded=[task_id])
    Order.delete_task(task_id)
    assert sum(Order.counts().values()) == 0


@pytest.mark.parametrize(("task_id", "kind"), BAD, ids=lambda part: ascii(part)[:20])
def test_what_is_no_id_is_refused_before_any_request(task_id: object, kind: type[Exception]) -> None:
    with recorded() as requests:
        for function in TAKES_AN_ID:
            with pytest.raises(kind):
                function(task_id)
    assert requests == []


def test_ids_that_look_alike_are_different_tasks() -> None:
    task_ids = ["é", "e\u0301", "E", "e", "e ", " e"]
    Parcel.create_many(task_ids)
    assert sorted(task.task_id for task in Parcel.sort.pending.query()) == sorted(task_ids)


def test_an_id_may_be_text_of_a_kind_of_its_own() -> None:
    class Id(str):
        __slots__ = ()

    Order.create(Id("o-1"))
    assert Order.get_task("o-1").task_id == "o-1"
