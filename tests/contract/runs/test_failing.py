"""A run that fails: which exception propagates, and what is recorded."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

import pytest

from pynamodb_tracker import TaskIgnoredError
from pynamodb_tracker.clock import StoppedClock
from tests.support.shop import Order, created
from tests.support.workers import Broken, FrozenError, fail

pytestmark = pytest.mark.usefixtures("client", "table", "task")


def test_the_exception_of_the_block_propagates_unchanged() -> None:
    error, cause = Broken("it broke", 5), KeyError("because")
    error.__cause__ = cause
    with pytest.raises(Broken) as caught, Order.confirm_payment.start("o-1"):
        raise error
    assert caught.value is error
    assert (error.args, error.__cause__, error.__context__) == (("it broke", 5), cause, None)
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize("error", [StopIteration(3), StopAsyncIteration(), RuntimeError("generator didn't stop")])
def test_exceptions_that_generators_use_propagate_unchanged_too(error: Exception) -> None:
    fail(Order.confirm_payment, "o-1", error)
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


def test_a_frozen_exception_propagates_unchanged_and_is_recorded() -> None:
    fail(Order.confirm_payment, "o-1", FrozenError("it broke"))
    assert Order.get_task("o-1").errors[-1].type == "FrozenError"


def test_skip_error_suppresses_the_exception_once_it_is_recorded() -> None:
    with Order.confirm_payment.start("o-1", skip_error=True):
        raise Broken("swallowed")
    task = Order.get_task("o-1")
    assert (task.state, task.errors[-1].message) == (Order.confirm_payment.failed, "swallowed")


def test_skip_error_does_not_hide_a_refusal_within_another_block() -> None:
    Order.create("o-2", state=Order.ship.ignored)
    with Order.confirm_payment.start("o-1"), pytest.raises(TaskIgnoredError), Order.ship.start("o-2", skip_error=True):
        pytest.fail("the block runs")


@created(amount=1, data={"a": 1})
def test_nothing_that_the_block_assigned_is_saved() -> None:
    with pytest.raises(Broken), Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 2
        ctx.task.data["a"] = 2
        raise Broken
    task = Order.get_task("o-1")
    assert (task.amount, task.data) == (1, {"a": 1})


def test_the_record_says_what_when_where_and_who(clock: StoppedClock) -> None:
    fail(Order.confirm_payment, "o-1", Broken("the gateway is down"))
    task = Order.get_task("o-1")
    (failure,) = task.errors
    assert (failure.step, failure.attempt, failure.type) == ("confirm_payment", 1, "Broken")
    assert (failure.message, failure.time, failure.worker) == ("the gateway is down", clock.now(), task.worker)
    assert "raise error" in failure.traceback


def test_failures_that_look_alike_are_all_recorded(clock: StoppedClock) -> None:
    for _ in range(2):  # at the same time, because the clock is stopped
        fail(Order.confirm_payment, "o-1")
        Order.confirm_payment.reopen("o-1")
    assert [failure.time for failure in Order.get_task("o-1").errors] == [clock.now(), clock.now()]


def test_the_row_in_the_context_shows_the_failure_afterwards() -> None:
    with Order.confirm_payment.start("o-1", skip_error=True) as ctx:
        raise Broken("it broke")
    assert (ctx.task.state, ctx.task.errors[-1].message) == (Order.confirm_payment.failed, "it broke")
