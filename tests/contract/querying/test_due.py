"""What a step has to do now: pending and failed tasks that are due, and those whose worker died."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import RetryLater
from pynamodb_tracker.clock import StoppedClock
from tests.support.network import Network, before, unreached
from tests.support.recorder import recorded
from tests.support.shop import Order, Parcel
from tests.support.workers import die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

MINUTE = timedelta(minutes=1)


def due(**arguments: Any) -> list[str]:
    return [task.task_id for task in Order.confirm_payment.due(**arguments)]


def test_a_task_that_is_not_due_is_not(clock: StoppedClock) -> None:
    Order.create("pending", due_time=clock.now() + MINUTE)
    Order.create("failed")
    fail(Order.confirm_payment, "failed", RetryLater(MINUTE))
    assert due() == []
    clock.advance(MINUTE)
    assert sorted(due()) == ["failed", "pending"]


def test_an_abandoned_task_is_to_do_once_it_can_be_taken_over(clock: StoppedClock) -> None:
    Order.create("o-1")
    die(Order.confirm_payment, "o-1")
    clock.advance(timedelta(minutes=5, seconds=2))
    assert due() == []
    clock.advance(timedelta(microseconds=1))
    assert due() == ["o-1"]


def test_a_task_whose_lock_was_extended_is_not_to_do(clock: StoppedClock) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.extend_lock(timedelta(hours=1))
        clock.advance(timedelta(minutes=30))
        assert due() == []


def test_finished_and_ignored_tasks_and_those_at_other_steps_are_not_to_do() -> None:
    Order.create("done")
    succeed(Order.confirm_payment, "done")
    Order.create("ignored", state=Order.confirm_payment.ignored)
    Order.create("later", state=Order.deliver.failed)
    assert (due(), [task.task_id for task in Order.ship.due()]) == ([], ["done"])


def test_the_oldest_task_is_first_in_any_state(clock: StoppedClock) -> None:
    Order.create("abandoned")
    die(Order.confirm_payment, "abandoned")  # due when its lock ends
    clock.advance(timedelta(minutes=4))
    Order.create("failed")
    fail(Order.confirm_payment, "failed")
    clock.advance(timedelta(minutes=3))
    Order.create("pending")
    assert due() == ["failed", "abandoned", "pending"]


def test_due_takes_the_first_ones_up_to_a_limit(clock: StoppedClock) -> None:
    for number in range(6):
        Order.create(f"o-{number}")
        if number % 2:
            fail(Order.confirm_payment, f"o-{number}")
        clock.advance(MINUTE)
    for limit in (1, 3, 6, 7):
        assert due(limit=limit) == [f"o-{number}" for number in range(min(limit, 6))]


def test_due_takes_a_window(clock: StoppedClock) -> None:
    begin = clock.now()
    for number in range(6):
        Order.create(f"o-{number}")
        clock.advance(MINUTE)
    assert due(since=begin + 2 * MINUTE, until=begin + 4 * MINUTE) == ["o-2", "o-3"]


def test_due_reads_all_shards_in_order(clock: StoppedClock) -> None:
    for number in range(12):
        Parcel.create(f"p-{number:02}")
        clock.advance(MINUTE)
    assert [task.task_id for task in Parcel.sort.due()] == [f"p-{number:02}" for number in range(12)]


def test_due_yields_whole_tasks() -> None:
    Order.create("o-1", data={"a": [1]})
    assert next(Order.confirm_payment.due()).data == {"a": [1]}


def test_due_ids_are_those_of_todo_and_read_entries_alone(clock: StoppedClock) -> None:
    for number in range(4):
        Order.create(f"o-{number}")
        clock.advance(MINUTE)
    with recorded() as requests:
        assert list(Order.confirm_payment.due_ids()) == due()
        assert list(Order.confirm_payment.due_ids(limit=3)) == ["o-0", "o-1", "o-2"]
        assert list(Order.confirm_payment.due_ids(since=clock.now() - 2 * MINUTE)) == ["o-2", "o-3"]
        del requests[:]
        list(Order.confirm_payment.due_ids(only=(Order.confirm_payment.pending,)))
    assert [request.operation for request in requests] == ["Query"]


def test_due_reads_nothing_before_it_is_iterated() -> None:
    with unreached():
        Order.confirm_payment.due()


def test_due_does_not_read_what_is_not_due(clock: StoppedClock) -> None:
    for number in range(12):
        Order.create(f"o-{number}", due_time=clock.now() + timedelta(hours=number))
    with recorded() as requests:
        assert due() == ["o-0"]
    assert requests.entries_read == 1


def test_due_since_a_time_after_now_is_empty(clock: StoppedClock) -> None:
    Order.create("o-1")
    assert due(since=clock.now() + timedelta(hours=1)) == []


def test_a_task_that_has_failed_again_since_the_index_was_read_waits_for_its_next_attempt(network: Network) -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1")
    before(network, "BatchGetItem", lambda: fail(Order.confirm_payment, "o-1", RetryLater(MINUTE)))
    assert due() == []
