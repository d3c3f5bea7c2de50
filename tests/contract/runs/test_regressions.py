"""What a reviewer broke once: each attack has a test, so that it breaks nothing again."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from pynamodb_tracker import DefinitionError, LockLostError, RetryLater, Step, TaskNotReadyError, UseCase
from pynamodb_tracker.task.metaclass import TaskMeta
from pynamodb_tracker.testing import StoppedClock
from tests.support.shop import AppTask, Order
from tests.support.through import Dispatch, through

pytestmark = pytest.mark.usefixtures("table")


def fails_from(number: int, error: BaseException) -> Any:
    """Let the n-th write meet Ctrl-C, and every request after it the error."""
    writes: list[str] = []

    def change(send: Dispatch, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        writes.extend([operation] if operation == "UpdateItem" else [])
        if len(writes) < number:
            return send(operation, request)
        if operation == "UpdateItem" and len(writes) == number:
            raise KeyboardInterrupt
        raise error

    return change


def test_deleting_a_row_of_an_unknown_use_case_deletes_no_other_task() -> None:
    class Invoice(AppTask):
        use_case_id = UseCase("invoice")
        send = Step(10)

    Order.create("A-7")
    Invoice.create("A-7")
    AppTask.tracker.table.use_cases.pop("invoice")  # as in a process that does not import it
    (invoice,) = [row for row in Order.scan() if row.use_case_id == "invoice"]
    with pytest.raises(TypeError, match="not a use case"):
        invoice.delete()
    assert sorted(row.use_case_id for row in AppTask.scan()) == ["invoice", "order"]


def test_a_task_that_moves_within_its_state_during_a_query_comes_once() -> None:
    for number in range(6):
        Order.create(f"o-{number}")
    moved: list[str] = []

    def small_pages(send: Dispatch, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation != "Query":
            return send(operation, request)
        answer = send(operation, {**request, "Limit": 3})
        if not moved:
            moved.append("o-2")
            send("UpdateItem", pushed_back("o-2"))
        return answer

    with through(AppTask, small_pages):
        found = [task.task_id for task in Order.confirm_payment.pending.query()]
    assert sorted(found) == [f"o-{number}" for number in range(6)]


def pushed_back(task_id: str) -> dict[str, Any]:
    later = Order.get_task(task_id).due_time + timedelta(seconds=1)
    return {
        "TableName": AppTask.Meta.table_name,
        "Key": Order.tracker.key(task_id),
        "UpdateExpression": "SET due_time = :later",
        "ExpressionAttributeValues": {":later": {"S": later.strftime("%Y-%m-%dT%H:%M:%S.%f+0000")}},
    }


@pytest.mark.parametrize("number", [1, 2], ids=["in the claim", "in the success"])
def test_ctrl_c_ends_a_batch_even_when_the_network_is_down(number: int) -> None:
    Order.create_many(["o-1", "o-2", "o-3"])
    Order.confirm_payment._definition.pause()  # reads the pauses while the network is there
    ran = []
    broken = fails_from(number, EndpointConnectionError(endpoint_url="http://127.0.0.1"))
    with through(AppTask, broken), pytest.raises(KeyboardInterrupt) as caught:
        Order.confirm_payment.run_all(lambda ctx: ran.append(ctx.task.task_id))
    assert len(ran) == number - 1
    assert caught.value.__notes__


@pytest.mark.parametrize("order", ["update", "refresh"])
def test_reading_anew_drops_nothing_that_the_block_assigned(order: str) -> None:
    Order.create("o-1")
    with (
        pytest.raises(TypeError, match=r"discard the new data, tracking_no.*ctx.save"),
        Order.confirm_payment.start("o-1") as ctx,
    ):
        ctx.task.data["receipt"] = 1
        ctx.task.tracking_no = "paid"
        if order == "update":
            ctx.task.update([Order.amount.set(5)])
        else:
            ctx.task.refresh()
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


def test_update_and_refresh_go_on_after_a_save() -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.tracking_no = "paid"
        ctx.save()
        ctx.task.update([Order.amount.set(5)])
        ctx.task.refresh(consistent_read=True)
    task = Order.get_task("o-1")
    assert (task.state, task.tracking_no, task.amount) == (Order.ship.pending, "paid", 5)


def test_a_refresh_does_not_make_the_next_life_of_a_task_this_runs_own(clock: StoppedClock) -> None:
    Order.create("o-1")
    with pytest.raises(LockLostError), Order.confirm_payment.start("o-1") as ctx:
        clock.advance(timedelta(hours=1))
        Order.delete_task("o-1")
        Order.create("o-1")
        ctx.task.refresh()
    assert Order.get_task("o-1").state == Order.confirm_payment.pending


def test_a_further_state_that_is_not_due_is_reported_as_not_due() -> None:
    Order.create("o-1", state=Order.ship.pending)
    with pytest.raises(RetryLater), Order.ship.start("o-1"):
        raise RetryLater(timedelta(hours=1))
    with pytest.raises(TaskNotReadyError, match="ship failed, and due at"):
        Order.confirm_payment.run("o-1", print, also_from=(Order.ship.failed,))


@pytest.mark.parametrize("fill", ["from_dynamodb_dict", "from_simple_dict"])
def test_a_row_is_not_filled_by_hand(fill: str) -> None:
    with pytest.raises(TypeError, match="cannot be filled by hand"):
        getattr(Order.create("o-1"), fill)({})


def test_a_row_that_was_never_read_can_be_updated() -> None:
    Order.create("o-1")
    Order("o-1").update([Order.amount.set(5)])
    assert Order.get_task("o-1").amount == 5


@pytest.mark.parametrize("name", ["status", "tracker", "data", "lock"])
def test_a_plain_value_under_a_name_of_the_model_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match=f"Parcel.{name} clashes"):
        TaskMeta("Parcel", (AppTask,), {"use_case_id": UseCase("parcel"), "pack": Step(10), name: 1})
