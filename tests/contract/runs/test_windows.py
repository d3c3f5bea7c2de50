"""Windows of time in a query: exact, about when a task came into its state, and read without the rest."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import BoundStep, RetryLater
from pynamodb_tracker.clock import StoppedClock
from tests.contract.querying.test_querying import MINUTE, SHARDS, Case, Single, create_in_turn, ids
from tests.support.recorder import recorded
from tests.support.shop import Parcel
from tests.support.workers import fail, succeed

pytestmark = pytest.mark.usefixtures("table")


@pytest.mark.parametrize("case", SHARDS)
def test_a_window_begins_at_since_and_ends_before_until(case: Case, clock: StoppedClock) -> None:
    begin = clock.now()
    create_in_turn(case, clock, 6)
    pending = case.sort.pending
    assert ids(pending.query(since=begin + 2 * MINUTE)) == ["t-02", "t-03", "t-04", "t-05"]
    assert ids(pending.query(until=begin + 2 * MINUTE)) == ["t-00", "t-01"]
    assert ids(pending.query(since=begin + 2 * MINUTE, until=begin + 4 * MINUTE)) == ["t-02", "t-03"]


@pytest.mark.parametrize("moment", [timedelta(microseconds=-1), timedelta(0), timedelta(microseconds=1)])
def test_a_window_is_exact_to_the_microsecond(moment: timedelta, clock: StoppedClock) -> None:
    Single.create("t-1")
    bound = clock.now() + moment
    assert ids(Single.sort.pending.query(since=bound)) == (["t-1"] if moment <= timedelta(0) else [])
    assert ids(Single.sort.pending.query(until=bound)) == (["t-1"] if moment > timedelta(0) else [])


def test_a_window_is_about_when_a_task_came_into_the_state_not_about_when_it_is_due(clock: StoppedClock) -> None:
    begin = clock.now()
    Single.create("early", due_time=begin + timedelta(days=30))
    clock.advance(MINUTE)
    Single.create("late", due_time=begin + timedelta(days=1))
    assert ids(Single.sort.pending.query(since=begin + MINUTE)) == ["late"]
    assert ids(Single.sort.pending.query(until=begin + MINUTE)) == ["early"]


def test_failures_of_a_window_come_in_the_order_in_which_they_are_due(clock: StoppedClock) -> None:
    Single.create_many(["soon", "later", "old"])
    fail(Single.sort, "old", RetryLater(timedelta(days=3)))
    clock.advance(timedelta(days=1))
    fail(Single.sort, "later", RetryLater(timedelta(hours=9)))
    fail(Single.sort, "soon", RetryLater(timedelta(hours=1)))
    assert ids(Single.sort.failed.query(since=clock.now() - MINUTE)) == ["soon", "later"]
    assert ids(Single.sort.failed.query()) == ["soon", "later", "old"]


def test_a_window_of_another_zone_is_the_same_window(clock: StoppedClock) -> None:
    Single.create("t-1")
    local = clock.now().astimezone()
    assert ids(Single.sort.pending.query(since=local, until=local + MINUTE)) == ["t-1"]


@pytest.mark.parametrize("latest_due_first", [False, True])
@pytest.mark.parametrize("limit", [None, 2])
def test_a_window_can_be_limited_and_reversed(
    clock: StoppedClock, *, limit: int | None, latest_due_first: bool
) -> None:
    begin = clock.now()
    create_in_turn(Parcel, clock)
    expected = ["t-03", "t-04", "t-05", "t-06"][:: -1 if latest_due_first else 1][:limit]
    window: dict[str, Any] = {"since": begin + 3 * MINUTE, "until": begin + 7 * MINUTE}
    assert ids(Parcel.sort.pending.query(**window, limit=limit, latest_due_first=latest_due_first)) == expected


def finished_in_turn(clock: StoppedClock, step: BoundStep[Single], count: int = 12) -> None:
    for number in range(count):
        Single.create(f"t-{number:02}")
        succeed(step, f"t-{number:02}")
        clock.advance(MINUTE)


def test_a_query_since_reads_only_the_entries_since_then(clock: StoppedClock) -> None:
    create_in_turn(Single, clock)
    with recorded() as requests:
        assert len(list(Single.sort.pending.query(since=clock.now() - 3 * MINUTE))) == 3
    assert requests.entries_read == 3


def test_a_query_of_finished_tasks_reads_only_the_window(clock: StoppedClock) -> None:
    finished_in_turn(clock, Single.sort)
    window: dict[str, Any] = {"since": clock.now() - 6 * MINUTE, "until": clock.now() - 3 * MINUTE}
    with recorded() as requests:
        assert ids(Single.sort.succeeded.query(**window)) == ["t-06", "t-07", "t-08"]
    assert requests.entries_read <= 4


def test_the_count_of_a_window_of_finished_tasks_reads_only_the_window(clock: StoppedClock) -> None:
    finished_in_turn(clock, Single.sort)
    with recorded() as requests:
        assert Single.sort.succeeded.count(until=clock.now() - 9 * MINUTE) == 3
    assert requests.entries_read <= 4


def test_a_limited_window_whose_beginning_is_long_ago_does_not_read_it_all(clock: StoppedClock) -> None:
    create_in_turn(Single, clock)
    with recorded() as requests:
        assert len(list(Single.sort.pending.query(since=clock.now() - 9 * MINUTE, limit=2))) == 2
    assert requests.entries_read <= 3
