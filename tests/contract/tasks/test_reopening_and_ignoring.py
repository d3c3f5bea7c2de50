"""Reopening and ignoring: what a person does to a task outside a run."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    BoundStep,
    GiveUp,
    TaskAlreadySucceededError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
)
from pynamodb_tracker.clock import StoppedClock
from tests.support.rows import item_bytes, stored
from tests.support.shop import Order
from tests.support.workers import die, fail

pytestmark = pytest.mark.usefixtures("table")


def test_reopen_makes_an_ignored_task_pending_with_a_fresh_set_of_attempts() -> None:
    Order.create("o-1")
    for _ in range(3):
        fail(Order.confirm_payment, "o-1")
    task = Order.confirm_payment.reopen("o-1")
    assert isinstance(task, Order)
    assert (task.state, task.attempt) == (Order.confirm_payment.pending, 0)
    with Order.confirm_payment.start("o-1") as ctx:
        assert ctx.attempt == 1


def ignore(step: BoundStep[Order], task_id: str) -> Order:
    return step.ignore(task_id, reason="x")


each_command = pytest.mark.parametrize("command", [BoundStep.reopen, ignore], ids=["reopen", "ignore"])


@each_command
def test_a_command_returns_the_row_as_it_is_then(command: Any) -> None:
    Order.create("o-1", amount=5)
    fail(Order.confirm_payment, "o-1")
    assert command(Order.confirm_payment, "o-1").to_dynamodb_dict() == Order.get_task("o-1").to_dynamodb_dict()


def test_reopen_keeps_the_errors_and_the_data() -> None:
    Order.create("o-1", data={"a": 1})
    fail(Order.confirm_payment, "o-1", GiveUp("why"))
    task = Order.confirm_payment.reopen("o-1")
    assert ([failure.message for failure in task.errors], task.data) == (["why"], {"a": 1})


def test_reopen_leaves_a_pending_task_as_it_is(clock: StoppedClock) -> None:
    Order.create("o-1", due_time=clock.now() + timedelta(hours=1))
    before = stored(Order, "o-1")
    clock.advance(timedelta(minutes=1))
    assert Order.confirm_payment.reopen("o-1").state == Order.confirm_payment.pending
    assert stored(Order, "o-1") == before


@each_command
def test_a_command_does_not_find_a_missing_task(command: Any) -> None:
    told = f"cannot {command.__name__} confirm_payment of Order 'nothing'"
    with pytest.raises(TaskNotFoundError, match=told):
        command(Order.confirm_payment, "nothing")
    assert list(Order.query("nothing")) == []


def test_reopen_refuses_a_running_task() -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    with pytest.raises(TaskLockedError, match="'o-1'") as caught:
        Order.confirm_payment.reopen("o-1")
    assert caught.value.task is not None
    assert caught.value.task.state == Order.confirm_payment.in_progress


@each_command
@pytest.mark.parametrize(
    ("state", "error"),
    [
        *((state, TaskAlreadySucceededError) for state in (Order.deliver.pending, Order.deliver.ignored)),
        (Order.deliver.succeeded, TaskAlreadySucceededError),
        (Order.confirm_payment.ignored, TaskNotReadyError),
    ],
    ids=str,
)
def test_a_command_refuses_a_task_at_another_step(command: Any, state: Any, error: type[Exception]) -> None:
    Order.create("o-1", state=state)
    with pytest.raises(error):
        command(Order.ship, "o-1")
    assert Order.get_task("o-1").state == state


def test_ignore_sets_a_pending_task_aside_and_keeps_the_reason(clock: StoppedClock) -> None:
    Order.create("o-1")
    task = Order.confirm_payment.ignore("o-1", reason="cancelled")
    assert isinstance(task, Order)
    assert task.state == Order.get_task("o-1").state == Order.confirm_payment.ignored
    (failure,) = task.errors
    assert (failure.step, failure.message, failure.time) == ("confirm_payment", "cancelled", clock.now())


def test_ignore_sets_an_abandoned_task_aside(clock: StoppedClock) -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    clock.advance(timedelta(minutes=5, seconds=3))
    assert Order.confirm_payment.ignore("o-1", reason="stuck").state == Order.confirm_payment.ignored


def test_ignore_leaves_an_ignored_task_as_it_is() -> None:
    Order.create("o-1")
    Order.confirm_payment.ignore("o-1", reason="first")
    before = stored(Order, "o-1")
    Order.confirm_payment.ignore("o-1", reason="second")
    assert stored(Order, "o-1") == before


def test_ignore_refuses_a_running_task(clock: StoppedClock) -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    clock.advance(timedelta(minutes=5, seconds=2))
    with pytest.raises(TaskLockedError, match=r"cannot ignore confirm_payment of Order 'o-1'"):
        Order.confirm_payment.ignore("o-1", reason="stuck")


def test_a_long_reason_is_cut() -> None:
    Order.create("o-1")
    Order.confirm_payment.ignore("o-1", reason="x" * 450_000)
    assert item_bytes(stored(Order, "o-1")) < 2048
