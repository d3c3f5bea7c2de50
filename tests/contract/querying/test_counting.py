"""Counting tasks: of one state, of every state, and of codes that no step declares any more."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.clock import StoppedClock
from tests.support.recorder import recorded
from tests.support.rows import change
from tests.support.shop import Ord, Order, Parcel
from tests.support.workers import die, fail

pytestmark = pytest.mark.usefixtures("table")

STEPS = (Order.confirm_payment, Order.ship, Order.deliver)
STATES = [state for step in STEPS for state in (step.pending, step.in_progress, step.failed, step.ignored)]
STATES += [Order.deliver.succeeded, Order.cancelled]


def test_count_counts_the_tasks_in_a_state() -> None:
    Parcel.create_many(f"p-{number}" for number in range(7))
    fail(Parcel.sort, "p-3")
    assert (Parcel.sort.pending.count(), Parcel.sort.failed.count(), Parcel.sort.succeeded.count()) == (6, 1, 0)


def test_count_takes_a_window(clock: StoppedClock) -> None:
    begin = clock.now()
    for number in range(6):
        Parcel.create(f"p-{number}", due_time=clock.now() + timedelta(days=number))
        clock.advance(timedelta(minutes=1))
    window: dict[str, Any] = {"since": begin + timedelta(minutes=2), "until": begin + timedelta(minutes=5)}
    assert Parcel.sort.pending.count(**window) == 3


def test_count_reads_no_rows() -> None:
    Order.create("o-1")
    with recorded() as requests:
        Order.confirm_payment.pending.count()
    assert (requests.operations, requests[0].body["Select"]) == (["Query"], "COUNT")


def test_a_count_ends_at_most_and_reads_no_further() -> None:
    Order.create_many(f"o-{number}" for number in range(20))
    with recorded() as requests:
        assert Order.confirm_payment.pending.count(up_to=12) == 12
    assert (requests.operations, requests.entries_read) == (["Query"], 12)
    assert [Order.confirm_payment.pending.count(up_to=most) for most in (1, 20, 10**12)] == [1, 20, 20]


def test_a_count_that_ends_asks_each_shard_for_its_share() -> None:
    Parcel.create_many(f"p-{number}" for number in range(70))
    with recorded() as requests:
        assert Parcel.sort.pending.count(up_to=55) == 55
    assert requests.entries_read == 55


def test_a_count_that_ends_reads_on_where_the_window_drops_what_it_has_read(clock: StoppedClock) -> None:
    begin = clock.now()
    Order.create_many({"task_id": f"old-{number}", "due_time": timedelta(days=1)} for number in range(3))
    clock.advance(timedelta(minutes=1))
    Order.create_many(f"new-{number}" for number in range(30))
    with recorded() as requests:
        assert Order.confirm_payment.pending.count(until=begin + timedelta(minutes=1), up_to=2) == 2
    assert len(requests) == 3  # of 10, 10 and 20 entries


def test_counts_has_every_state_of_the_use_case_in_order() -> None:
    assert list(Order.counts().items()) == [(state, 0) for state in STATES]


def test_counts_counts_every_state() -> None:
    for number, state in enumerate(STATES):
        for copy in range(number % 3):
            if "in_progress" not in str(state):
                Order.create(f"{state} {copy}", state=state)
    Order.create("running")
    die(Order.confirm_payment, "running")
    expected = {state: number % 3 if "in_progress" not in str(state) else 0 for number, state in enumerate(STATES)}
    assert Order.counts() == {**expected, Order.confirm_payment.in_progress: 1}


def test_counts_of_a_small_index_is_one_request() -> None:
    Parcel.create_many(f"p-{number}" for number in range(12))
    with recorded() as requests:
        Parcel.counts()
    assert [(request.operation, "Segment" in request.body) for request in requests] == [("Scan", False)]


def test_counts_of_an_index_of_more_than_1_mb_counts_each_task_once_in_segments() -> None:
    Parcel.create_many(f"p-{number}" for number in range(12))
    fail(Parcel.sort, "p-3")
    for number in range(9):
        change(Parcel, f"p-{number}", last_error={"S": "x" * 200_000})
    Order.create("o-1")
    with recorded() as requests:
        found = {str(state): number for state, number in Parcel.counts().items() if number}
    assert found == {"sort pending": 11, "sort failed": 1}
    segments = Counter(request.body.get("Segment") for request in requests)
    assert (set(segments), segments[None]) == ({None, *range(16)}, 1)


def test_counts_leaves_out_keys_that_have_no_code() -> None:
    Order.create("o-1")
    change(Order, "o-1", status_key={"S": "order#pending#0"})
    assert sum(Order.counts().values()) == 0


def test_counts_leaves_out_use_cases_whose_names_begin_alike() -> None:
    Ord.create("x")
    Order.create("x")
    Order.create("y")
    assert (sum(Ord.counts().values()), sum(Order.counts().values())) == (1, 2)


def test_codes_of_steps_that_are_no_longer_declared_are_counted_and_can_be_queried() -> None:
    Order.create("o-1")
    change(Order, "o-1", status={"N": "42"}, status_key={"S": "order#42#0"})
    ((unknown, count),) = [(state, count) for state, count in Order.counts().items() if count]
    assert (unknown.code, str(unknown), count) == (42, "unknown 42", 1)
    assert [task.task_id for task in unknown.query()] == ["o-1"]
