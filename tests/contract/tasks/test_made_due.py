"""What runs make due is tried by the same call, with any number of threads: next steps, groups, joins."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import AsyncContext, ExecutionContext, GiveUp, Repeat, Step, Task, UseCase
from pynamodb_tracker.aws_lambda import retry_handler
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.shop import Context
from tests.support.engines import only_dynoxide
from tests.support.workers import fail


class ChainTable(Task):
    class Meta:
        table_name = "chains"
        region = "us-east-1"


class Order(ChainTable):
    use_case_id = UseCase("order")

    reserve, pay, ship = Step(10), Step(20), Step(30)


class Report(ChainTable):
    use_case_id = UseCase("report")

    split, collect = Step(10), Step(20)


class Part(ChainTable):
    use_case_id = UseCase("part")

    check = Step(10, max_attempts=1)


TABLES = [ChainTable]
SECOND = timedelta(seconds=1)

pytestmark = [pytest.mark.usefixtures("table"), only_dynoxide]
each_number_of_threads = pytest.mark.parametrize("threads", [1, 4])
ran = list[str]()


def note(ctx: ExecutionContext[Any]) -> None:
    ran.append(f"{ctx.task.task_id} {ctx.task.state.step}")


Order.reserve.does(note)
Order.pay.does(note)
Order.ship.does(note)
Report.collect.does(note)
Part.check.does(note)


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def swept(*of: Any, context: Context | None = None, **options: Any) -> tuple[int, int]:
    """Return how many runs have succeeded, and whether the time was over."""
    done = retry_handler(of, **options)({}, context)
    assert done["failed"] == done["ignored"] == done["refused"] == 0
    return done["succeeded"], done["out_of_time"]


@each_number_of_threads
def test_one_call_brings_tasks_through_all_their_steps(threads: int) -> None:
    Order.create_many(["o-1", "o-2", "o-3"])
    assert swept(Order, threads=threads) == (9, False)
    assert [each for each in ran if "o-1" in each] == ["o-1 reserve", "o-1 pay", "o-1 ship"]
    assert swept(Order, threads=threads) == (0, False)


@each_number_of_threads
def test_one_call_brings_a_whole_group_through_all_its_steps(threads: int) -> None:
    for number in range(8):
        Order.create(f"o-{number}", group="customer-7", state=Order.pay.pending if number == 3 else None)
    assert swept(Order, threads=threads) == (23, False)
    expected = [f"o-{number} {step}" for number in range(8) for step in ("reserve", "pay", "ship")]
    expected.remove("o-3 reserve")
    assert ran == expected


@each_number_of_threads
def test_the_last_child_that_ends_lets_its_parent_run(threads: int) -> None:
    Report.create("r-1")
    with Report.split.start("r-1") as ctx:
        for number in range(6):
            ctx.create(Part, f"p-{number}", wait=True)
    assert (swept(Report, Part, threads=threads), ran[-1]) == ((7, False), "r-1 collect")


@each_number_of_threads
def test_a_batch_of_one_step_runs_a_whole_group(threads: int) -> None:
    for number in range(4):
        Order.create(f"o-{number}", state=Order.ship.pending, group="g")
    assert Order.ship.run_all(threads=threads).succeeded == ["o-0", "o-1", "o-2", "o-3"]


def test_an_async_batch_of_one_step_runs_a_whole_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        Order.create(f"o-{number}", state=Order.ship.pending, group="g")

    async def run(_: AsyncContext[Order]) -> None:
        pass

    monkeypatch.setattr(Order.ship, "function", run)
    assert asyncio.run(Order.ship.arun_all(concurrency=4)).succeeded == ["o-0", "o-1", "o-2", "o-3"]


def test_one_that_is_given_up_hands_its_turn_on_to_the_same_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(_: ExecutionContext[Part]) -> None:
        raise GiveUp

    monkeypatch.setattr(Part.check, "function", give_up)
    for number in range(3):
        Part.create(f"p-{number}", group="g")
    assert Part.check.run_all().ignored == ["p-0", "p-1", "p-2"]


@each_number_of_threads
def test_a_limit_counts_all_starts(threads: int) -> None:
    Order.create_many(["o-1", "o-2"])
    assert swept(Order, threads=threads, limit=3) == (3, False)


@each_number_of_threads
def test_time_that_is_over_while_something_was_made_due_is_reported(
    threads: int, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Order.reserve, "function", lambda _: clock.advance(25 * SECOND))
    Order.create("o-1")
    assert swept(Order, threads=threads, context=Context(clock)) == (1, True)
    clock.advance(20 * SECOND)
    assert swept(Order, threads=threads, context=Context(clock)) == (2, False)


@pytest.mark.parametrize("which", [{}, {"since": timedelta(days=1)}, {"error_contains": "late"}])
def test_a_call_that_selects_tasks_runs_no_others(which: dict[str, Any], clock: StoppedClock) -> None:
    Order.create("o-1")
    fail(Order.reserve, "o-1", KeyError("late"))
    clock.advance(timedelta(hours=1))
    assert swept(Order.ship, Order.pay, Order.reserve, **which) == (1 if which else 3, False)


def test_what_repeats_or_creates_others_all_the_time_runs_once(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(ctx: ExecutionContext[Part]) -> None:
        clock.advance(5 * SECOND)
        if ctx.task.repeat is None:
            Part.create(f"{ctx.task.task_id}-next", group="g")

    Part.create("p", group="g")
    Part.create("again", repeat=Repeat.every(SECOND, missed="all"))
    monkeypatch.setattr(Part.check, "function", work)
    assert sorted(Part.check.run_all(threads=2).succeeded) == ["again", "p"]


def test_a_run_that_is_interrupted_ends_the_call_while_it_waits_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    other = threading.Event()

    def work(ctx: ExecutionContext[Order]) -> None:
        if ctx.task.task_id == "o-1":
            other.wait(30)
            raise KeyboardInterrupt
        other.set()

    for number in range(3):
        Order.create(f"o-{number}", group=None if number == 1 else "g")
    monkeypatch.setattr(Order.reserve, "function", work)
    with pytest.raises(KeyboardInterrupt):
        swept(Order, threads=4)
    assert Order.get_task("o-1").state == Order.reserve.pending
