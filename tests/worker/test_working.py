"""What a worker does with what is due."""

import asyncio
import re
import threading
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import AsyncContext, ExecutionContext, GiveUp, Repeat, RetryLater, Tally, Worker
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.testing.tables import OneAtATime
from tests.support.workers import Broken, die, raising
from tests.worker.shop import Order, Parcel

pytestmark = pytest.mark.usefixtures("shop")

MINUTE = timedelta(minutes=1)


def nothing(_ctx: ExecutionContext[Any]) -> None:
    pass


def test_a_task_goes_through_all_steps_of_a_worker() -> None:
    Order.create_many(["o-1", "o-2"])
    tallies = Worker({Order.ship: nothing, Order.confirm: nothing}).run(until_idle=True)
    assert tallies == {Order.ship: Tally(succeeded=2), Order.confirm: Tally(succeeded=2)}
    assert Order.ship.succeeded.count() == 2


@pytest.mark.parametrize(("is_in_memory", "seconds"), [(True, 0), (False, 1)])
def test_it_waits_before_it_looks_again_only_where_the_index_may_be_behind(
    shop: StoppedClock,
    monkeypatch: pytest.MonkeyPatch,
    is_in_memory: bool,  # noqa: FBT001 - a column of a table
    seconds: int,
) -> None:
    monkeypatch.setattr(OneAtATime, "is_in_memory", is_in_memory)
    Order.create("o-1")
    began = shop.now()
    Worker({Order.confirm: nothing}).run(until_idle=True)
    assert shop.now() - began == timedelta(seconds=seconds)


def test_steps_take_turns_however_much_one_has_to_do() -> None:
    ran: list[str] = []

    def note(ctx: ExecutionContext[Any]) -> None:
        ran.append(ctx.task.task_id)

    Order.create_many(f"o-{number:02}" for number in range(20))
    Parcel.create_many(["p-1", "p-2", "p-3"])
    Worker({Order.confirm: note, Parcel.sort: note}).run(until_idle=True)
    assert len(ran) == 23
    assert [ran.index(f"p-{number}") for number in (1, 2, 3)] <= [6, 6, 6]
    assert sorted(ran[:6])[3:] == ["p-1", "p-2", "p-3"]


def test_errors_of_the_function_are_recorded_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    def work(ctx: ExecutionContext[Order]) -> None:
        match ctx.task.task_id:
            case "breaks":
                raise Broken("it broke")
            case "gives up":
                raise GiveUp("no use")
            case "later":
                raise RetryLater(MINUTE)
            case _:
                pass

    Order.create_many(["breaks", "gives up", "later", "succeeds"])
    assert Worker({Order.confirm: work}).run(until_idle=True) == {
        Order.confirm: Tally(succeeded=1, failed=3, ignored=2)  # what breaks is due again at once
    }
    assert Order.get_task("breaks").last_error == "Broken: it broke"
    record, *_ = (record for record in caplog.records if "it broke" in record.getMessage())
    assert record.getMessage() == "Order.confirm of 'breaks' (attempt 1) failed: Broken: it broke"
    assert (vars(record)["task_id"], vars(record)["step"], vars(record)["attempt"]) == ("breaks", "confirm", 1)


@pytest.mark.parametrize(("error", "reason"), [(None, "this run has lost its lock"), (Broken("secret"), "Broken")])
def test_an_end_that_cannot_be_recorded_is_logged_without_the_message_of_the_function(
    shop: StoppedClock, caplog: pytest.LogCaptureFixture, error: Exception | None, reason: str
) -> None:
    def work(ctx: ExecutionContext[Order]) -> None:
        shop.advance(6 * MINUTE)
        die(Order.confirm, ctx.task.task_id)
        worker.stop()
        if error is not None:
            raise error

    Order.create("o-1")
    worker = Worker({Order.confirm: work})
    assert worker.run() == {Order.confirm: Tally(refused=1)}
    [message] = [record.getMessage() for record in caplog.records if "could not be recorded" in record.getMessage()]
    assert re.match(rf"the end of Order.confirm of 'o-1' \(attempt 1\) could not be recorded: .*{reason}", message)
    assert "secret" not in message


def test_a_failed_task_is_tried_again_after_its_delay_by_the_same_worker(shop: StoppedClock) -> None:
    attempts: list[int] = []

    def flaky(ctx: ExecutionContext[Order]) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            shop.advance(timedelta(seconds=1))
            raise Broken
        worker.stop()

    worker = Worker({Order.ship: flaky})
    Order.create("o-1", state=Order.ship.pending)
    run = threading.Thread(target=worker.run)
    run.start()
    while run.is_alive():
        shop.advance(timedelta(seconds=5))
        run.join(0.02)
    assert attempts == [1, 2]
    assert Order.get_task("o-1").state == Order.ship.succeeded


def test_a_heartbeat_keeps_the_locks_of_a_worker() -> None:
    beating: list[bool] = []

    def work(_: ExecutionContext[Order]) -> None:
        beating.append(any("heartbeat of" in thread.name for thread in threading.enumerate()))

    Order.create("o-1")
    Worker({Order.confirm: work}, heartbeat=True).run(until_idle=True)
    assert beating == [True]


def test_an_unreadable_row_ends_no_worker(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("odd")
    Order.create("o-1")
    start = type(Order.confirm).start

    def broken(step: Any, task_id: str, **options: Any) -> Any:
        run = start(step, task_id, **options)
        if task_id == "odd":
            run.statements = None  # type: ignore[attr-defined]  # whatever happens, it is no error of the library's own
        return run

    monkeypatch.setattr(type(Order.confirm), "start", broken)
    assert Worker({Order.confirm: nothing}).run(until_idle=True) == {Order.confirm: Tally(succeeded=1, refused=1)}
    assert "Order.confirm of 'odd' could not be started" in caplog.text


def test_async_functions_run_on_one_loop_beside_those_that_are_not_async() -> None:
    loops: list[object] = []

    async def confirm(ctx: AsyncContext[Order]) -> None:
        ctx.task.note = "confirmed"
        await ctx.save()
        loops.append(asyncio.get_running_loop())

    Order.create_many(["o-1", "o-2"])
    tallies = Worker({Order.confirm: confirm, Order.ship: nothing}, threads=2).run(until_idle=True)
    assert tallies == {Order.confirm: Tally(succeeded=2), Order.ship: Tally(succeeded=2)}
    assert len(loops) == 2
    assert loops[0] is loops[1]


def test_an_occurrence_that_has_no_attempt_left_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    Parcel.create("p-1", repeat=Repeat.every(timedelta(days=1)))
    tallies = Worker({Parcel.sort: raising(Broken("it broke"))}).run(until_idle=True)

    assert tallies == {Parcel.sort: Tally(failed=3)}
    assert str(tallies[Parcel.sort]).endswith("3 failed, 0 ignored, 0 refused, 0 released")
    last = f"Parcel.sort of 'p-1' (attempt {Parcel.sort.max_attempts}) gave up its occurrence"
    assert [last in record.getMessage() for record in caplog.records].count(True) == 1
