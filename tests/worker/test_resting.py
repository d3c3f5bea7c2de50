"""Which tasks a worker leaves alone for a while, so that others behind them have their turn."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker.exceptions import TaskError, TaskLockedError
from pynamodb_tracker.worker.cooldown import Rest
from pynamodb_tracker.worker.poller import Backlog
from tests.worker.test_looking import HOUR, LONGEST, SECOND, FakeStep, failed

if TYPE_CHECKING:
    from pynamodb_tracker.testing import StoppedClock


@pytest.fixture
def rest(monkeypatch: pytest.MonkeyPatch) -> Rest:
    monkeypatch.setattr(random, "uniform", lambda _low, _high: 1.0)
    return Rest()


def seconds_of(rest: Rest, task_id: str, clock: StoppedClock) -> int:
    """Return for how many seconds a task is left alone, moving the clock on."""
    seconds = 0
    while not rest.is_over(task_id):
        clock.advance(SECOND)
        seconds += 1
    return seconds


@pytest.mark.parametrize("error", [failed("ValidationException", UpdateError), TaskError("odd", task_id="bad-0")])
def test_tasks_that_cannot_be_started_do_not_keep_those_behind_them_from_being_run(
    stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    step = FakeStep(stopped_clock)
    step.tasks = [*(f"bad-{number}" for number in range(10)), *(f"good-{number}" for number in range(5))]
    backlog, end, tries = Backlog(step, LONGEST), stopped_clock.now() + HOUR, 0  # type: ignore[arg-type]
    while len(step.tasks) > 10 and stopped_clock.now() < end:
        if not backlog.is_ready(stopped_clock.now()):
            stopped_clock.advance(SECOND)
        elif (task_id := backlog.take()) is None:
            continue
        elif task_id.startswith("good"):
            step.tasks.remove(task_id)
            backlog.ended(task_id, "succeeded", None, was_taken=False)
        else:
            tries += 1
            backlog.ended(task_id, "refused", error, was_taken=False)
    assert len(step.tasks) == 10
    assert tries < 120
    assert "Fake.step of 'bad-7' cannot be started, and is left alone for a while" in caplog.text


@pytest.mark.parametrize("number", [10, 40])
def test_rows_that_no_claim_is_possible_of_cost_those_behind_them_no_time(
    stopped_clock: StoppedClock, number: int
) -> None:
    step = FakeStep(stopped_clock)
    step.tasks = [*(f"bad-{each}" for each in range(number)), "good"]
    backlog, began = Backlog(step, LONGEST), stopped_clock.now()  # type: ignore[arg-type]
    error = failed("ValidationException", UpdateError)
    while (task_id := backlog.take()) != "good":
        assert task_id is not None
        backlog.ended(task_id, "refused", error, was_taken=False)
    assert stopped_clock.now() == began


def test_one_that_cannot_be_started_is_left_alone_for_longer_each_time(rest: Rest, stopped_clock: StoppedClock) -> None:
    found = []
    for _ in range(9):
        rest.broken("o-1")
        found.append(seconds_of(rest, "o-1", stopped_clock))
        rest.forget(stopped_clock.now())
    assert found == [20, 40, 80, 160, 320, 640, 1280, 1800, 1800]


def test_one_that_runs_at_last_is_as_any_other(rest: Rest, stopped_clock: StoppedClock) -> None:
    for _ in range(5):
        rest.broken("o-1")
    rest.tried("o-1", failed=True)
    assert seconds_of(rest, "o-1", stopped_clock) == 1
    rest.broken("o-1")
    assert seconds_of(rest, "o-1", stopped_clock) == 20


def test_one_that_another_worker_had_is_left_alone_for_some_seconds_and_one_that_runs_until_it_ends(
    rest: Rest, stopped_clock: StoppedClock
) -> None:
    rest.refused("o-1")
    rest.run("o-2")
    assert seconds_of(rest, "o-1", stopped_clock) == 10
    stopped_clock.advance(100 * HOUR)
    rest.forget(stopped_clock.now())
    assert not rest.is_over("o-2")
    assert rest.is_over("o-3")


def test_a_clock_that_is_put_back_makes_no_rest_longer(rest: Rest, stopped_clock: StoppedClock) -> None:
    rest.refused("o-1")
    rest.run("o-2")
    stopped_clock.advance(-2 * HOUR)
    assert rest.is_over("o-1")
    assert not rest.is_over("o-2")


def test_what_has_rested_is_forgotten(rest: Rest, stopped_clock: StoppedClock) -> None:
    for number in range(100):
        rest.tried(f"o-{number}", failed=False)
        rest.broken(f"bad-{number}")
    stopped_clock.advance(timedelta(minutes=2))
    rest.forget(stopped_clock.now())
    assert len(rest._until) == 100
    stopped_clock.advance(2 * HOUR)
    rest.forget(stopped_clock.now())
    assert (rest._until, rest._broken) == ({}, {})


def test_trouble_with_the_table_is_none_of_a_task(stopped_clock: StoppedClock) -> None:
    step = FakeStep(stopped_clock)
    step.tasks = ["o-1"]
    backlog = Backlog(step, LONGEST)  # type: ignore[arg-type]
    assert backlog.take() == "o-1"
    backlog.ended("o-1", "refused", TaskLockedError("held"), was_taken=True)
    assert not backlog._rest._broken
