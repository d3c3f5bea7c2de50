"""Reading one task, and rows of the whole table as instances of their classes."""

import json
from collections.abc import Iterable
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from pynamodb.attributes import (
    Attribute,
    BinaryAttribute,
    MapAttribute,
    NumberSetAttribute,
    UnicodeAttribute,
    UTCDateTimeAttribute,
)
from pynamodb.constants import STRING

from pynamodb_tracker import DecimalAttribute, Step, TaskNotFoundError, UseCase
from pynamodb_tracker.clock import StoppedClock
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.rows import change, park, put
from tests.support.shop import AppTask, Order, Parcel
from tests.support.workers import fail

pytestmark = pytest.mark.usefixtures("table")


def kinds(rows: Iterable[AppTask]) -> set[tuple[type[AppTask], str]]:
    return {(type(row), row.task_id) for row in rows}


def test_get_task_returns_the_whole_task() -> None:
    Order.create("o-1", amount=4200, data={"a": [1, 2]})
    task = Order.get_task("o-1")
    assert isinstance(task, Order)
    assert (task.task_id, task.use_case_id, task.amount, task.data) == ("o-1", "order", 4200, {"a": [1, 2]})


def test_get_task_reads_strongly_consistent() -> None:
    Order.create("o-1")
    with recorded() as requests:
        Order.get_task("o-1")
    assert requests[0].body["ConsistentRead"] is True


def test_get_task_does_not_find_a_missing_task() -> None:
    with pytest.raises(TaskNotFoundError, match="'nothing'") as caught:
        Order.get_task("nothing")
    assert (caught.value.task_id, caught.value.task) == ("nothing", None)


def test_get_many_returns_tasks_in_the_order_of_their_ids_each_once_and_leaves_out_missing_ones() -> None:
    large = {"text": [str(number) for number in range(1_000)]}
    for task_id in ("o-1", "o-2", "o-3"):
        Order.create(task_id, data=large if task_id == "o-2" else {})
    with recorded() as requests:
        found = Order.get_many(iter(["o-3", "nothing", "o-2", "o-3"]))
        assert [(task.task_id, task.data) for task in found] == [("o-3", {}), ("o-2", large)]
    assert [request.operation for request in requests] == ["BatchGetItem"] * 2
    (of_table,) = requests[0].body["RequestItems"].values()
    assert of_table["ConsistentRead"] is True


def test_get_many_of_no_ids_sends_nothing() -> None:
    with unreached():
        assert Order.get_many([]) == []


@pytest.mark.parametrize("given", ["o-1", {"o-1": 1}, 5], ids=repr)
def test_get_many_takes_an_iterable_of_ids(given: Any) -> None:
    with pytest.raises(TypeError, match="get_many takes an iterable of ids"):
        Order.get_many(given)


def test_get_task_does_not_find_a_task_of_another_use_case() -> None:
    Parcel.create("x")
    with pytest.raises(TaskNotFoundError):
        Order.get_task("x")


def test_get_is_that_of_pynamodb_with_the_use_case_filled_in() -> None:
    Order.create("o-1", amount=4200)
    assert (Order.get("o-1").amount, Order.get("o-1", consistent_read=True).amount) == (4200, 4200)


def test_get_of_a_missing_task_raises_what_pynamodb_raises() -> None:
    with pytest.raises(Order.DoesNotExist):
        Order.get("nothing")


def test_get_of_the_table_takes_the_use_case_as_range_key() -> None:
    Order.create("o-1")
    assert type(AppTask.get("o-1", "order")) is Order


def test_get_can_read_some_attributes_only() -> None:
    Order.create("o-1", amount=4200, tracking_no="T-1")
    task = Order.get("o-1", attributes_to_get=["tracking_no"])
    assert (task.tracking_no, task.amount) == ("T-1", None)


def test_scan_of_the_table_returns_instances_of_the_classes_that_claim_the_use_cases() -> None:
    Order.create("x")
    Parcel.create("x")
    assert kinds(AppTask.scan()) == {(Order, "x"), (Parcel, "x")}


def test_query_of_a_task_id_returns_all_that_the_table_has_of_it_or_the_task_of_a_use_case() -> None:
    Order.create("x")
    Parcel.create("x")
    Order.create("y")
    assert kinds(AppTask.query("x")) == kinds(Order.query("x")) == {(Order, "x"), (Parcel, "x")}
    assert kinds(AppTask.query("x", AppTask.use_case_id == "parcel")) == {(Parcel, "x")}


def test_batch_get_returns_instances_of_the_classes() -> None:
    Order.create("x")
    Parcel.create("x")
    rows = AppTask.batch_get([("x", "order"), ("x", "parcel"), ("y", "order")])
    assert kinds(rows) == {(Order, "x"), (Parcel, "x")}


def test_a_row_of_a_use_case_that_no_class_claims_is_an_instance_of_the_table() -> None:
    Order.create("x")
    put(AppTask, Order.get_task("x").to_dynamodb_dict() | {"use_case_id": {"S": "unknown"}})
    (row,) = AppTask.query("x", AppTask.use_case_id == "unknown")
    assert type(row) is AppTask
    assert row.status == row.state.code == 10


def test_a_further_record_of_a_task_is_read_as_what_it_has() -> None:
    put(AppTask, {"task_id": {"S": "x"}, "use_case_id": {"S": "order#note"}})
    (row,) = AppTask.query("x")
    assert (type(row), row.use_case_id) == (AppTask, "order#note")


def test_refresh_reads_a_row_again() -> None:
    task = Order.create("o-1", data={"a": 1})
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.data["a"] = 2
    task.refresh()
    assert (task.state, task.data) == (Order.ship.pending, {"a": 2})


def test_a_row_can_be_turned_into_simple_values() -> None:
    Order.create("o-1", amount=5, data={"a": 1})
    simple = Order.get_task("o-1").to_simple_dict()
    assert (simple["task_id"], simple["status"], simple["amount"], simple["data"]) == ("o-1", 10, 5, '{"a":1}')


def test_a_task_is_turned_into_the_answer_of_a_web_service(clock: StoppedClock) -> None:
    Goods.create(
        "g-1", price=Decimal("3.10"), when=clock.now(), sizes={3, 1}, photo=b"x", colour=Colour.RED, box={"w": 1}
    )
    with Goods.pack.start("g-1") as ctx:
        ctx.task.data["tags"] = ["a"]
    now = clock.now().isoformat()
    expected = {
        "task_id": "g-1",
        "use_case_id": "goods",
        "state": "pack succeeded",
        "attempt": 0,
        **dict.fromkeys(("due_time", "create_time", "update_time", "when"), now),
        "price": "3.1",
        "sizes": [1, 3],
        "photo": "eA==",
        "colour": "red",
        "box": {"w": 1},
        "note": None,
        "data": {"tags": ["a"]},
    }
    task = Goods.get_task("g-1")
    assert {**task.to_dict(), "price": task.to_dict()["price"].rstrip("0")} == expected
    assert json.loads(task.to_json()) == task.to_dict()


def test_a_task_that_waits_for_others_says_so_to_a_web_service() -> None:
    Goods.create("g-1")
    park(Goods, "g-1", 3)
    told = Goods.get_task("g-1").to_dict()
    assert (told["blockers"], told["waits_for"], told["due_time"][:4]) == (3, "3 tasks", "9999")


def test_data_that_was_left_out_is_not_in_the_answer_of_a_web_service() -> None:
    Goods.create("g-1", data={"a": 1})
    assert "data" not in Goods.get_task("g-1", with_data=False).to_dict()


class Colour(Enum):
    RED = "red"


class ColourAttribute(Attribute[Colour]):
    attr_type = STRING

    def serialize(self, value: Colour) -> str:
        return value.value

    def deserialize(self, value: str) -> Colour:
        return Colour(value)


class Goods(AppTask):
    use_case_id = UseCase("goods")

    pack = Step(10)

    price = DecimalAttribute(null=True)
    when = UTCDateTimeAttribute(null=True)
    sizes = NumberSetAttribute(null=True)
    photo = BinaryAttribute(null=True, legacy_encoding=False)
    colour = ColourAttribute(null=True)
    box: MapAttribute[str, Any] = MapAttribute(null=True)
    note = UnicodeAttribute(null=True)


def test_a_row_can_be_shown() -> None:
    Order.create("o-1", data={"a": 1})
    fail(Order.confirm_payment, "o-1")
    assert repr(Order.get_task("o-1")) == "<Order 'o-1' confirm_payment failed, attempt 1>"


def test_a_part_of_a_row_and_a_row_in_an_unknown_state_show_what_is_known() -> None:
    for task_id in ("o-1", "o-2"):
        Order.create(task_id)
    change(Order, "o-2", status={"N": "25"})
    shown = [repr(Order.get("o-1", attributes_to_get=["task_id"])), repr(Order.get_task("o-2"))]
    assert shown == ["<Order 'o-1'>", "<Order 'o-2' unknown 25, attempt 0>"]


def test_the_table_counts_all_its_rows() -> None:
    Order.create("x")
    Parcel.create("x")
    assert AppTask.count() == 2


def test_exists_and_describe_are_about_the_table() -> None:
    assert Order.exists()
    assert Order.describe_table()["TableName"] == AppTask.Meta.table_name
