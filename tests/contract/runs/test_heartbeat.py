"""Heartbeats: when they extend the lock, what they write, and what follows if one fails."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from pynamodb_tracker import LockLostError, TaskLockedError
from pynamodb_tracker.transitions import StepStatements
from tests.support.network import unreached
from tests.support.paced_clock import PATIENCE, PacedClock, beating_heart, heart, paced
from tests.support.recorder import recorded
from tests.support.rows import client, index_entries, stored
from tests.support.shop import AppTask, Order, created
from tests.support.workers import die, fail

pytestmark = pytest.mark.usefixtures("table", "task")

LOCK = timedelta(minutes=5)
THIRD = LOCK / 3
MARGIN = timedelta(seconds=2)
MOMENT = timedelta(microseconds=1)

NO_NETWORK = EndpointConnectionError(endpoint_url="https://nowhere")


@pytest.fixture
def clock() -> Iterator[PacedClock]:
    with paced() as clock:
        yield clock


@contextmanager
def failing(error: Exception) -> Iterator[None]:

    def refuse(**_: Any) -> None:
        raise error

    events = client(AppTask).meta.events
    events.register("before-call.dynamodb", refuse)
    try:
        yield
    finally:
        events.unregister("before-call.dynamodb", refuse)


def test_a_heartbeat_extends_the_lock_after_a_third_of_its_time(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        assert (clock.pause(), clock.beat(THIRD)) == (THIRD.total_seconds(), THIRD.total_seconds())
        assert ctx.lock_expire_time == clock.now() + LOCK == Order.get_task("o-1").lock_expire_time


def test_a_third_is_one_of_the_time_that_this_run_was_started_with(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1", lock_for=timedelta(hours=1), heartbeat=True) as ctx:
        assert clock.pause() == timedelta(minutes=20).total_seconds()
        clock.beat(timedelta(minutes=20))
        assert ctx.lock_expire_time == clock.now() + timedelta(hours=1)


@created(amount=1)
def test_a_beat_is_one_request_and_writes_the_end_of_the_lock_alone(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1", heartbeat=True) as ctx, recorded() as requests:
        ctx.task.amount = 2
        before = index_entries(AppTask), stored(Order, "o-1")
        clock.pause()
        requests.clear()
        clock.beat(THIRD)
        assert (requests.operations, requests[0].written) == (["UpdateItem"], {"lock_expire_time"})
        after = stored(Order, "o-1")
        assert (index_entries(AppTask), {**after, "lock_expire_time": before[1]["lock_expire_time"]}) == before


def test_a_block_may_outlive_its_lock_many_times(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        clock.pause()
        for _ in range(12):
            clock.beat(THIRD)
            with pytest.raises(TaskLockedError), Order.confirm_payment.start("o-1"):
                pytest.fail("it is locked")
        ctx.task.amount = 7
    task = Order.get_task("o-1")
    assert (task.state, task.amount, task.fence) == (Order.ship.pending, 7, 1)


def test_without_heartbeat_there_is_no_thread_and_the_lock_ends(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        assert heart() is None
        clock.advance(THIRD)
        assert ctx.lock_expire_time == clock.now() + LOCK - THIRD


def test_run_takes_a_heartbeat(clock: PacedClock) -> None:
    assert Order.confirm_payment.run("o-1", lambda _: clock.pause(), heartbeat=True) == THIRD.total_seconds()


def test_run_all_takes_a_heartbeat_for_each_task(clock: PacedClock) -> None:
    pauses = []
    Order.create("o-2")
    report = Order.confirm_payment.run_all(lambda _: pauses.append(clock.pause()), heartbeat=True)
    assert (len(report.succeeded), pauses) == (2, [THIRD.total_seconds()] * 2)


def test_a_longer_extension_by_the_block_saves_beats(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        clock.pause()
        ctx.extend_lock(timedelta(hours=1))
        with recorded() as requests:
            left = timedelta(hours=1) - LOCK * 2 / 3 - THIRD
            assert (clock.beat(THIRD), requests) == (left.total_seconds(), [])
            clock.beat(left)
            assert requests.operations == ["UpdateItem"]
        assert ctx.lock_expire_time == clock.now() + LOCK


def test_an_extension_that_is_answered_late_does_not_shorten_the_lock(
    clock: PacedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, overtaken = StepStatements.send, threading.Event()

    def overtake(*given: Any, **values: Any) -> Any:
        answer = send(*given, **values)
        if not overtaken.is_set():
            overtaken.set()
            ctx.extend_lock(timedelta(hours=1))
        return answer

    with Order.confirm_payment.start("o-1") as ctx, monkeypatch.context() as patch:
        patch.setattr(StepStatements, "send", overtake)
        ctx.extend_lock(timedelta(minutes=6))
        assert overtaken.is_set()
        assert ctx.lock_expire_time == ctx.task.lock_expire_time == clock.now() + timedelta(hours=1)


@pytest.mark.parametrize("error", [NO_NETWORK, ArithmeticError("a bug")], ids=lambda error: type(error).__name__)
def test_a_beat_that_fails_is_tried_again_soon_and_logged(
    clock: PacedClock, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    with Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        clock.pause()
        with failing(error):
            assert 0 <= clock.beat(THIRD) <= 5
        assert clock.beat(timedelta(seconds=5)) == THIRD.total_seconds()
        assert ctx.lock_expire_time == clock.now() + LOCK
    [record] = caplog.records
    assert (record.name, record.levelno) == ("pynamodb_tracker", logging.WARNING)
    assert vars(record).items() >= {"task_id": "o-1", "step": "confirm_payment", "attempt": 1}.items()
    assert str(error) in record.getMessage()


def test_pauses_between_failed_beats_differ_and_are_shorter_for_a_short_lock(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1", lock_for=timedelta(seconds=6), heartbeat=True):
        clock.pause()
        with failing(NO_NETWORK):
            clock.advance(timedelta(seconds=2))
            pauses = [clock.pause()] + [clock.beat(timedelta(seconds=1)) for _ in range(9)]
    assert max(pauses) <= 1
    assert len(set(pauses)) == 10


def test_a_heartbeat_continues_after_the_lock_expired_unless_another_worker_took_the_task(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        clock.pause()
        with failing(NO_NETWORK):
            clock.beat(LOCK)
            assert ctx.lock_lost
        clock.beat(timedelta(seconds=5))
        assert (ctx.lock_lost, ctx.lock_expire_time) == (False, clock.now() + LOCK)


def test_a_loss_is_logged_once_and_ends_the_heartbeat(clock: PacedClock, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LockLostError), Order.confirm_payment.start("o-1", heartbeat=True):
        beating = beating_heart()
        with clock.frozen():
            clock.advance(LOCK + MARGIN + MOMENT)
            die(Order.confirm_payment, "o-1")
        beating.join(PATIENCE)
        assert not beating.is_alive()
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.name == "pynamodb_tracker"
    assert vars(record).items() >= {"task_id": "o-1", "step": "confirm_payment", "attempt": 1}.items()
    assert "this run has lost its lock" in record.getMessage()


def test_a_heartbeat_sends_nothing_once_the_block_has_found_out_about_the_loss(clock: PacedClock) -> None:
    with pytest.raises(LockLostError), Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        beating = beating_heart()
        with clock.frozen():
            clock.advance(LOCK + MARGIN + MOMENT)
            fail(Order.confirm_payment, "o-1")
            with pytest.raises(LockLostError):
                ctx.extend_lock()
        with unreached():
            beating.join(PATIENCE)
