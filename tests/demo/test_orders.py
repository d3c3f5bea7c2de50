"""The orders: where each must end by what happened to it, and what is drawn for the generated ones."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest

from pynamodb_tracker import Status
from pynamodb_tracker.demo.orders import STEPS, PlacedOrder, Trouble, generate_orders
from pynamodb_tracker.demo.pipeline import MAX_ATTEMPTS, Accident, Accidents

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


@pytest.mark.parametrize("trouble", Trouble)
def test_an_order_in_trouble_ends_ignored_at_the_step_where_it_shows(trouble: Trouble) -> None:
    order = PlacedOrder("a1", "delivered", trouble=trouble)
    assert order.end == (trouble.step, IGNORED)
    assert order.steps_started == STEPS[: STEPS.index(trouble.step) + 1]


def test_an_order_that_waits_for_its_next_event_is_started_by_nobody() -> None:
    assert PlacedOrder("a1", "shipped").steps_started == ()


def test_generated_orders_are_the_same_for_the_same_seed_and_each_trouble_is_among_them() -> None:
    orders = generate_orders(40, seed=5)
    assert orders == generate_orders(40, seed=5) != generate_orders(40, seed=6)
    assert len({order.order_id for order in orders}) == 40
    kinds = Counter(order.trouble for order in orders)
    assert kinds.keys() == {None, *Trouble}
    assert kinds[None] > 30
    assert "canceled" in {order.status for order in orders}


def test_accidents_leave_an_order_that_can_succeed_attempts_to_do_so() -> None:
    orders = [PlacedOrder(f"a{number}", "delivered") for number in range(2000)]
    drawn = Accidents.draw(orders, seed=1).drawn
    assert max(map(len, drawn.values())) == MAX_ATTEMPTS - 2
    assert {accident for accidents in drawn.values() for accident in accidents} == set(Accident)


@pytest.mark.parametrize("seed", range(20))
def test_however_few_the_orders_one_worker_dies_and_one_run_fails(seed: int) -> None:
    orders = [PlacedOrder("a1", "delivered"), PlacedOrder("a2", "canceled"), PlacedOrder("a3", "created")]
    drawn = Accidents.draw(orders, seed).drawn
    assert {accident for accidents in drawn.values() for accident in accidents} == set(Accident)
    assert {order_id for order_id, _ in drawn} == {"a1"}  # a2 only gives up, and a3 never starts
