"""Overflow chunks are not returned as rows, and none is left after a use case is deleted."""

from typing import Any

import pytest
from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import Report, Step, UseCase
from tests.support.rows import keys, put, remove
from tests.support.shop import AppTask, Order, Parcel

pytestmark = pytest.mark.usefixtures("table", "clock")

LARGE = {"text": "x" * 20_000}


class Shipment(AppTask):
    """One attribute has the stored name that the content of a chunk has."""

    use_case_id = UseCase("leftover")

    send = Step(10)

    item = UnicodeAttribute(attr_name="piece", null=True)


def delete_the_row() -> None:
    """Delete the row of an order alone, as a delete does that is cut short."""
    remove(AppTask, Order.tracker.key("o-1"))


def test_leftovers_of_an_interrupted_delete_are_deleted_with_the_use_case() -> None:
    Parcel.create("o-1", data=LARGE)
    Order.create("o-1", data=LARGE)
    Order.create("o-2", data=LARGE)
    Order.create("o-3")
    delete_the_row()
    assert sorted(Order.delete_use_case(threads=4).succeeded) == ["o-2", "o-3"]
    assert {(key["task_id"]["S"], key["use_case_id"]["S"].partition("#")[0]) for key in keys(AppTask)} == {
        ("o-1", "parcel")
    }


def test_further_records_of_the_users_own_are_left_alone() -> None:
    Order.create("o-1", data=LARGE)
    for task_id in ("o-1", "o-2"):
        put(AppTask, {"task_id": {"S": task_id}, "use_case_id": {"S": "order#note"}})
    assert {row.use_case_id for row in AppTask.query("o-1")} == {"order", "order#note"}
    Order.delete_use_case()
    assert [row.task_id for row in AppTask.scan()] == ["o-1", "o-2"]


def test_leftovers_stay_if_the_task_was_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1", data=LARGE)
    delete_the_row()
    connection = AppTask.tracker.connection().connection
    dispatch = connection.dispatch

    def meanwhile(operation: str, request: Any) -> Any:
        if operation == "TransactWriteItems":
            monkeypatch.setattr(connection, "dispatch", dispatch)
            Order.create("o-1", data={**LARGE, "again": True})
        return dispatch(operation, request)

    monkeypatch.setattr(connection, "dispatch", meanwhile)
    assert Order.delete_use_case() == Report()
    assert Order.get_task("o-1").data["again"] is True


def test_pynamodbs_own_queries_and_scans_return_rows_without_overflow_chunks() -> None:
    Order.create("o-1", data=LARGE)
    for found in (AppTask.scan(), AppTask.query("o-1"), Order.query("o-1", filter_condition=Order.attempt == 0)):
        assert [(type(row), row.task_id) for row in found] == [(Order, "o-1")]
    assert [row.task_id for row in AppTask.scan(Order.attempt > 0)] == []
    assert AppTask.count("o-1") == Order.count("o-1", filter_condition=Order.attempt == 0) == 1


def test_a_scan_whose_index_is_given_by_place_as_none_has_rows_alone() -> None:
    Order.create("o-1", data=LARGE)
    by_place = [None] * 8  # the last one is the index
    assert [row.task_id for row in AppTask.scan(*by_place)] == ["o-1"]
    assert [row.task_id for row in AppTask.scan(*by_place[:7], "status-index")] == ["o-1"]


def test_a_row_with_an_attribute_named_like_the_content_of_a_chunk_is_a_row() -> None:
    Shipment.create("s-1", item="chair", data=LARGE)
    assert [row.item for row in Shipment.scan()] == ["chair"]
    assert ([row.item for row in Shipment.query("s-1")], Shipment.count("s-1")) == (["chair"], 1)
