"""A query of tasks with large data: as many of them are in memory at a time as the bound allows."""

import weakref
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.clock import stamp
from pynamodb_tracker.model.data import DataAttribute
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.query import state_scan
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import Network
from tests.support.rows import change
from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")

LARGE = {"text": "x" * 5_000}
MANY = 12
GROUP = 3


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Order]]:
    """Return all rows that are given their data from now on; a group has room for that of three."""
    rows: list[weakref.ref[Order]] = []
    fill = DataAttribute.fill

    def noted(attribute: DataAttribute, row: Any, text: str) -> None:
        rows.append(weakref.ref(row))
        fill(attribute, row, text)

    monkeypatch.setattr(DataAttribute, "fill", noted)
    monkeypatch.setattr(state_scan, "_MOST_DATA", GROUP * 5_500)
    return rows


def most_alive(tasks: Iterable[Order], filled: list[weakref.ref[Order]]) -> int:
    """Return how many tasks with data were in memory at most, while none was kept."""
    most = 0
    for task in tasks:
        assert task.data == LARGE
        del task
        most = max(most, sum(row() is not None for row in filled))
    return most


def test_a_query_has_a_group_in_memory_at_most(filled: list[weakref.ref[Order]]) -> None:
    Order.create_many({"task_id": f"o-{number:02}", "data": LARGE} for number in range(MANY))
    filled.clear()
    assert most_alive(Order.confirm_payment.pending.query(), filled) <= GROUP
    assert len(filled) == MANY


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("to", [4, MANY], ids=["the next group", "the last group"])
def test_a_task_that_moves_back_in_the_query_is_returned_once(network: Network, clock: StoppedClock, to: int) -> None:
    times = [clock.now() + timedelta(seconds=number) for number in range(MANY)]
    for number, time in enumerate(times):
        Order.create(f"o-{number:02}", data=LARGE, due_time=time)

    def small_pages(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        if operation != "Query":
            return send()
        request["Limit"] = GROUP
        answer = send()
        if moves:
            change(Order, moves.pop(), due_time={"S": stamp(times[0] + timedelta(seconds=to - 0.5))})
        return answer

    moves = ["o-02"]
    network.rule = small_pages
    found = [task.task_id for task in Order.confirm_payment.pending.query()]
    assert (moves, sorted(found)) == ([], [f"o-{number:02}" for number in range(MANY)])


def test_the_tasks_that_are_to_be_done_are_in_memory_group_by_group(filled: list[weakref.ref[Order]]) -> None:
    Order.create_many({"task_id": f"o-{number:02}", "data": LARGE} for number in range(MANY))
    filled.clear()
    assert most_alive(Order.confirm_payment.due(), filled) <= GROUP + 1  # the merge has the last one of a state in hand
    assert len(filled) == MANY


@pytest.mark.parametrize("read", [Order.confirm_payment.pending.query, Order.confirm_payment.due])
def test_a_query_has_a_page_of_rows_in_memory_at_most(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Iterable[Order]]
) -> None:
    Order.create_many(f"o-{number:02}" for number in range(60))
    rows: list[weakref.ref[TaskRow]] = []
    deserialize = TaskRow.deserialize

    def noted(row: TaskRow, values: Any) -> None:
        rows.append(weakref.ref(row))
        deserialize(row, values)

    monkeypatch.setattr(TaskRow, "deserialize", noted)
    monkeypatch.setattr(state_scan, "MOST_KEYS", 10)
    most = 0
    for task in read():
        del task
        most = max(most, sum(row() is not None for row in rows))
    assert len(rows) == 60
    assert most <= 10 + 1  # the merge of states has the last one of each in hand
