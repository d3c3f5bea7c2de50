"""Wrong arguments: a ValueError or a TypeError that says what to write, before any request."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pynamodb_tracker import RetryLater, Task
from pynamodb_tracker.testing import stopped_clock
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order, Parcel

pytestmark = pytest.mark.usefixtures("table")

STEP: Any = Order.confirm_payment
STATE: Any = STEP.pending
CASE: Any = Order
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - that is what is wrong with it
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def nothing(_ctx: object) -> None:
    pytest.fail("it runs")


WRONG: dict[str, Callable[[], object]] = {
    "lock_for in seconds": lambda: STEP.start("o-1", lock_for=300),
    "lock_for of zero": lambda: STEP.start("o-1", lock_for=timedelta(0)),
    "lock_for below zero": lambda: STEP.start("o-1", lock_for=timedelta(seconds=-1)),
    "lock_for beyond the calendar": lambda: STEP.start("o-1", lock_for=timedelta.max).__enter__(),
    "lock_for as text": lambda: STEP.run("o-1", nothing, lock_for="5m"),
    "also_from of a single state": lambda: STEP.start("o-1", also_from=Order.ship.pending),
    "also_from of in_progress": lambda: STEP.start("o-1", also_from=(Order.ship.in_progress,)),
    "also_from of another use case": lambda: STEP.start("o-1", also_from=(Parcel.sort.pending,)),
    "also_from of text": lambda: STEP.start("o-1", also_from=("pending",)),
    "also_from of a code": lambda: STEP.start("o-1", also_from=(20,)),
    "also_from of a step": lambda: STEP.start("o-1", also_from=(Order.ship,)),
    "also_from of None": lambda: STEP.start("o-1", also_from=None),
    "run without also_from": lambda: STEP.run("o-1", nothing, also_from=(None,)),
    "run of no function": lambda: STEP.run("o-1", None),
    "run_all of no function": lambda: STEP.run_all("print"),
    "no reason": lambda: STEP.ignore("o-1", reason=None),
    "a reason that is no text": lambda: STEP.ignore("o-1", reason=5),
    "threads of zero": lambda: STEP.run_all(nothing, threads=0),
    "threads below zero": lambda: STEP.run_all(nothing, threads=-1),
    "threads as text": lambda: STEP.run_all(nothing, threads="8"),
    "threads as a bool": lambda: STEP.run_all(nothing, threads=True),
    "threads of create_many": lambda: CASE.create_many(["o-1"], threads=0),
    "threads of delete_use_case": lambda: CASE.delete_use_case(threads=0),
    "run_all limit of zero": lambda: STEP.run_all(nothing, limit=0),
    "run_all since naive": lambda: STEP.run_all(nothing, since=NAIVE),
    "todo limit below zero": lambda: STEP.todo(limit=-1),
    "todo until as text": lambda: STEP.todo(until="now"),
    "query limit of zero": lambda: STATE.query(limit=0),
    "query limit as text": lambda: STATE.query(limit="10"),
    "query limit as float": lambda: STATE.query(limit=1.5),
    "query limit as a bool": lambda: STATE.query(limit=True),
    "query since naive": lambda: STATE.query(since=NAIVE),
    "query until naive": lambda: STATE.query(until=NAIVE),
    "query since as a duration": lambda: STATE.query(since=timedelta(days=1)),
    "query since as text": lambda: STATE.query(since="2026-01-01"),
    "query window turned round": lambda: STATE.query(since=NOW, until=NOW - timedelta(days=1)),
    "page limit of zero": lambda: STATE.page(limit=0),
    "page limit as text": lambda: STATE.page(limit="10"),
    "page window turned round": lambda: STATE.page(since=NOW, until=NOW - timedelta(days=1)),
    "count since naive": lambda: STATE.count(since=NAIVE),
    "count window turned round": lambda: STATE.count(since=NOW, until=NOW - timedelta(days=1)),
    "create due_time naive": lambda: CASE.create("o-1", due_time=NAIVE),
    "create due_time as a duration": lambda: CASE.create("o-1", due_time=timedelta(days=1)),
    "create an undeclared attribute": lambda: CASE.create("o-1", colour="red"),
    "create a finished task for later": lambda: CASE.create("o-1", state=Order.deliver.succeeded, due_time=NOW),
    "create_many of numbers": lambda: CASE.create_many([1, 2]),
    "create_many without an id": lambda: CASE.create_many([{"amount": 5}]),
    "create_many of one text": lambda: CASE.create_many("o-1"),
    "create on the table class": lambda: AppTask.create("o-1"),
    "get_task on the table class": lambda: AppTask.get_task("o-1"),
    "counts on the table class": AppTask.counts,
    "delete_use_case on the table class": AppTask.delete_use_case,
    "create on Task itself": lambda: Task.create("o-1"),
    "get_task on Task itself": lambda: Task.get_task("o-1"),
    "RetryLater in seconds": lambda: RetryLater(60),  # type: ignore[arg-type]  # that is what is wrong with it
    "RetryLater below zero": lambda: RetryLater(timedelta(seconds=-1)),
    "a stopped clock without a zone": lambda: stopped_clock(at=NAIVE).__enter__(),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_refused_before_any_request(wrong: Callable[[], object]) -> None:
    with recorded() as requests, pytest.raises((TypeError, ValueError)):
        wrong()
    assert requests == []


@pytest.mark.parametrize("wrong", [timedelta(0), timedelta(-1), 300, "5m", timedelta.max])
def test_a_wrong_duration_for_extend_lock_is_refused_before_any_request(wrong: Any) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1") as ctx, recorded() as requests:
        with pytest.raises((TypeError, ValueError)):
            ctx.extend_lock(wrong)
        assert requests == []


def test_a_naive_time_is_refused_with_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"since=.* has no time zone: add tzinfo=UTC"):
        STATE.query(since=NAIVE)


def test_a_number_of_seconds_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"lock_for is a timedelta, not 300: write timedelta\("):
        STEP.start("o-1", lock_for=300)


def test_options_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        STEP.start("o-1", timedelta(minutes=1))
    with pytest.raises(TypeError):
        STATE.query(NOW)
    with pytest.raises(TypeError):
        CASE.create("o-1", NOW)
