"""Items whose range key has a `#`, beside tasks: nothing takes them for tasks, and no delete of tasks takes them."""

import pytest

from pynamodb_tracker import Report
from tests.support.rows import keys, put
from tests.support.shop import AppTask, Order

pytestmark = pytest.mark.usefixtures("table", "clock")

BESIDE = [
    ("o-1", "order#history#0000000001#10"),
    ("o-1", "#group#parcel"),  # a group may have the name of a task
    ("customer-7", "#group#parcel"),
    ("customer-7", "#group#parcel##0000000042"),
]


@pytest.fixture(autouse=True)
def beside() -> None:
    Order.create("o-1", data={"text": "x" * 20_000})
    Order.create("o-2")
    for task_id, range_key in BESIDE:
        put(AppTask, {"task_id": {"S": task_id}, "use_case_id": {"S": range_key}, "version": {"N": "1"}})


def test_they_are_not_counted_and_not_run() -> None:
    assert {state: number for state, number in Order.counts().items() if number} == {Order.confirm_payment.pending: 2}
    assert [task.task_id for task in Order.confirm_payment.due()] == ["o-1", "o-2"]


def test_a_delete_of_tasks_leaves_them() -> None:
    Order.delete_task("o-1")
    assert Order.delete_use_case() == Report(succeeded=["o-2"])
    assert sorted((key["task_id"]["S"], key["use_case_id"]["S"]) for key in keys(AppTask)) == sorted(BESIDE)
