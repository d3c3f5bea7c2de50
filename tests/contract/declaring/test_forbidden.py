"""PynamoDB's own ways to write a row: closed where they would break the lock, and guarded where not."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError, UpdateError
from pynamodb.transactions import TransactWrite

from pynamodb_tracker.clock import StoppedClock
from tests.support.network import unreached
from tests.support.shop import AppTask, Order
from tests.support.workers import succeed

pytestmark = pytest.mark.usefixtures("table")


def transaction() -> TransactWrite:
    connection: Connection = AppTask._get_connection().connection
    return TransactWrite(connection=connection)


RESERVED: list[Callable[[Order], Any]] = [
    lambda _: Order.status.set(1000),
    lambda _: Order.status_key.set("order#1000#0"),
    lambda task: Order.due_time.set(task.due_time),
    lambda task: Order.create_time.set(task.create_time),
    lambda task: Order.update_time.set(task.update_time),
    lambda _: Order.attempt.set(0),
    lambda _: Order.attempt.add(1),
    lambda _: Order.fence.set(0),
    lambda _: Order.lock.remove(),
    lambda _: Order.lock_expire_time.remove(),
    lambda _: Order.worker.set("me"),
    lambda _: Order.unfinished.remove(),
    lambda _: Order.saves.set(99),
    lambda _: Order.errors.remove(),
    lambda _: Order.last_error.remove(),
    lambda task: Order.expire_time.set(task.due_time),
    lambda _: Order.task_id.set("o-2"),
    lambda _: Order.use_case_id.set("other"),
]


@pytest.mark.parametrize(
    "row", [Order("o-1", amount=1), AppTask("o-1", "order")], ids=["of a use case", "of the table"]
)
def test_save_is_a_type_error_that_names_what_to_use(row: AppTask) -> None:
    with unreached(), pytest.raises(TypeError, match=r"create.*ctx\.save.*update"):
        row.save()


def test_batch_write_is_a_type_error_that_names_what_to_use() -> None:
    with unreached(), pytest.raises(TypeError, match="create_many"), Order.batch_write():
        pytest.fail("it is open")


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda transact, task: transact.save(task), r"Order\.create.*ctx\.transaction\(succeed=True\)"),
        (lambda transact, task: transact.delete(task), "delete_task"),
        (lambda transact, task: transact.update(task, actions=[Order.status.set(1000)]), "status"),
    ],
    ids=["save", "delete", "update"],
)
def test_a_transaction_does_not_write_what_the_tracker_writes(write: Callable[[Any, Order], Any], told: str) -> None:
    task = Order.create("o-1")
    with unreached(), pytest.raises(TypeError, match=told), transaction() as transact:
        write(transact, task)


def test_a_transaction_updates_own_attributes() -> None:
    task = Order.create("o-1")
    with transaction() as transact:
        transact.update(task, actions=[Order.amount.set(5)])
    assert Order.get_task("o-1").amount == 5


def test_a_transaction_does_not_create_a_row_by_an_update() -> None:
    task = Order.create("o-1")
    Order.delete_task("o-1")
    with pytest.raises(TransactWriteError), transaction() as transact:
        transact.update(task, actions=[Order.amount.set(5)])
    assert list(Order.query("o-1")) == []


@pytest.mark.parametrize("action", RESERVED, ids=lambda action: str(RESERVED.index(action)))
def test_update_does_not_write_what_the_tracker_writes(action: Callable[[Order], Any]) -> None:
    task = Order.create("o-1")
    with unreached(), pytest.raises(TypeError, match="own attributes"):
        task.update([Order.amount.set(5), action(task)])


def test_update_does_not_write_into_what_the_tracker_writes() -> None:
    task = Order.create("o-1")
    path: Any = Order.errors
    with pytest.raises(TypeError, match="errors"):
        task.update([path[0].remove()])


def test_update_writes_own_attributes() -> None:
    task = Order.create("o-1", tracking_no="T-1")
    task.update([Order.amount.set(5), Order.tracking_no.remove(), Order.data.set({"a": [1]})])
    found = Order.get_task("o-1")
    assert (found.amount, found.tracking_no, found.data) == (5, None, {"a": [1]})


def test_update_shows_in_the_row_in_hand() -> None:
    task = Order.create("o-1")
    task.update([Order.amount.set(5), Order.data.set({"a": [1]})])
    assert (task.amount, task.data) == (5, {"a": [1]})


def test_update_can_add() -> None:
    task = Order.create("o-1", amount=5)
    task.update([Order.amount.add(3)])
    task.update([Order.amount.set(Order.amount - 1)])
    assert Order.get_task("o-1").amount == 7


def test_update_takes_a_condition() -> None:
    task = Order.create("o-1", amount=5)
    with pytest.raises(UpdateError):
        task.update([Order.amount.set(6)], condition=Order.amount == 4)
    task.update([Order.amount.set(6)], condition=Order.status == 10)
    assert Order.get_task("o-1").amount == 6


def test_update_takes_an_alternative_as_condition_and_still_only_on_an_existing_row() -> None:
    task = Order.create("o-1")
    Order.delete_task("o-1")
    with pytest.raises(UpdateError):
        task.update([Order.amount.set(6)], condition=(Order.amount == 4) | Order.task_id.does_not_exist())
    assert list(Order.query("o-1")) == []


def test_update_does_not_create_a_missing_row() -> None:
    task = Order.create("o-1")
    Order.delete_task("o-1")
    with pytest.raises(UpdateError) as caught:
        task.update([Order.amount.set(5)])
    assert (caught.value.cause_response_code, list(Order.query("o-1"))) == ("ConditionalCheckFailedException", [])


def test_update_of_a_stale_row_does_not_put_its_status_back() -> None:
    task = Order.create("o-1")
    succeed(Order.confirm_payment, "o-1")
    task.update([Order.amount.set(5)])
    assert (Order.get_task("o-1").state, task.state) == (Order.ship.pending, Order.ship.pending)


def test_update_of_a_running_task_leaves_its_lock_alone(clock: StoppedClock) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1") as ctx:
        clock.advance(timedelta(seconds=1))
        Order.get_task("o-1").update([Order.amount.set(5)])
        ctx.save()
        ctx.task.tracking_no = "T-1"
    task = Order.get_task("o-1")
    assert (task.state, task.amount, task.tracking_no) == (Order.ship.pending, 5, "T-1")


@pytest.mark.parametrize("arguments", [{"condition": Order.amount == 1}, {"add_version_condition": False}])
def test_delete_of_a_row_takes_no_condition(arguments: dict[str, Any]) -> None:
    task = Order.create("o-1")
    with unreached(), pytest.raises(TypeError, match="condition"):
        task.delete(**arguments)
