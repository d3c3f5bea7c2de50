"""The order in which ignored tasks return to their groups."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.work.bulk import by_number


def member(group: str, number: int) -> Any:
    return SimpleNamespace(group=group, group_number=number)


def test_tasks_return_in_the_order_of_their_numbers_and_times_even_if_some_have_no_time() -> None:
    first, second, other = member("a", 1), member("a", 2), member("b", 7)
    soon = clock.now() + timedelta(hours=1)
    assert [*by_number([(second, None), (first, soon), (other, soon)])] == [
        (first, None),
        (other, soon),
        (second, soon),
    ]
