"""What the lane of urgent tasks costs an idle worker: as much as another shard, and nothing without `urgent=True`."""

import re
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import Step, UseCase, clock
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.testing import StoppedClock
from tests.support.engines import opened
from tests.support.pages import ROOT
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order
from tests.work.test_polling import Poller

engine = opened(AppTask, scope="function")

MINUTES = 2
DOCUMENTED = 1_100
"""Read units per hour, step and shard, of docs/explanation/cost.md."""


class Express(AppTask):
    use_case_id = UseCase("express in a lane", urgent=True)

    send = Step(10)


def read_units_per_hour(step: Any, stopped: StoppedClock, interval: int = 2) -> float:
    """Return what an idle worker takes that looks every so many seconds. A query without a result takes half a unit."""
    poller = Poller(step._definition, timedelta(seconds=interval))
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


@pytest.mark.usefixtures("engine")
def test_an_idle_worker_that_looks_less_often_costs_what_the_page_says(
    stopped_clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RANDOM, "uniform", lambda low, high: (low + high) / 2)
    monkeypatch.setattr(RANDOM, "random", lambda: 0.5)
    text = " ".join((ROOT / "docs" / "explanation" / "cost.md").read_text(encoding="utf-8").split())
    units = r"(\d+) seconds takes about (\d+) read units per hour, and (\d+) seconds about (\d+)\."
    told = re.search(f"A `max_poll_interval` of {units}", text)
    assert told
    one, of_one, other, of_other = map(int, told.groups())
    found = [read_units_per_hour(Order.ship, stopped_clock, interval) for interval in (one, other)]
    assert found == pytest.approx([of_one, of_other], rel=0.1)
