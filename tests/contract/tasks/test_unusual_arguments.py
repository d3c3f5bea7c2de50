"""Unusual arguments that work: each does what it says, and is read back as it was given."""

import functools
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NoReturn

import pytest

from pynamodb_tracker import RetryLater, Step, UseCase, Worker
from pynamodb_tracker.clock import NEVER, StoppedClock
from pynamodb_tracker.execution import retry_policy
from pynamodb_tracker.testing import stopped_clock
from tests.contract.odd_values import (
    CENTURY,
    EARLIER,
    INF,
    LATER,
    LONGEST,
    NAN,
    STATE,
    STEP,
    YEAR_1,
    Colour,
    Duration,
    Member,
    Text,
    columns,
    nothing,
    refuses,
)
from tests.contract.tasks.test_refused_arguments import TAKES_A_LIMIT, TAKES_THREADS
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, fail, succeed

pytestmark = pytest.mark.usefixtures("table")


@columns("tasks")(
    [*([], (), {}.keys(), iter(["o-1"]), {"o-1"}, [Text("o-1")], [Member.RED]), [MappingProxyType({"task_id": "o-1"})]]
)
def test_create_many_takes_any_iterable_of_ids_and_mappings(tasks: Any) -> None:
    report = Order.create_many(tasks)
    assert report.refused == {}
    assert set(report.succeeded) <= {"o-1", "red"}
    assert STATE.count() == len(report.succeeded)


@pytest.mark.parametrize("kind", [tuple, list, set, iter, dict.fromkeys])
def test_any_collection_of_states_will_do(kind: Callable[[Any], Any]) -> None:
    Order.create("o-1", state=Order.ship.failed)
    with STEP.start("o-1", also_from=kind([Order.ship.failed])) as ctx:
        assert ctx.attempt == 1


@pytest.mark.parametrize("method", TAKES_A_LIMIT, ids=["query", "page", "index_page", "due", "due_ids", "run_all"])
def test_a_limit_may_be_as_large_as_can_be(method: Callable[[Any], list[object]]) -> None:
    Order.create_many(["o-1", "o-2"])
    assert len(method(sys.maxsize)) == 2


@pytest.mark.parametrize("method", TAKES_THREADS[:3], ids=["run_all", "create_many", "delete_use_case"])
def test_more_threads_than_tasks_do_no_harm(method: Callable[[Any], Any]) -> None:
    Order.create("o-1")
    assert len(method(10**30).succeeded) == 1


def without_context() -> None:
    """Forget the parameter."""


CALLS: list[Callable[[Any], object]] = [
    STEP.run_all,
    lambda function: STEP.run("o-1", function),
    lambda function: Worker({STEP: function}),
]


@pytest.mark.parametrize("call", CALLS, ids=["run_all", "run", "Worker"])
def test_a_function_that_does_not_take_the_context_is_refused_before_a_task_is_claimed(
    call: Callable[[Any], object],
) -> None:
    Order.create("o-1")
    functions = {
        r"without_context\(\) -> .*: too many": without_context,
        r"<lambda>\(a, b\): missing": lambda a, b: (a, b),
        r"<lambda>\(ctx, \*, b\): missing": lambda ctx, *, b: (ctx, b),
    }
    for described, function in functions.items():
        with pytest.raises(TypeError, match=rf"this takes a function of \(ctx\), not {described}"):
            call(function)
    assert Order.get_task("o-1").state == STEP.pending


def test_a_decorator_may_add_what_the_function_takes_in_addition_to_the_context() -> None:
    @functools.wraps(lambda ctx, bank: (ctx, bank))
    def decorated(ctx: Any) -> None:
        del ctx

    Order.create("o-1")
    assert STEP.run_all(decorated).succeeded == ["o-1"]


@pytest.mark.parametrize("function", [int, "{0.nothing}".format])
def test_a_function_that_cannot_take_the_context_fails_the_attempt(function: Any) -> None:
    Order.create("o-1")
    assert (STEP.run_all(function).failed, Order.get_task("o-1").state) == (["o-1"], STEP.failed)


@columns("reason", "message")(
    [
        ("", ""),
        ("   ", "   "),
        ("a\n\0b\t😀", "a\n\0b\t😀"),
        ("x" * 200, "x" * 200),
        ("\ud800", "\\ud800"),
        (Text("why"), "why"),
        (Colour.RED, "red"),
    ]
)
def test_a_reason_reads_back_as_it_was_given(reason: str, message: str) -> None:
    Order.create("o-1")
    STEP.ignore("o-1", reason=reason)
    task = Order.get_task("o-1")
    assert (task.state, task.errors[-1].message) == (STEP.ignored, message)
    assert task.last_error
    assert "\n" not in task.last_error


async def asynchronous(_attempt: int) -> NoReturn:
    pytest.fail("it runs")


def interrupt(_attempt: int) -> NoReturn:
    raise KeyboardInterrupt


class Late(AppTask):
    """Steps whose delays are odd, and a retention as long as can be."""

    use_case_id = UseCase("late", keep_for=LONGEST, keep_ignored_for=LONGEST)

    none = Step(10, retry_delay=lambda _: None)  # type: ignore[arg-type,return-value]  # that is what is odd about it
    nan = Step(20, retry_delay=lambda _: NAN)  # type: ignore[arg-type,return-value]  # the same
    past = Step(30, retry_delay=lambda _: timedelta.min)
    asynchronous = Step(40, retry_delay=asynchronous)  # type: ignore[arg-type]  # the same
    of_nothing = Step(50, retry_delay=lambda: timedelta(1))  # type: ignore[arg-type,misc]  # the same
    exits = Step(60, retry_delay=sys.exit)
    interrupted = Step(70, retry_delay=interrupt)
    endless = Step(80, retry_delay=timedelta.max)
    broken = Step(75, max_attempts=20, retry_delay=lambda _: timedelta(1 / 0))
    at_once = Step(90, retry_delay=timedelta(0))


@columns("duration")([timedelta(0), CENTURY, timedelta.max, timedelta.min, NAN, INF, 60, "5m"])
def test_a_lock_for_no_time_or_beyond_a_century_is_refused_and_the_run_continues(duration: Any) -> None:
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
    for step, due_time in ((Late.at_once, clock.now()), (Late.endless, NEVER - timedelta(seconds=1))):
        Late.create(step.name, state=step.pending)
        fail(step, step.name)
        assert Late.get_task(step.name).due_time == due_time


def test_a_finished_task_may_be_kept_for_a_century(clock: StoppedClock) -> None:
    Late.create("l-1", state=Late.at_once.pending)
    succeed(Late.at_once, "l-1")
    expire_time = Late.get_task("l-1").expire_time
    assert expire_time is not None
    assert abs(expire_time - clock.now() - LONGEST) < timedelta(seconds=1)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(
    "step",
    [*(Late.none, Late.nan, Late.past, Late.asynchronous, Late.of_nothing), Late.exits, Late.interrupted],
    ids=str,
)
def test_a_failure_is_recorded_whatever_the_function_for_the_delay_does(step: Any, clock: StoppedClock) -> None:
    Late.create("l-1", state=step.pending)
    with pytest.raises((Broken, KeyboardInterrupt)), step.start("l-1"):
        raise Broken("it broke")
    task = Late.get_task("l-1")
    assert task.due_time is not None
    pause = task.due_time - clock.now()
    assert (task.state, pause == timedelta(0)) == (step.failed, step is Late.interrupted)
    assert pause <= timedelta(seconds=2)
    assert task.errors[-1].message.startswith("it broke")


def test_without_a_delay_the_pause_doubles_up_to_an_hour_and_one_warning_says_so(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_policy, "_warned", set[str]())
    pauses = []
    Late.create("l-1", state=Late.broken.pending)
    for _ in range(13):
        fail(Late.broken, "l-1")
        pauses.append((Late.get_task("l-1").due_time - clock.now()).total_seconds())
        clock.advance(timedelta(hours=1))
    longest = [min(2**attempt, 3600) for attempt in range(1, 14)]
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True))
    reason = "retry_delay(1) raised ZeroDivisionError('division by zero')"
    text = f"the delay of Late.broken: {reason}. It pauses up to 2 s instead, and this process logs that once per step"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [text]


@columns("time")(LATER)
def test_a_time_to_come_reads_back_equal_and_bounds_a_window(time: datetime) -> None:
    Order.create("o-1", due_time=time)
    due_time = Order.get_task("o-1").due_time
    assert (due_time, due_time.tzinfo, STATE.count(until=time), STATE.count(since=time)) == (time, UTC, 1, 0)
    assert ([*STEP.due(until=time)], [*STATE.query(since=time)]) == ([], [])


@columns("time")(EARLIER)
def test_a_time_long_ago_is_now_for_a_task_and_bounds_a_window(time: datetime, clock: StoppedClock) -> None:
    assert Order.create("o-1", due_time=time).due_time == clock.now()
    assert (STATE.count(since=time), STATE.count(until=time)) == (1, 0)
    assert ([task.task_id for task in STEP.due(since=time)], STATE.page(until=time).tasks) == (["o-1"], [])


@columns("at")([EARLIER[0], YEAR_1 + timedelta(days=1), datetime(9000, 1, 1, tzinfo=UTC)])
def test_a_task_works_in_any_year(at: datetime) -> None:
    with stopped_clock(at):
        Order.create("o-1")
        fail(STEP, "o-1", RetryLater(timedelta(0)))
        succeed(STEP, "o-1")
        task = Order.get_task("o-1")
        assert (task.state, task.update_time, task.errors[-1].time) == (Order.ship.pending, at, at)
        assert Order.ship.run_all(nothing).succeeded == ["o-1"]
