"""What the lane of urgent tasks costs an idle worker: as much as another shard, and nothing without `urgent=True`."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import Step, UseCase, clock
from pynamodb_tracker.testing import StoppedClock
from tests.support.engines import opened
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order
from tests.work.test_polling import Poller

engine = opened(AppTask, scope="function")

MINUTES = 4
DOCUMENTED = 1_100
"""Read units per hour, step and shard, of docs/explanation/cost.md."""


class Express(AppTask):
    use_case_id = UseCase("express in a lane", urgent=True)

    send = Step(10)


def read_units_per_hour(step: Any, stopped: StoppedClock) -> float:
    """Return what an idle worker takes with the default interval. A query without a result takes half a unit."""
    poller = Poller(step._definition, timedelta(seconds=2))
    begins, number = clock.now() + timedelta(minutes=1), 0  # until its pauses have become long
    while (now := clock.now()) < begins + timedelta(minutes=MINUTES):
        with recorded() as requests:
            assert poller.take() is None
        number += requests.operations.count("Query") if now >= begins else 0
        stopped.advance(max(poller.next_look - now, timedelta(milliseconds=1)))
    return 0.5 * number * 60 / MINUTES


@pytest.mark.usefixtures("engine")
def test_the_lane_costs_an_idle_worker_as_much_as_another_shard(stopped_clock: StoppedClock) -> None:
    without = read_units_per_hour(Order.ship, stopped_clock)
    of_lane = read_units_per_hour(Express.send, stopped_clock) - without
    assert 0.8 * without < of_lane <= without <= DOCUMENTED
