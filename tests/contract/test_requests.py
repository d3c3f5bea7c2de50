"""What each operation costs in requests."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from pynamodb_tracker import (
    GiveUp,
    TaskAlreadyExistsError,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotStartableError,
)
from tests.support.recorder import recorded
from tests.support.shop import Order
from tests.support.workers import die, fail, succeed

if TYPE_CHECKING:
    from pynamodb_tracker.clock import StoppedClock

pytestmark = pytest.mark.usefixtures("table")


def test_create_is_one_request() -> None:
    with recorded() as requests:
        Order.create("o-1", amount=1)
    assert requests.operations == ["PutItem"]


def test_a_refused_create_is_one_request() -> None:
    Order.create("o-1")
    with recorded() as requests, pytest.raises(TaskAlreadyExistsError):
        Order.create("o-1")
    assert requests.operations == ["PutItem"]


def test_a_run_is_two_requests() -> None:
    Order.create("o-1")
    with recorded() as requests, Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 5
        ctx.task.data["a"] = 1
    assert requests.operations == ["UpdateItem", "UpdateItem"]


def test_a_failing_run_is_two_requests() -> None:
    Order.create("o-1")
    with recorded() as requests:
        fail(Order.confirm_payment, "o-1")
    assert requests.operations == ["UpdateItem", "UpdateItem"]


def test_giving_up_is_two_requests() -> None:
    Order.create("o-1")
    with recorded() as requests:
        fail(Order.confirm_payment, "o-1", GiveUp("why"))
    assert requests.operations == ["UpdateItem", "UpdateItem"]


def test_ctrl_c_is_two_requests() -> None:
    Order.create("o-1")
    with recorded() as requests:
        fail(Order.confirm_payment, "o-1", KeyboardInterrupt())
    assert requests.operations == ["UpdateItem", "UpdateItem"]


@pytest.mark.parametrize("state", [Order.confirm_payment.ignored, Order.ship.pending, None], ids=str)
def test_a_refusal_with_its_reason_is_two_requests(state: object) -> None:
    if state is not None:
        Order.create("o-1", state=state)  # type: ignore[arg-type]  # of the parameters, all are states of Order
    with recorded() as requests, pytest.raises(TaskNotStartableError), Order.confirm_payment.start("o-1"):
        pytest.fail("the block runs")
    assert requests.operations == ["UpdateItem", "GetItem"]


def test_the_reason_is_read_strongly_consistent() -> None:
    with recorded() as requests, pytest.raises(TaskNotFoundError), Order.confirm_payment.start("o-1"):
        pytest.fail("the block runs")
    assert requests[-1].body["ConsistentRead"] is True


@pytest.mark.parametrize("state", [Order.confirm_payment.ignored, Order.ship.pending, None], ids=str)
def test_a_refusal_without_its_reason_is_one_request(state: object) -> None:
    if state is not None:
        Order.create("o-1", state=state)  # type: ignore[arg-type]  # of the parameters, all are states of Order
    with (
        recorded() as requests,
        pytest.raises(TaskNotStartableError),
        Order.confirm_payment.start("o-1", detailed_error=False),
    ):
        pytest.fail("the block runs")
    assert requests.operations == ["UpdateItem"]


def test_setting_a_used_up_task_aside_is_one_request_more(clock: StoppedClock) -> None:
    Order.create("o-1")
    for _ in range(3):
        die(Order.confirm_payment, "o-1")
        clock.advance(timedelta(minutes=6))
    with recorded() as requests, pytest.raises(TaskIgnoredError), Order.confirm_payment.start("o-1"):
        pytest.fail("no attempt is left")
    assert requests.operations == ["UpdateItem", "GetItem", "UpdateItem"]


def test_reopen_is_one_request() -> None:
    Order.create("o-1", state=Order.confirm_payment.ignored)
    with recorded() as requests:
        Order.confirm_payment.reopen("o-1")
    assert requests.operations == ["UpdateItem"]


def test_a_refused_reopen_is_two_requests() -> None:
    Order.create("o-1", state=Order.ship.pending)
    with recorded() as requests, pytest.raises(TaskAlreadySucceededError):
        Order.confirm_payment.reopen("o-1")
    assert requests.operations == ["UpdateItem", "GetItem"]


def test_ignore_is_two_requests() -> None:
    Order.create("o-1")
    with recorded() as requests:
        Order.confirm_payment.ignore("o-1", reason="x")
    assert requests.operations == ["GetItem", "UpdateItem"]


def test_get_task_is_one_consistent_request() -> None:
    Order.create("o-1")
    with recorded() as requests:
        Order.get_task("o-1")
    assert requests.operations == ["GetItem"]
    assert requests[0].body["ConsistentRead"] is True


def test_delete_task_is_three_requests_the_last_searches_for_overflow_chunks() -> None:
    Order.create("o-1")
    with recorded() as requests:
        Order.delete_task("o-1")
    assert requests.operations == ["GetItem", "DeleteItem", "Query"]


def test_a_refused_delete_is_one_request() -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    with recorded() as requests, pytest.raises(TaskLockedError):
        Order.delete_task("o-1")
    assert requests.operations == ["GetItem"]


def test_a_whole_life_of_one_step_is_three_requests() -> None:
    with recorded() as requests:
        Order.create("o-1")
        succeed(Order.confirm_payment, "o-1")
    assert len(requests) == 3
