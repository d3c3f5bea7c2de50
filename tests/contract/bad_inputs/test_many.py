"""What is given to create_many: ids or mappings, however many."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from tests.contract.odd_values import STATE, Member, Text, columns, refuses
from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")

NO_ROWS: list[Any] = [
    ("o-1", "takes an iterable of ids or mappings, not one"),
    ({"task_id": "o-1"}, "takes an iterable of ids or mappings, not one"),
    ([{}], "task_id"),
    ([{"amount": 5}], "task_id"),
    ([{"task_id": "o-1", "amont": 5}], "Order.amont is not declared; did you mean 'amount'"),
    ([{"task_id": "o-1", "status": 12}], "Order.status is the tracker's own"),
    ([{"task_id": "o-1", "cls": 5}], "cls"),
    *((value, "create_many takes an iterable of ids or mappings") for value in (None, 5, b"o-1")),
    *((value, "create_many takes ids or mappings") for value in ([None], [5], [b"o-1"], [("o-1", {"amount": 5})])),
    ([{"task_id": "o-1", 5: 5}], "create_many takes .*, not one with the key 5"),
]


@columns("tasks", "message")(NO_ROWS)
def test_what_create_many_cannot_take_is_refused(tasks: Any, message: str) -> None:
    refuses(lambda: Order.create_many(tasks), message)


@columns("tasks")(
    [
        *([], (), {}.keys(), iter(["o-1"]), {"o-1"}, [Text("o-1")], [Member.RED]),
        [MappingProxyType({"task_id": "o-1"})],
    ]
)
def test_create_many_takes_any_iterable_of_ids_and_mappings(tasks: Any) -> None:
    report = Order.create_many(tasks)
    assert report.refused == {}
    assert set(report.succeeded) <= {"o-1", "red"}
    assert STATE.count() == len(report.succeeded)
