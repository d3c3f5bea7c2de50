"""The times of a row: one reading of the clock per transition, and never a due time before the update time."""

from datetime import UTC, datetime, timedelta

import pytest

from pynamodb_tracker import RetryLater
from pynamodb_tracker.clock import StoppedClock
from tests.support.rows import stored
from tests.support.shop import Order, Receipt
from tests.support.workers import die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

MINUTE = timedelta(minutes=1)


def times(task_id: str = "o-1") -> tuple[datetime, datetime]:
    task = Order.get_task(task_id)
    return task.update_time, task.due_time


def test_a_new_task_is_created_updated_and_due_now(clock: StoppedClock) -> None:
    task = Order.create("o-1")
    assert task.create_time == task.update_time == task.due_time == clock.now()


def test_a_claim_is_due_when_its_lock_ends(clock: StoppedClock) -> None:
    Order.create("o-1")
    clock.advance(MINUTE)
    with Order.confirm_payment.start("o-1") as ctx:
        assert times() == (clock.now(), clock.now() + timedelta(minutes=5))
        assert ctx.lock_expire_time == ctx.task.due_time


def test_a_success_is_updated_and_due_when_it_ended(clock: StoppedClock) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1"):
        clock.advance(MINUTE)
    assert times() == (clock.now(), clock.now())


def test_a_failure_is_updated_when_it_ended_and_due_after_the_delay(clock: StoppedClock) -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", RetryLater(timedelta(hours=1)))
    assert times() == (clock.now(), clock.now() + timedelta(hours=1))


def test_an_ignored_task_is_due_when_it_got_there(clock: StoppedClock) -> None:
    Order.create("o-1", due_time=clock.now() + timedelta(days=9))
    clock.advance(MINUTE)
    Order.confirm_payment.ignore("o-1", reason="cancelled")
    assert times() == (clock.now(), clock.now())


def test_a_last_failure_is_due_when_it_got_there(clock: StoppedClock) -> None:
    Receipt.create("r-1")
    fail(Receipt.send, "r-1", RetryLater(timedelta(hours=1)))
    assert Receipt.get_task("r-1").due_time == clock.now()


def test_a_reopened_task_is_due_at_once(clock: StoppedClock) -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", RetryLater(timedelta(days=1)))
    clock.advance(MINUTE)
    Order.confirm_payment.reopen("o-1")
    assert times() == (clock.now(), clock.now())


def test_the_create_time_never_changes(clock: StoppedClock) -> None:
    created = Order.create("o-1").create_time
    clock.advance(MINUTE)
    fail(Order.confirm_payment, "o-1")
    clock.advance(MINUTE)
    succeed(Order.confirm_payment, "o-1")
    Order.ship.ignore("o-1", reason="wait")
    Order.ship.reopen("o-1")
    assert Order.get_task("o-1").create_time == created


def test_save_and_extend_lock_leave_update_time_and_due_time_alone(clock: StoppedClock) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1") as ctx:
        before = times()
        clock.advance(MINUTE)
        ctx.task.amount = 1
        ctx.save()
        ctx.extend_lock(timedelta(hours=1))
        assert times() == before


def test_an_update_of_own_attributes_leaves_update_time_alone(clock: StoppedClock) -> None:
    task = Order.create("o-1")
    before = times()
    clock.advance(MINUTE)
    task.update([Order.amount.set(1)])
    assert times() == before


def test_times_are_read_back_in_utc_to_the_microsecond(clock: StoppedClock) -> None:
    clock.advance(timedelta(microseconds=-clock.now().microsecond + 7))
    Order.create("o-1")
    task = Order.get_task("o-1")
    assert (task.update_time, task.update_time.tzinfo) == (clock.now(), UTC)


def test_stored_times_sort_as_text(clock: StoppedClock) -> None:
    clock.advance(timedelta(microseconds=-clock.now().microsecond))
    written = []
    for step in (timedelta(0), timedelta(microseconds=1), timedelta(seconds=1), timedelta(days=3000)):
        clock.advance(step)
        Order.create(f"o-{step}")
        written.append(stored(Order, f"o-{step}")["due_time"]["S"])
    assert (written, len({len(text) for text in written})) == (sorted(written), 1)


def test_update_time_is_never_later_than_due_time_even_where_a_clock_goes_back(clock: StoppedClock) -> None:
    Order.create("o-1")
    seen = []
    for transition in (
        lambda: die(Order.confirm_payment, "o-1"),
        lambda: clock.advance(timedelta(minutes=6)),
        lambda: fail(Order.confirm_payment, "o-1"),
        lambda: clock.advance(timedelta(seconds=-1)),
        lambda: fail(Order.confirm_payment, "o-1", KeyboardInterrupt()),
        lambda: succeed(Order.confirm_payment, "o-1"),
        lambda: Order.ship.ignore("o-1", reason="wait"),
        lambda: Order.ship.reopen("o-1"),
    ):
        transition()
        seen.append(times())
    assert all(update_time <= due_time for update_time, due_time in seen)
