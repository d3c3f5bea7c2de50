"""A glance at a state: what its index has, without reading rows."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import IndexEntry, IndexPage
from pynamodb_tracker.clock import StoppedClock
from tests.contract.odd_rows import Odd
from tests.support.recorder import recorded
from tests.support.rows import change
from tests.support.shop import Order, Parcel
from tests.support.workers import fail

pytestmark = pytest.mark.usefixtures("table")

MINUTE = timedelta(minutes=1)


def create_in_turn(clock: StoppedClock, last: int) -> list[str]:
    ids = [f"t-{number:02}" for number in range(last)]
    for task_id in ids:
        Parcel.create(task_id)
        clock.advance(MINUTE)
    return ids


def ids_of(glance: IndexPage) -> list[str]:
    return [entry.task_id for entry in glance.tasks]


def test_a_glance_shows_what_the_index_has_and_reads_no_rows(clock: StoppedClock) -> None:
    Order.create_many(f"o-{number}" for number in range(4))
    clock.advance(MINUTE)
    fail(Order.confirm_payment, "o-0", ValueError("no such card"))
    task = Order.get_task("o-0")
    with recorded() as requests:
        glance = Order.confirm_payment.failed.index_page()
    assert requests.operations == ["Query"]
    assert glance == IndexPage(
        [IndexEntry("o-0", 1, task.create_time, task.update_time, task.due_time, "ValueError: no such card")], None
    )


def test_a_glance_of_50_is_one_request_of_51_entries() -> None:
    Order.create_many((f"o-{number}" for number in range(52)), threads=4)
    with recorded() as requests:
        glance = Order.confirm_payment.pending.index_page()
    assert (requests.operations, requests.entries_read, len(glance.tasks)) == (["Query"], 51, 50)
    assert len(Order.confirm_payment.pending.index_page(cursor=glance.cursor).tasks) == 2


@pytest.mark.parametrize("latest_due_first", [False, True])
def test_glances_have_every_task_of_all_shards_once_in_order(clock: StoppedClock, *, latest_due_first: bool) -> None:
    expected = create_in_turn(clock, 12)[:: -1 if latest_due_first else 1]
    found, cursor = [], None
    for size in (5, 5, 2):
        glance = Parcel.sort.pending.index_page(limit=5, cursor=cursor, latest_due_first=latest_due_first)
        assert len(glance.tasks) == size
        found += ids_of(glance)
        cursor = glance.cursor
    assert (found, cursor) == (expected, None)


def test_a_glance_takes_a_window(clock: StoppedClock) -> None:
    begin = clock.now()
    create_in_turn(clock, 6)
    window: dict[str, Any] = {"since": begin + 2 * MINUTE, "until": begin + 5 * MINUTE}
    first = Parcel.sort.pending.index_page(limit=2, **window)
    second = Parcel.sort.pending.index_page(limit=2, cursor=first.cursor, **window)
    assert (ids_of(first), ids_of(second), second.cursor) == (["t-02", "t-03"], ["t-04"], None)


def test_a_glance_asks_for_more_at_a_time_where_its_window_drops_what_it_reads(clock: StoppedClock) -> None:
    begin = clock.now()
    Order.create("old", due_time=timedelta(days=1))
    clock.advance(MINUTE)
    Order.create_many((f"new-{number}" for number in range(40)), threads=4)
    with recorded() as requests:
        assert ids_of(Order.confirm_payment.pending.index_page(limit=1, until=begin + MINUTE)) == ["old"]
    assert len(requests) == 3  # of 2, 20 and 40 entries


def test_a_glance_asks_each_shard_for_little_more_than_its_share() -> None:
    Parcel.create_many(
        ({"task_id": f"p-{number:02}", "due_time": timedelta(seconds=number)} for number in range(70)), threads=4
    )
    with recorded() as requests:
        assert ids_of(Parcel.sort.pending.index_page(limit=25)) == [f"p-{number:02}" for number in range(25)]
    assert (len(requests), requests.entries_read) == (5, 5 * 10)


def test_a_page_goes_on_where_a_glance_ended(clock: StoppedClock) -> None:
    create_in_turn(clock, 4)
    page = Parcel.sort.pending.page(cursor=Parcel.sort.pending.index_page(limit=2).cursor)
    assert [task.task_id for task in page.tasks] == ["t-02", "t-03"]


def test_a_task_that_another_program_has_damaged_is_shown_with_what_can_be_read() -> None:
    Odd.create_many(["bad", "good"])
    damage: dict[str, Any] = {"attempt": {"N": "1.5"}, "last_error": {"N": "3"}, "update_time": {"S": "yesterday"}}
    change(Odd, "bad", due_time={"S": "0000"}, create_time=None, **damage)
    glance = Odd.work.pending.index_page(limit=1)
    assert glance.tasks == [IndexEntry("bad", None, None, None, None, None)]
    assert ids_of(Odd.work.pending.index_page(cursor=glance.cursor)) == ["good"]
    assert [task.task_id for task in Odd.work.pending.page(cursor=glance.cursor).tasks] == ["good"]
