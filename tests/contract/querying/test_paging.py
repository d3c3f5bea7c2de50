"""Pages and cursors: another process can continue a query, while tasks come and go."""

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pynamodb_tracker import State, Step, TaskPage, UseCase
from pynamodb_tracker.clock import StoppedClock
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order, Parcel
from tests.support.workers import succeed

pytestmark = pytest.mark.usefixtures("table")

MINUTE = timedelta(minutes=1)


def create_in_turn(clock: StoppedClock, first: int, last: int) -> None:
    for number in range(first, last):
        Parcel.create(f"t-{number:02}")
        clock.advance(MINUTE)


def names(first: int, last: int) -> list[str]:
    return [f"t-{number:02}" for number in range(first, last)]


def walk(state: State[Any], *, between: Callable[[int], None] | None = None, **arguments: Any) -> list[str]:
    """Return the ids of all pages, each asked for by the cursor of the one before."""
    found: list[str] = []
    cursor: str | None = None
    number = 0
    while True:
        page = state.page(cursor=cursor, **arguments)
        found += [task.task_id for task in page.tasks]
        if page.cursor is None:
            return found
        cursor = page.cursor
        number += 1
        if between is not None:
            between(number)


def test_the_pages_have_every_task_once_in_order(clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 12)
    for limit in (1, 5, 11, 12, 13):
        assert walk(Parcel.sort.pending, limit=limit) == names(0, 12)
        assert walk(Parcel.sort.pending, limit=limit, latest_due_first=True) == names(0, 12)[::-1]


def test_a_page_that_is_just_full_has_no_cursor(clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 3)
    assert Parcel.sort.pending.page(limit=3).cursor is None


def test_a_page_of_nothing_is_empty_and_the_last_one() -> None:
    assert Parcel.sort.pending.page() == TaskPage([], None)


def test_a_page_has_at_most_50_tasks_unless_asked() -> None:
    Parcel.create_many((f"t-{number}" for number in range(51)), threads=4)
    page = Parcel.sort.pending.page()
    assert len(page.tasks) == 50
    assert page.cursor is not None


def test_tasks_that_are_due_at_the_same_time_are_each_returned_once() -> None:
    Parcel.create_many(names(0, 12))
    assert sorted(walk(Parcel.sort.pending, limit=5)) == names(0, 12)


def test_tasks_that_are_added_while_paging_are_returned_last(clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 6)
    added = walk(Parcel.sort.pending, limit=2, between=lambda page: create_in_turn(clock, 6, 9) if page == 1 else None)
    assert added == names(0, 9)


@pytest.mark.parametrize("leave", [partial(succeed, Parcel.sort), Parcel.delete_task], ids=["succeed", "are deleted"])
def test_tasks_that_leave_the_state_while_paging_have_no_effect_on_others(
    leave: Callable[[str], object], clock: StoppedClock
) -> None:
    create_in_turn(clock, 0, 8)

    def between(page: int) -> None:
        if page == 1:
            for task_id in ("t-01", "t-02"):  # the last one of that page, and the first one of the next
                leave(task_id)

    assert walk(Parcel.sort.pending, limit=2, between=between) == [*names(0, 2), *names(3, 8)]


def test_a_window_applies_to_all_pages(clock: StoppedClock) -> None:
    begin = clock.now()
    create_in_turn(clock, 0, 12)
    window: dict[str, Any] = {"since": begin + 3 * MINUTE, "until": begin + 8 * MINUTE}
    assert walk(Parcel.sort.pending, limit=2, **window) == names(3, 8)


def test_a_later_page_does_not_read_the_earlier_ones_again(clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 12)
    cursor = Parcel.sort.pending.page(limit=10).cursor
    with recorded() as requests:
        assert len(Parcel.sort.pending.page(limit=10, cursor=cursor).tasks) == 2
    assert requests.entries_read <= 2 + 5


def test_the_limit_may_change_from_page_to_page(clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 6)
    second = Parcel.sort.pending.page(limit=3, cursor=Parcel.sort.pending.page(limit=1).cursor)
    assert [task.task_id for task in second.tasks] == names(1, 4)


def test_a_cursor_is_plain_text_that_fits_an_address(clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 12)
    cursor = Parcel.sort.pending.page(limit=10).cursor
    assert cursor is not None
    assert cursor.isascii()
    assert not set(cursor) & set(" /+?&#")


def test_a_cursor_may_be_used_twice(clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 6)
    cursor = Parcel.sort.pending.page(limit=2).cursor
    pages = [Parcel.sort.pending.page(limit=2, cursor=cursor) for _ in range(2)]
    assert [[task.task_id for task in page.tasks] for page in pages] == [names(2, 4)] * 2


def test_ids_of_any_text_go_through_a_cursor() -> None:
    task_ids = ["道", "a#b", 'a"b', "a\nb", "\0", "😀", "é"]
    Order.create_many(task_ids)
    assert sorted(walk(Order.confirm_payment.pending, limit=1)) == sorted(task_ids)


def test_paging_continues_after_status_shards_grew(clock: StoppedClock) -> None:
    def letters(shards: int) -> type[Any]:
        class Letter(AppTask):
            use_case_id = UseCase("letter", status_shards=shards)

            sort = Step(10)

        return Letter

    letter = letters(1)
    for number in range(6):
        letter.create(f"t-{number:02}")
        clock.advance(MINUTE)
    page = letter.sort.pending.page(limit=2)
    letter = letters(5)
    for number in range(6, 10):
        letter.create(f"t-{number:02}")
        clock.advance(MINUTE)
    rest = []
    cursor = page.cursor
    while cursor is not None:
        page = letter.sort.pending.page(limit=3, cursor=cursor)
        rest += [task.task_id for task in page.tasks]
        cursor = page.cursor
    assert rest == names(2, 10)


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_cursor_that_was_cut_off_is_a_value_error(cut: int, clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 5)
    cursor = Parcel.sort.pending.page(limit=3).cursor
    assert cursor is not None
    with pytest.raises(ValueError, match="cursor"):
        Parcel.sort.pending.page(limit=3, cursor=cursor[:-cut])


def test_a_cursor_of_another_state_use_case_direction_or_window_is_a_value_error(clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 5)
    cursor = Parcel.sort.pending.page(limit=3).cursor
    with unreached():
        for ask in (
            lambda: Parcel.sort.failed.page(cursor=cursor),
            lambda: Order.confirm_payment.pending.page(cursor=cursor),
            lambda: Parcel.sort.pending.page(cursor=cursor, latest_due_first=True),
            lambda: Parcel.sort.pending.page(cursor=cursor, since=clock.now()),
            lambda: Parcel.sort.pending.page(cursor=cursor, until=clock.now()),
        ):
            with pytest.raises(ValueError, match="cursor"):
                ask()


@pytest.mark.parametrize("due_time", ["2001-01-01T00:00:00.000000+0000", "9998-01-01T00:00:00.000000+0000"])
def test_a_cursor_that_was_moved_out_of_its_window_is_a_value_error(due_time: str, clock: StoppedClock) -> None:
    create_in_turn(clock, 0, 3)
    for number in range(3):
        succeed(Parcel.sort, f"t-{number:02}")
    state = Parcel.sort.succeeded
    window: Any = {"since": clock.now() - MINUTE, "until": clock.now() + MINUTE}
    cursor = state.page(limit=2, **window).cursor
    assert cursor is not None
    scan_id, positions = json.loads(base64.urlsafe_b64decode(cursor))
    moved = [scan_id, {key: [due_time, task_id] for key, (_, task_id) in positions.items()}]
    with pytest.raises(ValueError, match="outside the window"):
        state.page(limit=2, cursor=base64.urlsafe_b64encode(json.dumps(moved).encode()).decode(), **window)
