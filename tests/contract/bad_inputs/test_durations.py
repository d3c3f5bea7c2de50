"""Durations: timedeltas within bounds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pynamodb_tracker import RetryLater, Step, UseCase
from tests.contract.odd_values import (
    CENTURY,
    INF,
    LONGEST,
    NAN,
    STEP,
    Duration,
    columns,
    nothing,
    refuses,
)
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, fail, succeed

if TYPE_CHECKING:
    from pynamodb_tracker.clock import StoppedClock

pytestmark = pytest.mark.usefixtures("table")

TAKES_A_DURATION: list[tuple[str, Callable[[Any], object]]] = [
    ("lock_for", lambda duration: STEP.start("o-1", lock_for=duration)),
    ("lock_for", lambda duration: STEP.run("o-1", nothing, lock_for=duration)),
    ("RetryLater", RetryLater),
]

BAD_DURATIONS = [
    (timedelta(microseconds=-1), "(above zero|zero or more).*, not datetime.timedelta"),
    (timedelta.min, "(above zero|zero or more).*, not datetime.timedelta"),
    *(
        (value, f"a timedelta, not {value}: write (RetryLater.)?timedelta")
        for value in (300, 0.0, NAN, INF, True, "'5m'")
    ),
    (datetime(2026, 1, 1, tzinfo=UTC), "a timedelta, not datetime.datetime"),
    ((1,), r"a timedelta, not \(1,\): write"),
]


async def asynchronous(_attempt: int) -> NoReturn:
    pytest.fail("it runs")


def interrupt(_attempt: int) -> NoReturn:
    raise KeyboardInterrupt


class Late(AppTask):
    """Steps whose delays are odd, and a retention as long as can be."""

    use_case_id = UseCase("late", keep_for=LONGEST)

    none = Step(10, retry_delay=lambda _: None)  # type: ignore[arg-type,return-value]  # that is what is odd about it
    nan = Step(20, retry_delay=lambda _: NAN)  # type: ignore[arg-type,return-value]  # the same
    past = Step(30, retry_delay=lambda _: timedelta.min)
    asynchronous = Step(40, retry_delay=asynchronous)  # type: ignore[arg-type]  # the same
    of_nothing = Step(50, retry_delay=lambda: timedelta(1))  # type: ignore[arg-type,misc]  # the same
    exits = Step(60, retry_delay=sys.exit)
    interrupted = Step(70, retry_delay=interrupt)
    endless = Step(80, retry_delay=timedelta.max)
    at_once = Step(90, retry_delay=timedelta(0))


@columns("duration", "message")(BAD_DURATIONS)
def test_what_is_no_duration_is_refused_with_what_to_write(duration: Any, message: str) -> None:
    given = "5m" if duration == "'5m'" else duration
    for name, method in TAKES_A_DURATION:
        refuses(partial(method, given), f"{name}.*{message}")


@columns("duration")([timedelta(0), CENTURY, timedelta.max, timedelta.min, NAN, INF, 60])
def test_a_lock_for_no_time_or_beyond_a_century_is_refused_and_the_run_goes_on(duration: Any) -> None:
    refuses(lambda: STEP.start("o-1", lock_for=duration), "lock_for")
    Order.create("o-1")
    with STEP.start("o-1") as ctx:
        refuses(lambda: ctx.extend_lock(duration), "lock_for")
    assert Order.get_task("o-1").state == Order.ship.pending


@columns("duration")([timedelta(microseconds=1), Duration(hours=1), LONGEST])
def test_a_lock_lasts_as_long_as_it_is_asked_for(duration: timedelta, clock: StoppedClock) -> None:
    Order.create("o-1")
    with STEP.start("o-1", lock_for=duration) as ctx:
        assert ctx.lock_expire_time == Order.get_task("o-1").lock_expire_time == clock.now() + duration
        ctx.extend_lock(LONGEST)
        assert ctx.lock_expire_time == Order.get_task("o-1").lock_expire_time == clock.now() + LONGEST
    assert Order.get_task("o-1").state == Order.ship.pending


@columns("delay")([timedelta(0), timedelta(microseconds=1), Duration(hours=1), LONGEST])
def test_a_delay_is_taken_as_it_is(delay: timedelta, clock: StoppedClock) -> None:
    Order.create("o-1")
    fail(STEP, "o-1", RetryLater(delay))
    assert Order.get_task("o-1").due_time == clock.now() + delay


def test_a_declared_delay_may_be_none_at_all_or_endless(clock: StoppedClock) -> None:
    for step, due_time in ((Late.at_once, clock.now()), (Late.endless, datetime.max.replace(tzinfo=UTC))):
        Late.create(step.name, state=step.pending)
        fail(step, step.name)
        assert Late.get_task(step.name).due_time == due_time


def test_a_finished_task_may_be_kept_for_a_century(clock: StoppedClock) -> None:
    Late.create("l-1", state=Late.at_once.pending)
    succeed(Late.at_once, "l-1")
    assert abs(Late.get_task("l-1").expire_time - clock.now() - LONGEST) < timedelta(seconds=1)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(
    "step",
    [
        *(Late.none, Late.nan, Late.past, Late.asynchronous, Late.of_nothing),
        Late.exits,
        Late.interrupted,
    ],
    ids=str,
)
def test_a_failure_is_recorded_whatever_the_function_for_the_delay_does(step: Any, clock: StoppedClock) -> None:
    Late.create("l-1", state=step.pending)
    with pytest.raises((Broken, KeyboardInterrupt)), step.start("l-1"):
        raise Broken("it broke")
    task = Late.get_task("l-1")
    assert (task.state, task.due_time) == (step.failed, clock.now())
    assert task.errors[-1].message.startswith("it broke")
