"""Deleting tasks: never a locked one, and never one of another use case."""

from datetime import timedelta

import pytest

from pynamodb_tracker import Report, TaskLockedError, TaskNotFoundError
from pynamodb_tracker.clock import StoppedClock
from tests.support.rows import change, put
from tests.support.shop import AppTask, Ord, Order, Order2
from tests.support.workers import die

pytestmark = pytest.mark.usefixtures("table")


@pytest.mark.parametrize(
    "state", [Order.ship.pending, Order.ship.failed, Order.ship.ignored, Order.deliver.succeeded], ids=str
)
def test_delete_task_deletes_a_task_in_any_state_unless_it_is_locked(state: object) -> None:
    Order.create("o-1", state=state)  # type: ignore[arg-type]  # of the parameters, all are states of Order
    Order.delete_task("o-1")
    assert list(Order.query("o-1")) == []


def test_a_task_in_progress_is_not_deleted() -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1"):
        with pytest.raises(TaskLockedError, match=r"cannot delete Order 'o-1'") as caught:
            Order.delete_task("o-1")
        assert caught.value.task is not None
        assert caught.value.task.state == Order.confirm_payment.in_progress
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_task_in_progress_at_a_step_that_only_newer_programs_declare_is_not_deleted(clock: StoppedClock) -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    change(Order, "o-1", status={"N": "26"})
    with pytest.raises(TaskLockedError, match=r"cannot delete Order 'o-1': it is unknown 26, held by"):
        Order.delete_task("o-1")
    assert list(Order.delete_use_case().refused) == ["o-1"]
    clock.advance(timedelta(minutes=5, seconds=3))
    assert Order.delete_use_case().succeeded == ["o-1"]


def test_an_abandoned_task_can_be_deleted(clock: StoppedClock) -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    clock.advance(timedelta(minutes=5, seconds=3))
    Order.delete_task("o-1")
    assert list(Order.query("o-1")) == []


def test_delete_task_does_not_find_a_missing_task() -> None:
    with pytest.raises(TaskNotFoundError, match="'nothing'"):
        Order.delete_task("nothing")


def test_delete_on_a_row_deletes_as_delete_task_does() -> None:
    Order.create("o-1").delete()
    assert list(Order.query("o-1")) == []


def test_delete_on_a_row_refuses_a_task_that_is_in_progress_meanwhile() -> None:
    task = Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    with pytest.raises(TaskLockedError):
        task.delete()


def test_a_task_of_the_same_id_in_another_use_case_stays() -> None:
    Order.create("x")
    Order2.create("x")
    Order.delete_task("x")
    assert Order2.get_task("x").state == Order2.work.pending


def test_delete_use_case_deletes_all_its_tasks() -> None:
    for number in range(30):
        Order.create(f"o-{number}", state=[Order.confirm_payment.pending, Order.deliver.succeeded][number % 2])
    report = Order.delete_use_case()
    assert (sorted(report.succeeded), list(AppTask.scan())) == (sorted(f"o-{number}" for number in range(30)), [])


def test_delete_use_case_leaves_use_cases_whose_names_begin_alike() -> None:
    for use_case in (Ord, Order, Order2):
        use_case.create("x")
    assert Order.delete_use_case() == Report(succeeded=["x"])
    assert {task.use_case_id for task in AppTask.scan()} == {"ord", "order2"}


def test_delete_use_case_leaves_further_records_of_others_alone() -> None:
    Order2.create("x")
    put(AppTask, {"task_id": {"S": "x"}, "use_case_id": {"S": "order2#note"}})
    Order.delete_use_case()
    assert len(list(AppTask.scan())) == 2


def test_delete_use_case_of_none_deletes_nothing() -> None:
    assert Order.delete_use_case() == Report()
