"""Heartbeats always end with their block: no thread is left, and a late beat has no effect."""

import gc
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from pynamodb_tracker import transitions
from pynamodb_tracker.execution import heartbeat
from tests.support.paced_clock import PATIENCE, PacedClock, beating_heart, heart, paced
from tests.support.recorder import recorded
from tests.support.rows import stored
from tests.support.shop import Order
from tests.support.workers import Broken, die, entered, succeed

pytestmark = pytest.mark.usefixtures("table", "task")

LOCK = timedelta(minutes=5)
THIRD = LOCK / 3
OVER = LOCK + timedelta(seconds=3)

ENDS = [None, Broken(), KeyboardInterrupt(), SystemExit(3)]

each_end = pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)


@pytest.fixture
def clock() -> Iterator[PacedClock]:
    with paced() as clock:
        yield clock


def end_block(end: BaseException | None) -> None:
    if end is not None:
        raise end


@each_end
def test_the_heartbeat_ends_before_the_end_of_the_block_is_recorded(end: BaseException | None) -> None:
    with recorded() as requests:
        if end is None:
            Order.confirm_payment.run("o-1", lambda _: None, heartbeat=True)
        else:
            with pytest.raises(type(end)):
                Order.confirm_payment.run("o-1", lambda _: end_block(end), heartbeat=True)
    assert heart() is None
    assert [request for request in requests if request.written == {"lock_expire_time"}] == []


@pytest.mark.parametrize("taken", [False, True])
@each_end
def test_a_beat_that_arrives_after_the_end_changes_nothing_and_is_no_loss(
    clock: PacedClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    end: BaseException | None,
    taken: bool,
) -> None:
    extend, begun, arrives = transitions.extend, threading.Event(), threading.Event()

    def late(*given: Any) -> None:
        begun.set()
        assert arrives.wait(PATIENCE)
        extend(*given)

    monkeypatch.setattr(transitions, "extend", late)
    monkeypatch.setattr(heartbeat, "MOMENT", 0.01)
    run = Order.confirm_payment.start("o-1", heartbeat=True)
    ctx = run.__enter__()
    beating = beating_heart()
    clock.advance(THIRD)
    assert begun.wait(PATIENCE)
    run.__exit__(type(end) if end else None, end, None)
    if taken:
        die(Order.confirm_payment if end else Order.ship, "o-1")
    before = stored(Order, "o-1")
    with recorded() as requests:
        arrives.set()
        beating.join(PATIENCE)
    assert (requests.operations, stored(Order, "o-1")) == (["UpdateItem", "GetItem"], before)
    assert not ctx.lock_lost
    assert caplog.records == []


def test_after_a_success_in_a_transaction_no_beat_is_sent(clock: PacedClock, caplog: pytest.LogCaptureFixture) -> None:
    with recorded() as requests, Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        clock.pause()
        with ctx.transaction():
            pass
        clock.beat(THIRD)
        with ctx.transaction(succeed=True):
            pass
        beating = beating_heart()
        clock.advance(THIRD)
        beating.join(PATIENCE)
        assert not beating.is_alive()
    assert requests.operations == ["UpdateItem", "TransactWriteItems", "UpdateItem", "TransactWriteItems"]
    assert caplog.records == []


@pytest.mark.parametrize("taken", [False, True], ids=["alone", "next step is claimed"])
def test_a_beat_that_meets_the_success_of_a_transaction_is_no_loss(
    clock: PacedClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, taken: bool
) -> None:
    connection = Order.tracker.connection().connection
    dispatch = connection.dispatch

    def meeting(operation: str, request: Any) -> Any:
        answer = dispatch(operation, request)
        if operation == "TransactWriteItems":
            beating = beating_heart()
            if taken:
                die(Order.ship, "o-1")
            clock.advance(THIRD)
            beating.join(PATIENCE)
        return answer

    monkeypatch.setattr(connection, "dispatch", meeting)
    with Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        clock.pause()
        with ctx.transaction(succeed=True):
            pass
    assert (Order.get_task("o-1").fence, caplog.records) == (1 + taken, [])


def test_ctrl_c_while_the_end_waits_for_a_beat_propagates_after_the_success_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupts = [KeyboardInterrupt()]

    def join(_: object) -> None:
        if interrupts:
            raise interrupts.pop()

    monkeypatch.setattr(heartbeat.Heartbeat, "join", join)
    with pytest.raises(KeyboardInterrupt), Order.confirm_payment.start("o-1", heartbeat=True):
        pass
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_block_that_ends_in_the_thread_of_its_heartbeat_is_recorded(
    clock: PacedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = entered(Order.confirm_payment, "o-1", heartbeat=True)
    beating = beating_heart()
    monkeypatch.setattr(transitions, "extend", lambda *_: run.__exit__(None, None, None))
    clock.advance(THIRD)
    beating.join(PATIENCE)
    assert Order.get_task("o-1").state == Order.ship.pending


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # Python itself says nothing
def test_a_heartbeat_that_another_thread_ends_is_logged(
    clock: PacedClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def extend(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(transitions, "extend", extend)
    with Order.confirm_payment.start("o-1", heartbeat=True):
        beating = beating_heart()
        clock.advance(THIRD)
        beating.join(PATIENCE)
    assert "the heartbeat of confirm_payment of Order 'o-1' (attempt 1) has ended" in caplog.text


def test_a_run_that_is_dropped_inside_of_its_block_is_not_kept_alive(clock: PacedClock) -> None:
    run = entered(Order.confirm_payment, "o-1", heartbeat=True)
    beating = beating_heart()
    del run
    gc.collect()
    beating.join(PATIENCE)
    assert not beating.is_alive()
    clock.advance(OVER)
    succeed(Order.confirm_payment, "o-1")
    assert Order.get_task("o-1").fence == 2


def test_a_start_without_a_free_thread_releases_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", exhausted)
    with pytest.raises(RuntimeError, match="new thread"), Order.confirm_payment.start("o-1", heartbeat=True):
        pytest.fail("its lock would end")
    task = Order.get_task("o-1")
    assert (task.state, task.attempt) == (Order.confirm_payment.pending, 0)


def test_ctrl_c_while_the_heartbeat_starts_leaves_no_thread_and_releases_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, started = threading.Thread.start, []

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        run = Order.confirm_payment.start("o-1", heartbeat=True)  # kept: dropped, it would end the heartbeat
        with pytest.raises(KeyboardInterrupt), run:
            pytest.fail("Ctrl-C was pressed")
    started[0].join(PATIENCE)
    assert not started[0].is_alive()
    task = Order.get_task("o-1")
    assert (task.state, task.attempt) == (Order.confirm_payment.pending, 0)


def test_nothing_that_fails_after_the_end_is_logged(
    clock: PacedClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, fails = threading.Event(), threading.Event()

    def late(*_: Any) -> None:
        begun.set()
        assert fails.wait(PATIENCE)
        raise EndpointConnectionError(endpoint_url="https://nowhere")

    monkeypatch.setattr(transitions, "extend", late)
    monkeypatch.setattr(heartbeat, "MOMENT", 0.01)
    with Order.confirm_payment.start("o-1", heartbeat=True):
        beating = beating_heart()
        clock.advance(THIRD)
        assert begun.wait(PATIENCE)
    fails.set()
    beating.join(PATIENCE)
    assert not beating.is_alive()
    assert caplog.records == []
