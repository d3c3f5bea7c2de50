"""Times: aware, and of a year that UTC has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pynamodb_tracker import RetryLater
from pynamodb_tracker import clock as clocks
from pynamodb_tracker.testing import local_table, stopped_clock
from tests.contract.odd_values import (
    EARLIER,
    EAST,
    LATER,
    NAN,
    STATE,
    STEP,
    WEST,
    YEAR_1,
    YEAR_9999,
    NoOffset,
    columns,
    nothing,
    refuses,
)
from tests.support.shop import Order
from tests.support.workers import fail, succeed

if TYPE_CHECKING:
    from pynamodb_tracker.clock import StoppedClock

pytestmark = pytest.mark.usefixtures("table")

TAKES_A_TIME: list[tuple[str, Callable[[Any], object]]] = [
    ("due_time", lambda time: Order.create("o-1", due_time=time)),
    ("due_time", lambda time: Order.create_many([{"task_id": "o-1", "due_time": time}])),
    ("since", lambda time: STATE.query(since=time)),
    ("until", lambda time: STATE.query(until=time)),
    ("since", lambda time: STATE.page(since=time)),
    ("until", lambda time: STATE.page(until=time)),
    ("since", lambda time: STATE.count(since=time)),
    ("until", lambda time: STATE.count(until=time)),
    ("since", lambda time: STEP.todo(since=time)),
    ("until", lambda time: STEP.todo(until=time)),
    ("since", lambda time: STEP.run_all(nothing, since=time)),
    ("until", lambda time: STEP.run_all(nothing, until=time)),
]

BAD_TIMES = [
    (datetime(2026, 1, 1), "has no time zone: add tzinfo=UTC"),  # noqa: DTZ001 - that is what is wrong with it
    (YEAR_1.replace(tzinfo=None), "has no time zone: add tzinfo=UTC"),
    (YEAR_9999.replace(tzinfo=None), "has no time zone: add tzinfo=UTC"),
    (datetime(2026, 1, 1, tzinfo=NoOffset()), "has no time zone: add tzinfo=UTC"),
    (datetime.min.replace(tzinfo=EAST), "is outside of the years that UTC has"),
    (datetime.max.replace(tzinfo=WEST), "is outside of the years that UTC has"),
    (date(2026, 1, 1), "is an aware datetime, not datetime.date"),
    (time(12, tzinfo=UTC), "is an aware datetime, not datetime.time"),
    (timedelta(days=1), "is an aware datetime, not datetime.timedelta"),
    ("2026-01-01T00:00:00Z", "is an aware datetime, not '2026"),
    (1_767_225_600, "is an aware datetime, not 1767225600"),
    (NAN, "is an aware datetime, not nan"),
    (False, "is an aware datetime, not False"),
]


@columns("time", "message")(BAD_TIMES)
def test_what_is_no_time_is_refused_by_the_name_of_the_argument(time: object, message: str) -> None:
    for name, method in TAKES_A_TIME:
        refuses(partial(method, time), f"{name}.*{message}")


@columns("time")(LATER)
def test_a_time_to_come_reads_back_equal_and_bounds_a_window(time: datetime) -> None:
    Order.create("o-1", due_time=time)
    due_time = Order.get_task("o-1").due_time
    assert (due_time, due_time.tzinfo) == (time, UTC)
    assert (STATE.count(until=time), STATE.count(since=time)) == (1, 0)
    assert ([*STEP.todo(until=time)], [*STATE.query(since=time)]) == ([], [])


@columns("time")(EARLIER)
def test_a_time_long_ago_is_now_for_a_task_and_bounds_a_window(time: datetime, clock: StoppedClock) -> None:
    assert Order.create("o-1", due_time=time).due_time == clock.now()
    assert (STATE.count(since=time), STATE.count(until=time)) == (1, 0)
    assert [task.task_id for task in STEP.todo(since=time)] == ["o-1"]
    assert STATE.page(until=time).tasks == []


@columns("at")([EARLIER[0], YEAR_1 + timedelta(days=1), datetime(9000, 1, 1, tzinfo=UTC)])
def test_a_task_lives_its_life_whatever_year_it_is(at: datetime) -> None:
    with stopped_clock(at):
        Order.create("o-1")
        fail(STEP, "o-1", RetryLater(timedelta(0)))
        succeed(STEP, "o-1")
        task = Order.get_task("o-1")
        assert (task.state, task.update_time, task.errors[-1].time) == (Order.ship.pending, at, at)
        assert Order.ship.run_all(nothing).succeeded == ["o-1"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stopped_clock(YEAR_1.replace(tzinfo=None)).__enter__(), "add tzinfo=UTC"),
        (lambda: stopped_clock(date(2026, 1, 1)).__enter__(), "aware datetime"),
        (lambda: stopped_clock("2026").__enter__(), "aware datetime"),
        (lambda: stopped_clock().__enter__().advance(60), "write timedelta"),
        (lambda: local_table().__enter__(), "argument: 'table'"),
        (lambda: local_table("tasks").__enter__(), "class of tasks"),
    ],
    ids=["naive", "date", "text", "advance by seconds", "no table", "table by name"],
)
def test_what_is_given_to_the_helpers_of_tests_is_checked(call: Callable[[], object], message: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "_clock", clocks._clock)
        refuses(call, message)
