"""What is kept with a task about where it came from, and when it is due."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import TaskNotReadyError
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.model.references import MAX_TRACE_BYTES, parse, reference_to
from tests.support.network import unreached
from tests.support.shop import Order
from tests.support.workers import succeed

pytestmark = pytest.mark.usefixtures("table")

TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "ü=1"}


def test_a_trace_stays_with_the_task() -> None:
    assert Order.create("o-1", trace=TRACE).trace == TRACE
    with Order.confirm_payment.start("o-1") as ctx:
        assert ctx.task.trace == TRACE
    assert (Order.get_task("o-1").trace, Order.create("o-2").trace) == (TRACE, None)


@pytest.mark.parametrize(
    ("trace", "error", "message"),
    [
        ("00-4bf9", TypeError, "trace must map text to text"),
        ({"traceparent": 1}, TypeError, "trace must map text to text"),
        ({"t": "x" * MAX_TRACE_BYTES}, ValueError, "520 bytes as JSON, more than 512"),
    ],
    ids=["text", "number", "large"],
)
def test_another_trace_is_refused_before_any_request(trace: Any, error: type[Exception], message: str) -> None:
    with unreached(), pytest.raises(error, match=message):
        Order.create("o-1", trace=trace)


def test_a_task_can_be_due_some_time_from_now(clock: StoppedClock) -> None:
    Order.create("o-1", due_time=timedelta(minutes=5))
    with pytest.raises(TaskNotReadyError):
        succeed(Order.confirm_payment, "o-1")
    clock.advance(timedelta(minutes=5))
    succeed(Order.confirm_payment, "o-1")


def test_a_time_that_has_passed_from_now_is_refused() -> None:
    with unreached(), pytest.raises(ValueError, match="due_time must be from zero to 36500 days from now"):
        Order.create("o-1", due_time=timedelta(seconds=-1))


def test_a_reference_names_a_task_in_one_life() -> None:
    first = Order.create("a#b#c")
    Order.delete_task("a#b#c")
    again = parse(reference_to(Order.create("a#b#c")))
    assert (again.use_case, again.task_id) == ("order", "a#b#c")
    assert again != parse(reference_to(first))
    with pytest.raises(ValueError, match="'order#o-1' is not a reference to a task"):
        parse("order#o-1")
