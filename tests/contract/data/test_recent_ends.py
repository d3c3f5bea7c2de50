"""The last successes of a task: kept in its row as long as that costs nothing, and less important than a failure."""

from datetime import timedelta

import pytest

from pynamodb_tracker import Repeat, Step, UseCase
from pynamodb_tracker.dynamodb.limits import item_size
from pynamodb_tracker.presentation.task_facts import relations_in_words
from pynamodb_tracker.testing import StoppedClock
from tests.support.rows import change, stored
from tests.support.shop import AppTask
from tests.support.workers import fail

pytestmark = pytest.mark.usefixtures("table")

HOUR = timedelta(hours=1)


class Night(AppTask):
    use_case_id = UseCase("night of ends")

    collect = Step(10)


def nights(clock: StoppedClock, number: int, text: str = "") -> Night:
    """Return a task that has run so often, each time a second longer."""
    Night.create("n", repeat=Repeat.every(HOUR), data={"text": text})
    for seconds in range(1, number + 1):
        clock.advance(HOUR)
        with Night.collect.start("n"):
            clock.advance(timedelta(seconds=seconds))
    return Night.get_task("n")


def test_a_task_keeps_its_last_ten_successes_with_start_end_and_worker(clock: StoppedClock) -> None:
    task = nights(clock, 12)
    took = [(each.step, int((each.end - each.start).total_seconds())) for each in task.recent_ends or ()]
    assert took == [(10, seconds) for seconds in range(3, 13)]
    assert {each.worker for each in task.recent_ends or ()} == {(task.worker or "")[:24]}
    told = [text for label, text in relations_in_words(task) if label == "succeeded"]
    assert (len(told), told[0].startswith("collect, ")) == (10, True)


@pytest.mark.parametrize("size", [400, 700, 900, 1500])
def test_no_row_needs_another_kilobyte_for_them(clock: StoppedClock, size: int) -> None:
    task = nights(clock, 12, "x" * size)
    row = stored(Night, "n")
    without = item_size({name: value for name, value in row.items() if name != "recent_ends"})
    assert (-(-item_size(row) // 1024), task.recent_ends is None) == (-(-without // 1024), "recent_ends" not in row)


def test_a_failure_takes_their_room(clock: StoppedClock) -> None:
    before = len(nights(clock, 12).recent_ends or ())
    clock.advance(HOUR)
    fail(Night.collect, "n")
    task = Night.get_task("n")
    assert len(task.recent_ends or ()) < before
    assert (task.errors[-1].traceback != "", item_size(stored(Night, "n")) <= 1024) == (True, True)


def test_damage_to_them_stops_no_run(clock: StoppedClock) -> None:
    nights(clock, 1)
    change(Night, "n", recent_ends={"S": "no end\n6955b900 3e8 10 w"})
    clock.advance(HOUR)
    Night.collect.run("n", lambda _: None)
    assert [each.worker == "w" for each in Night.get_task("n").recent_ends or ()] == [True, False]
