"""Workers, batches and sweeps go by their own clock and start no task early; only a start by id may be early."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from pynamodb_tracker import AsyncContext, AsyncWorker, ExecutionContext, Worker
from pynamodb_tracker.aws_lambda import retry_handler
from pynamodb_tracker.cli.commands.run import Selection
from pynamodb_tracker.clock import StoppedClock, now
from tests.support.network import Network, before
from tests.support.shop import Order
from tests.support.workers import fail

pytestmark = pytest.mark.usefixtures("table")

SECOND = timedelta(seconds=1)
MOMENT = timedelta(microseconds=1)


Started = dict[str, datetime]


def handing_out(how: str) -> Started:
    """Run all tasks that are due at the step ship, and return when each of them started."""
    started: Started = {}

    def note(ctx: ExecutionContext[Any]) -> None:
        started[ctx.task.task_id] = now()

    async def note_async(ctx: AsyncContext[Any]) -> None:
        started[ctx.task.task_id] = now()

    run: dict[str, Callable[[], object]] = {
        "run_all": lambda: Order.ship.run_all(note),
        "run_all on threads": lambda: Order.ship.run_all(note, threads=4),
        "arun_all": lambda: asyncio.run(Order.ship.arun_all(note_async)),
        "Worker": lambda: Worker({Order.ship: note}).run(until_idle=True),
        "AsyncWorker": lambda: asyncio.run(AsyncWorker({Order.ship: note_async}).run(until_idle=True)),
        "sweep": lambda: retry_handler(Order.ship, note)({}, None),
    }
    run[how]()
    return started


each_way = pytest.mark.parametrize(
    "how", ["run_all", "run_all on threads", "arun_all", "Worker", "AsyncWorker", "sweep"]
)


@each_way
def test_a_task_that_is_due_a_moment_later_stays_beside_one_that_is_due(clock: StoppedClock, how: str) -> None:
    due = clock.now() + MOMENT
    Order.create("now", state=Order.ship.pending)
    Order.create("soon", state=Order.ship.pending, due_time=due)
    started = handing_out(how)
    assert "now" in started
    assert started.get("soon", due) >= due


@each_way
def test_a_task_that_was_put_off_since_it_was_found_is_refused_until_it_is_due(
    clock: StoppedClock, network: Network, how: str
) -> None:
    """The index, or a scan that began before, still shows it as due."""
    Order.create("o-1", state=Order.ship.pending)
    due = clock.now() + timedelta(minutes=1)

    def fail_and_come_close() -> None:
        fail(Order.ship, "o-1")  # its retry_delay is a minute
        clock.advance(timedelta(minutes=1) - SECOND)

    before(network, "UpdateItem", fail_and_come_close)
    assert handing_out(how).get("o-1", due) >= due
    assert Order.get_task("o-1").fence > 0


@pytest.mark.parametrize("waiting", ["pending", "failed"])
def test_what_is_listed_as_due_is_due_by_this_clock(clock: StoppedClock, waiting: str) -> None:
    Order.create("o-1", state=getattr(Order.ship, waiting), due_time=clock.now() + SECOND)
    selection = Selection(Order.ship)

    def listed() -> list[list[str]]:
        return [[task.task_id for task in Order.ship.due()], list(Order.ship.due_ids()), selection.due()]

    clock.advance(SECOND - MOMENT)
    assert listed() == [[], [], []]
    clock.advance(MOMENT)
    assert listed() == [["o-1"]] * 3


def test_a_sweep_to_a_queue_leaves_out_what_is_not_due_yet(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Order.create("now", state=Order.ship.pending)
    Order.create("soon", state=Order.ship.pending, due_time=clock.now() + SECOND)
    sent: list[Any] = []
    monkeypatch.setattr(
        "pynamodb_tracker.aws_lambda.queue.Queue.send", lambda _queue, batch, **_: sent.extend(batch) or []
    )
    retry_handler(Order.ship, queue_url="https://sqs.us-east-1.amazonaws.com/1/q")({}, None)
    assert "now" in str(sent)
    assert "soon" not in str(sent)


def test_a_request_for_now_moves_a_task_that_is_due_within_the_margin(clock: StoppedClock) -> None:
    """A worker would not start it before its due time."""
    Order.create("o-1", due_time=clock.now() + SECOND)
    Order.create_or_merge("o-1")
    assert (Order.get_task("o-1").due_time, list(Order.confirm_payment.due_ids())) == (clock.now(), ["o-1"])
