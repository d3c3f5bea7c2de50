"""Refused starts: the class of the error, the row that it carries, and what it says to do."""

import time
from datetime import timedelta

import pytest

from pynamodb_tracker import (
    BoundStep,
    TaskAlreadyExistsError,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
    TaskNotStartableError,
    TrackerError,
)
from pynamodb_tracker.clock import StoppedClock
from tests.support.rows import change
from tests.support.shop import Order
from tests.support.workers import Broken, die, fail

pytestmark = pytest.mark.usefixtures("table")


def refused(step: BoundStep[Order], task_id: str = "o-1", *, detailed_error: bool = True) -> TaskNotStartableError:
    with pytest.raises(TaskNotStartableError) as caught, step.start(task_id, detailed_error=detailed_error):
        pytest.fail("the block runs")
    return caught.value


def test_a_missing_task_is_not_found() -> None:
    error = refused(Order.confirm_payment, "nothing")
    assert type(error) is TaskNotFoundError
    assert error.task is None
    assert str(error) == (
        "cannot start confirm_payment of Order 'nothing': it does not exist. Call Order.create('nothing') first"
    )


def test_a_task_of_another_use_case_is_not_found() -> None:
    Order.create("o-1")
    change(Order, "o-1", use_case_id={"S": "order2"})
    Order.delete_task("o-1")
    assert type(refused(Order.confirm_payment)) is TaskNotFoundError


def test_a_running_task_is_locked(clock: StoppedClock) -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    error = refused(Order.confirm_payment)
    assert type(error) is TaskLockedError
    assert error.task is not None
    assert error.task.worker is not None
    assert error.task.worker in str(error)
    assert str(clock.now() + timedelta(minutes=5)) in str(error)
    assert "Try again after that" in str(error)


def test_a_lock_is_held_until_it_has_expired_for_every_clock(clock: StoppedClock) -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    clock.advance(timedelta(minutes=5, seconds=2))
    assert "held by" in str(refused(Order.confirm_payment))
    clock.advance(timedelta(microseconds=1))
    with pytest.raises(TaskLockedError, match="abandoned by"):
        Order.confirm_payment.reopen("o-1")


def test_the_error_of_a_locked_task_shows_the_extended_lock(clock: StoppedClock) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.extend_lock(timedelta(hours=3))
        assert str(clock.now() + timedelta(hours=3)) in str(refused(Order.confirm_payment))


def test_a_task_that_is_not_due_is_not_ready(clock: StoppedClock) -> None:
    due = clock.now() + timedelta(hours=1)
    Order.create("o-1", due_time=due)
    error = refused(Order.confirm_payment)
    assert type(error) is TaskNotReadyError
    assert str(due) in str(error)


@pytest.mark.parametrize(
    "state",
    [Order.confirm_payment.pending, Order.confirm_payment.failed, Order.confirm_payment.ignored, Order.ship.failed],
    ids=str,
)
def test_a_task_at_an_earlier_step_is_not_ready(state: object) -> None:
    Order.create("o-1", state=state)  # type: ignore[arg-type]  # of the parameters, all are states of Order
    error = refused(Order.deliver)
    assert type(error) is TaskNotReadyError
    assert str(state) in str(error)
    assert "deliver comes after that" in str(error)


def test_a_task_that_runs_an_earlier_step_is_not_ready() -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    assert type(refused(Order.ship)) is TaskNotReadyError


@pytest.mark.parametrize(
    "state",
    [Order.ship.pending, Order.ship.failed, Order.ship.ignored, Order.deliver.pending, Order.deliver.succeeded],
    ids=str,
)
def test_a_task_beyond_the_step_has_already_succeeded(state: object) -> None:
    Order.create("o-1", state=state)  # type: ignore[arg-type]  # of the parameters, all are states of Order
    error = refused(Order.confirm_payment)
    assert type(error) is TaskAlreadySucceededError
    assert str(state) in str(error)
    assert "also_from" in str(error)


def test_a_task_that_runs_a_later_step_has_already_succeeded() -> None:
    Order.create("o-1", state=Order.ship.pending)
    die(Order.ship, "o-1")
    assert type(refused(Order.confirm_payment)) is TaskAlreadySucceededError


def test_an_ignored_task_is_ignored_and_the_error_says_why_and_what_to_do() -> None:
    Order.create("o-1")
    Order.confirm_payment.ignore("o-1", reason="the customer called")
    error = refused(Order.confirm_payment)
    assert type(error) is TaskIgnoredError
    assert "the customer called" in str(error)
    assert "reopen" in str(error)


def test_a_task_that_was_created_as_ignored_is_refused_readably() -> None:
    Order.create("o-1", state=Order.confirm_payment.ignored)
    error = refused(Order.confirm_payment)
    assert type(error) is TaskIgnoredError
    assert "None" not in str(error)


def test_a_task_in_a_code_that_no_step_declares_is_refused_readably() -> None:
    Order.create("o-1")
    change(Order, "o-1", status={"N": "15"})
    assert "unknown 15" in str(refused(Order.ship))


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (Order.confirm_payment.pending, Order.ship),
        (Order.ship.pending, Order.confirm_payment),
        (Order.confirm_payment.ignored, Order.confirm_payment),
    ],
    ids=str,
)
def test_a_refusal_names_the_task_and_carries_the_row_as_it_was_found(state: object, step: BoundStep[Order]) -> None:
    Order.create("o-1", state=state, amount=42)  # type: ignore[arg-type]  # of the parameters, all are states of Order
    error = refused(step)
    assert error.task_id == "o-1"
    assert isinstance(error.task, Order)
    assert (error.task.state, error.task.amount) == (state, 42)
    assert f"cannot start {step} of Order 'o-1'" in str(error)


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (Order.confirm_payment.pending, Order.ship),
        (Order.ship.pending, Order.confirm_payment),
        (Order.confirm_payment.ignored, Order.confirm_payment),
        (None, Order.confirm_payment),
    ],
    ids=str,
)
def test_without_detail_a_refusal_is_the_base_class_itself(state: object, step: BoundStep[Order]) -> None:
    if state is not None:
        Order.create("o-1", state=state)  # type: ignore[arg-type]  # of the parameters, all are states of Order
    error = refused(step, detailed_error=False)
    assert type(error) is TaskNotStartableError
    assert (error.task_id, error.task) == ("o-1", None)
    assert "'o-1'" in str(error)


def test_without_detail_a_free_task_starts_although_the_clock_of_its_last_worker_was_ahead() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1")
    ahead = f"{time.time_ns() + 2_000_000_000:016x}00000000"
    change(Order, "o-1", lock={"S": ahead})
    with Order.confirm_payment.start("o-1", detailed_error=False) as ctx:
        assert (ctx.attempt, ctx.task.lock > ahead) == (2, True)


def test_a_refusal_changes_nothing() -> None:
    Order.create("o-1", state=Order.ship.ignored)
    before = Order.get_task("o-1").to_dynamodb_dict()
    refused(Order.confirm_payment)
    refused(Order.ship)
    refused(Order.deliver)
    assert Order.get_task("o-1").to_dynamodb_dict() == before


def test_every_refusal_is_an_error_of_the_tracker() -> None:
    kinds = [TaskNotFoundError, TaskNotReadyError, TaskLockedError, TaskAlreadySucceededError, TaskIgnoredError]
    assert all(issubclass(kind, TaskNotStartableError) and issubclass(kind, TrackerError) for kind in kinds)
    assert not issubclass(TaskAlreadyExistsError, TaskNotStartableError)


def test_a_refusal_shows_no_error_of_the_sdk_behind_it() -> None:
    Order.create("o-1", state=Order.ship.pending)
    error = refused(Order.confirm_payment)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert refused(Order.confirm_payment, detailed_error=False).__suppress_context__


def test_a_refused_start_of_another_task_fails_the_block_around_it() -> None:
    Order.create("o-1")
    with pytest.raises(TaskNotFoundError), Order.confirm_payment.start("o-1"), Order.ship.start("nothing"):
        raise Broken
    assert Order.get_task("o-1").errors[-1].type == "TaskNotFoundError"
