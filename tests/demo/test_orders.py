"""The orders: where each must end by what happened to it, and what is drawn for the generated ones."""

from collections import Counter
from datetime import datetime

import pytest

from pynamodb_tracker import Status
from pynamodb_tracker.demo.orders import MAX_ATTEMPTS, STEPS, Accident, PlacedOrder, draw_accidents, generate_orders

PENDING, IGNORED, SUCCEEDED = Status.PENDING, Status.IGNORED, Status.SUCCEEDED


@pytest.mark.parametrize(
    ("status", "times", "end"),
    [
        ("delivered", "confirm_payment ship deliver", ("deliver", SUCCEEDED)),
        ("delivered", "confirm_payment ship", ("deliver", SUCCEEDED)),
        ("delivered", "", ("deliver", SUCCEEDED)),
        ("shipped", "confirm_payment ship", ("deliver", PENDING)),
        ("shipped", "confirm_payment", ("deliver", PENDING)),
        ("invoiced", "confirm_payment", ("ship", PENDING)),
        ("processing", "confirm_payment", ("ship", PENDING)),
        ("processing", "confirm_payment ship", ("deliver", PENDING)),
        ("approved", "", ("ship", PENDING)),
        ("created", "", ("confirm_payment", PENDING)),
        ("created", "confirm_payment", ("ship", PENDING)),
        ("canceled", "", ("confirm_payment", IGNORED)),
        ("canceled", "confirm_payment", ("ship", IGNORED)),
        ("canceled", "confirm_payment ship", ("deliver", IGNORED)),
        ("canceled", "confirm_payment ship deliver", ("deliver", IGNORED)),
        ("unavailable", "confirm_payment", ("ship", IGNORED)),
    ],
)
def test_an_order_ends_where_its_status_and_its_times_say(status: str, times: str, end: tuple[str, Status]) -> None:
    happened = dict.fromkeys(times.split(), datetime(2018, 1, 1))  # noqa: DTZ001 - no zone in files
    assert PlacedOrder("a1", status, happened).end == end


@pytest.mark.parametrize("accidents", [[Accident.REFUSAL], [Accident.FAILURE] * 4, [Accident.DEATH] * 4])
def test_an_order_that_cannot_succeed_ends_ignored_at_that_step(accidents: list[Accident]) -> None:
    order = PlacedOrder("a1", "delivered", accidents={"confirm_payment": [Accident.FAILURE], "ship": accidents})
    assert (order.end, order.steps_started) == (("ship", IGNORED), STEPS[:2])


def test_nobody_starts_an_order_that_waits_for_its_next_event() -> None:
    assert PlacedOrder("a1", "shipped").steps_started == ()


def test_generated_orders_are_the_same_each_time_and_each_trouble_is_among_them() -> None:
    orders = generate_orders(40)
    assert orders == generate_orders(40)
    assert len({order.order_id for order in orders}) == 40
    ends = Counter((order.status, *order.end) for order in orders)
    assert ends == {
        ("canceled", "confirm_payment", IGNORED): 1,
        ("delivered", "confirm_payment", IGNORED): 2,
        ("delivered", "ship", IGNORED): 1,
        ("delivered", "deliver", IGNORED): 1,
        ("delivered", "deliver", SUCCEEDED): 35,
    }


def test_accidents_leave_attempts_to_an_order_that_can_succeed() -> None:
    orders = [PlacedOrder(f"a{number}", "delivered") for number in range(2000)]
    draw_accidents(orders)
    drawn = [accidents for order in orders for accidents in order.accidents.values()]
    assert max(map(len, drawn)) == MAX_ATTEMPTS - 2
    assert {each for accidents in drawn for each in accidents} == {Accident.FAILURE, Accident.DEATH}
    assert {order.end for order in orders} == {("deliver", SUCCEEDED)}


@pytest.mark.parametrize("number", range(1, 20))
def test_however_few_the_orders_one_worker_dies_and_one_run_fails(number: int) -> None:
    orders = [PlacedOrder(f"d{each}", "delivered") for each in range(number)]
    orders += [PlacedOrder("c1", "canceled"), PlacedOrder("n1", "created")]
    draw_accidents(orders)
    drawn = {each for order in orders for accidents in order.accidents.values() for each in accidents}
    assert drawn == {Accident.FAILURE, Accident.DEATH}
    assert [order.accidents for order in orders[-2:]] == [{}, {}]  # one only gives up, and one never starts
