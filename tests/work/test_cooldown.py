"""Which tasks a worker leaves alone for a while, so that others behind them have their turn."""

from datetime import timedelta

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.exceptions import TaskError, TaskFormatError, TaskLockedError, TaskNotReadyError
from pynamodb_tracker.testing import StoppedClock, local_table
from pynamodb_tracker.work.polling import Cooldown
from tests.work.test_polling import HOUR, SECOND, FakeStep, Poller, failed
from tests.worker.shop import Order, ShopTask


@pytest.fixture
def cooldown(monkeypatch: pytest.MonkeyPatch) -> Cooldown:
    monkeypatch.setattr(RANDOM, "uniform", lambda _low, _high: 1.0)
    return Cooldown()


def seconds_of(cooldown: Cooldown, task_id: str, clock: StoppedClock) -> int:
    """Return for how many seconds a task is left alone, moving the clock on."""
    seconds = 0
    while not cooldown.is_over(task_id):
        clock.advance(SECOND)
        seconds += 1
    return seconds


@pytest.mark.parametrize(
    "error",
    [
        failed("ValidationException", UpdateError),
        TaskError("odd", task_id="bad-0"),
        TaskFormatError("later", task_id="bad-0"),
    ],
)
def test_tasks_that_cannot_be_started_do_not_keep_those_behind_them_from_being_run(
    stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    step = FakeStep(stopped_clock)
    step.tasks = [*(f"bad-{number}" for number in range(10)), *(f"good-{number}" for number in range(5))]
    poller, end, tries = Poller(step), stopped_clock.now() + HOUR, 0
    while len(step.tasks) > 10 and stopped_clock.now() < end:
        if not poller.is_ready(stopped_clock.now()):
            stopped_clock.advance(SECOND)
        elif (task_id := poller.take()) is None:
            continue
        elif task_id.startswith("good"):
            step.tasks.remove(task_id)
            poller.ends(task_id, "succeeded")
        else:
            tries += 1
            poller.ends(task_id, "refused", error)
    assert len(step.tasks) == 10
    assert tries < 120
    assert "Fake.step of 'bad-7' cannot start, so this worker leaves it alone for a while" in caplog.text


def test_a_row_of_a_later_format_is_left_to_others_for_ten_minutes_and_logged_once_an_hour(
    stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    step, rows = FakeStep(stopped_clock), [f"bad-{number}" for number in range(10)]
    step.tasks = [*rows]
    poller, tries = Poller(step), 0
    for hour in (1, 2):
        end = stopped_clock.now() + HOUR
        while stopped_clock.now() < end:
            if not poller.is_ready(stopped_clock.now()):
                stopped_clock.advance(SECOND)
            elif task_id := poller.take():
                tries += 1
                poller.ends(task_id, "refused", TaskFormatError("later", task_id=task_id))
        told = [record.__dict__["task_id"] for record in caplog.records if record.levelname == "WARNING"]
        assert sorted(told) == sorted(rows * hour)
    assert tries == 10 * 2 * 6


@pytest.mark.parametrize("number", [10, 40])
def test_rows_that_cannot_be_claimed_cost_those_behind_them_no_time(stopped_clock: StoppedClock, number: int) -> None:
    step = FakeStep(stopped_clock)
    step.tasks = [*(f"bad-{each}" for each in range(number)), "good"]
    poller, began = Poller(step), stopped_clock.now()
    error = failed("ValidationException", UpdateError)
    while (task_id := poller.take()) != "good":
        assert task_id is not None
        poller.ends(task_id, "refused", error)
    assert stopped_clock.now() == began


def test_one_that_cannot_be_started_is_left_alone_for_longer_each_time(
    cooldown: Cooldown, stopped_clock: StoppedClock
) -> None:
    found = []
    for _ in range(9):
        cooldown.note_failure("o-1")
        found.append(seconds_of(cooldown, "o-1", stopped_clock))
        cooldown.forget(stopped_clock.now())
    assert found == [20, 40, 80, 160, 320, 640, 1280, 1800, 1800]


def test_one_that_is_run_at_last_is_treated_as_any_other(cooldown: Cooldown, stopped_clock: StoppedClock) -> None:
    for _ in range(5):
        cooldown.note_failure("o-1")
    cooldown.end_run("o-1")
    assert seconds_of(cooldown, "o-1", stopped_clock) == 1
    cooldown.note_failure("o-1")
    assert seconds_of(cooldown, "o-1", stopped_clock) == 20


def test_one_that_another_worker_has_is_left_alone_for_some_seconds_and_one_that_runs_until_it_ends(
    cooldown: Cooldown, stopped_clock: StoppedClock
) -> None:
    cooldown.note_refusal("o-1")
    cooldown.begin_run("o-2")
    assert seconds_of(cooldown, "o-1", stopped_clock) == 10
    stopped_clock.advance(100 * HOUR)
    cooldown.forget(stopped_clock.now())
    assert not cooldown.is_over("o-2")
    assert cooldown.is_over("o-3")


def test_setting_the_clock_back_does_not_lengthen_a_cooldown(cooldown: Cooldown, stopped_clock: StoppedClock) -> None:
    cooldown.note_refusal("o-1")
    cooldown.begin_run("o-2")
    stopped_clock.advance(-2 * HOUR)
    assert cooldown.is_over("o-1")
    assert not cooldown.is_over("o-2")


def test_tasks_are_forgotten_after_their_cooldown(cooldown: Cooldown, stopped_clock: StoppedClock) -> None:
    for number in range(100):
        cooldown.end_run(f"o-{number}")
        cooldown.note_failure(f"bad-{number}")
    stopped_clock.advance(timedelta(minutes=2))
    cooldown.forget(stopped_clock.now())
    assert len(cooldown._until) == 100
    stopped_clock.advance(2 * HOUR)
    cooldown.forget(stopped_clock.now())
    assert (cooldown._until, cooldown._failures) == ({}, {})


def test_a_failure_of_the_table_is_not_counted_against_a_task(stopped_clock: StoppedClock) -> None:
    step = FakeStep(stopped_clock)
    step.tasks = ["o-1"]
    poller = Poller(step)
    assert poller.take() == "o-1"
    poller.ends("o-1", "refused", TaskLockedError("held"))
    assert not poller.cooldown._failures


def test_a_task_that_waits_again_since_it_was_found_is_left_alone_until_it_is_due(stopped_clock: StoppedClock) -> None:
    with local_table(ShopTask):
        Order.create("o-1", due_time=3 * SECOND)
        poller = Poller(Order.confirm._definition)
        with pytest.raises(TaskNotReadyError) as refused:
            Order.confirm.run("o-1", print)
        poller.ends("o-1", "refused", refused.value)
        assert seconds_of(poller.cooldown, "o-1", stopped_clock) == 3
