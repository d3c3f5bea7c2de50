"""After a failure: giving up, and when the next attempt may start."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import BoundStep, RetryLater, Step, TaskNotReadyError, UseCase
from pynamodb_tracker.clock import StoppedClock
from tests.support.shop import AddressUnknown, AppTask, Order
from tests.support.workers import Broken, FrozenError, fail, succeed

pytestmark = pytest.mark.usefixtures("table")


def backoff(attempt: int) -> timedelta:
    return timedelta(minutes=10**attempt)


def no_delay(attempt: int) -> timedelta:
    raise LookupError(attempt)


def odd_delay(_attempt: int) -> Any:
    return 60


class Retried(AppTask):
    use_case_id = UseCase("retried")

    fixed = Step(10, retry_delay=timedelta(minutes=1))
    growing = Step(20, retry_delay=backoff)
    broken = Step(30, retry_delay=no_delay)
    odd = Step(40, retry_delay=odd_delay)
    negative = Step(50, retry_delay=lambda _: timedelta(seconds=-1))
    endless = Step(60, retry_delay=lambda _: timedelta.max)


BROKEN = [Retried.broken, Retried.odd, Retried.negative]
"""Their functions raise, return something else than a duration, and return a negative one."""


class Subtle(AddressUnknown):
    """A kind of what `deliver` gives up on."""


def delivered_by(error: Exception) -> None:
    Order.create("o-1", state=Order.deliver.pending)
    fail(Order.deliver, "o-1", error)


def test_a_subclass_of_a_listed_exception_ignores_the_task_too() -> None:
    delivered_by(Subtle("Nowhere 1"))
    assert Order.get_task("o-1").state == Order.deliver.ignored


def test_an_exception_that_is_not_listed_does_not_ignore_the_task() -> None:
    delivered_by(Broken("the van"))
    assert Order.get_task("o-1").state == Order.deliver.failed


def test_an_exception_listed_for_one_step_does_not_affect_another_step() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", AddressUnknown("Nowhere 1"))
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


def test_the_next_attempt_waits_for_the_declared_delay(clock: StoppedClock) -> None:
    Retried.create("r-1")
    fail(Retried.fixed, "r-1")
    assert Retried.get_task("r-1").due_time == clock.now() + timedelta(minutes=1)
    clock.advance(timedelta(seconds=57))
    with pytest.raises(TaskNotReadyError), Retried.fixed.start("r-1"):
        pytest.fail("it is not due")
    clock.advance(timedelta(seconds=3))
    succeed(Retried.fixed, "r-1")


def test_the_delay_may_grow_with_the_attempt(clock: StoppedClock) -> None:
    Retried.create("r-1", state=Retried.growing.pending)
    fail(Retried.growing, "r-1")
    assert Retried.get_task("r-1").due_time == clock.now() + timedelta(minutes=10)
    clock.advance(timedelta(minutes=10))
    fail(Retried.growing, "r-1")
    assert Retried.get_task("r-1").due_time == clock.now() + timedelta(minutes=100)


def test_retry_later_goes_before_the_declared_delay(clock: StoppedClock) -> None:
    Retried.create("r-1")
    fail(Retried.fixed, "r-1", RetryLater(timedelta(0)))
    assert Retried.get_task("r-1").due_time == clock.now()


@pytest.mark.parametrize("delay", [timedelta.max, timedelta(days=3_000_000)])
def test_a_delay_beyond_the_calendar_is_the_end_of_it(delay: timedelta) -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", RetryLater(delay))
    due_time = Order.get_task("o-1").due_time
    assert (due_time.year, Order.confirm_payment.next_due()) == (9999, {Order.confirm_payment.failed: due_time})


@pytest.mark.parametrize("step", BROKEN, ids=str)
def test_an_exception_that_takes_no_note_propagates_and_is_recorded(step: BoundStep[Retried]) -> None:
    Retried.create("r-1", state=step.pending)
    fail(step, "r-1", FrozenError("of the block"))
    assert Retried.get_task("r-1").state == step.failed


@pytest.mark.parametrize("step", BROKEN, ids=str)
def test_the_exception_of_the_block_propagates_with_a_note_about_a_broken_delay_function(
    step: BoundStep[Retried],
) -> None:
    Retried.create("r-1", state=step.pending)
    error = Broken("of the block")
    fail(step, "r-1", error)
    assert "retry_delay" in error.__notes__[0]
