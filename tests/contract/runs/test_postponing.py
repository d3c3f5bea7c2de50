"""Postponing a task without using up an attempt, and giving it up by age."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    DefinitionError,
    ExecutionContext,
    Repeat,
    RetryLater,
    Step,
    TaskIgnoredError,
    TaskNotReadyError,
    UseCase,
)
from pynamodb_tracker.clock import StoppedClock, stamp
from pynamodb_tracker.transitions import ending
from tests.support.engines import only_dynoxide
from tests.support.recorder import recorded
from tests.support.rows import change
from tests.support.shop import AppTask
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table", "task")

MINUTE = timedelta(minutes=1)
LONG_AGO = "2020-01-01T00:00:00.000000+0000"
LATER = RetryLater(5 * MINUTE, "the bank is down", use_attempt=False)


class Payout(AppTask):
    use_case_id = UseCase("postponed payout")

    check = Step(100, give_up_after=timedelta(hours=2))
    pay = Step(200, also_from=(check.failed,))


CREATED = Payout, "p-1"


def postpone(task_id: str = "p-1") -> None:
    fail(Payout.check, task_id, RetryLater(timedelta(0), "the bank is down", use_attempt=False))


def kept(task_id: str = "p-1") -> tuple[Any, bool]:
    """Return what the row keeps: how often it was postponed, and whether it knows its first failure."""
    task = Payout.get_task(task_id)
    return task.postpone_count, task.first_failure is not None


@only_dynoxide
def test_a_bank_that_is_down_for_an_hour_costs_no_task(stopped_clock: StoppedClock) -> None:
    Payout.create_many([f"p-{number}" for number in range(8)])
    up = stopped_clock.now() + timedelta(hours=1)

    def pay(_ctx: ExecutionContext[Payout]) -> None:
        if stopped_clock.now() < up:
            raise RetryLater(5 * MINUTE, use_attempt=False)

    for _ in range(12):
        report = Payout.check.run_all(pay)
        assert (len(report.failed), report.postponed, report.ignored) == (8, 8, [])
        assert str(report).startswith("0 succeeded, 8 failed (8 postponed), 0 ignored")
        stopped_clock.advance(5 * MINUTE)
    assert len(Payout.check.run_all(pay).succeeded) == 8


def test_a_task_that_kills_its_workers_is_ignored_however_often_it_is_postponed(stopped_clock: StoppedClock) -> None:
    for _ in range(3):
        if Payout.get_task("p-1").attempt < 2:
            postpone()
        die(Payout.check, "p-1")
        stopped_clock.advance(6 * MINUTE)
    with pytest.raises(TaskIgnoredError):
        Payout.check.run("p-1", print)


def test_a_postponement_repeats_its_entry_with_a_count() -> None:
    fail(Payout.check, "p-1")
    for _ in range(3):
        postpone()
    found = Payout.get_task("p-1")
    assert [(each.type, each.count) for each in found.errors] == [("Broken", 1), ("RetryLater", 3)]
    assert (found.attempt, found.postpone_count) == (1, 3)


def test_a_postponement_costs_what_a_failure_costs() -> None:
    with recorded() as requests:
        postpone()
        postpone()
    assert requests.operations == ["UpdateItem"] * 4


def test_a_long_entry_in_the_log_is_repeated_with_a_count_too() -> None:
    for _ in range(3):
        fail(Payout.check, "p-1", RetryLater(timedelta(0), "x" * 900, use_attempt=False))
    assert [(each.count, len(each.message)) for each in Payout.get_task("p-1").errors] == [(3, 900)]


def test_a_postponement_beyond_the_most_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_MOST_POSTPONED", 2)
    for attempt in (0, 0, 1, 2):
        postpone()
        assert Payout.get_task("p-1").attempt == attempt
    postpone()
    assert Payout.get_task("p-1").state == Payout.check.ignored


def test_the_first_failure_later_than_give_up_after_is_the_last(stopped_clock: StoppedClock) -> None:
    postpone()
    stopped_clock.advance(timedelta(hours=2))
    postpone()
    assert Payout.get_task("p-1").state == Payout.check.failed
    stopped_clock.advance(MINUTE)
    postpone()
    task = Payout.get_task("p-1")
    assert (task.state, task.attempt) == (Payout.check.ignored, 1)


def test_a_success_forgets_it() -> None:
    postpone()
    assert kept() == (1, True)
    task = Payout.get_task("p-1")
    assert task.first_failure == f"{stamp(task.create_time)} 100 {task.creation}"
    succeed(Payout.check, "p-1")
    assert kept() == (None, False)


def test_a_reopened_task_has_its_whole_time_again(stopped_clock: StoppedClock) -> None:
    postpone()
    stopped_clock.advance(timedelta(hours=3))
    Payout.check.reopen("p-1")
    assert kept() == (None, False)
    postpone()
    assert Payout.get_task("p-1").state == Payout.check.failed


@pytest.mark.parametrize("first", [f"{LONG_AGO} 100 another", f"{LONG_AGO} 200 {{}}", "2020 100 {}"])
def test_a_failure_of_another_round_or_step_or_at_no_time_is_not_the_first_one(first: str) -> None:
    change(Payout, "p-1", first_failure={"S": first.format(Payout.get_task("p-1").creation)})
    postpone()
    assert Payout.get_task("p-1").state == Payout.check.failed


def test_a_postponement_that_a_step_gives_up_on_counts() -> None:
    class Hasty(AppTask):
        use_case_id = UseCase("hasty payout")
        pay = Step(100, give_up_on=(RetryLater,))

    Hasty.create("h")
    fail(Hasty.pay, "h", LATER)
    task = Hasty.get_task("h")
    assert (task.state, task.attempt, task.postpone_count) == (Hasty.pay.ignored, 1, None)


def test_another_step_that_starts_from_it_begins_with_none_of_it() -> None:
    postpone()
    fail(Payout.pay, "p-1", LATER)
    assert kept() == (1, False)


@pytest.mark.parametrize("end", ["success", "last failure", "only failure", "spent"])
def test_the_next_occurrence_begins_without_it(stopped_clock: StoppedClock, end: str) -> None:
    class Nightly(AppTask):
        use_case_id = UseCase("nightly")

        load = Step(100, max_attempts=1, give_up_after=timedelta(days=9))

    Nightly.create("n", repeat=Repeat.every(timedelta(hours=1)))
    if end != "only failure":
        fail(Nightly.load, "n", RetryLater(timedelta(0), use_attempt=False))
        assert Nightly.get_task("n").first_failure is not None
    if end == "success":
        succeed(Nightly.load, "n")
    elif end.endswith("failure"):
        fail(Nightly.load, "n", Broken())
    else:
        die(Nightly.load, "n")
        stopped_clock.advance(6 * MINUTE)
        with pytest.raises(TaskNotReadyError):
            Nightly.load.run("n", print)
    task = Nightly.get_task("n")
    assert (task.state, task.postpone_count, task.first_failure) == (Nightly.load.pending, None, None)


def test_a_step_refuses_another_limit_than_a_time() -> None:
    with pytest.raises(DefinitionError, match="give_up_after=3: write a timedelta above zero"):

        class Wrong(AppTask):
            use_case_id = UseCase("wrong")
            check = Step(100, give_up_after=3)  # type: ignore[arg-type]  # that is what is wrong with it


def test_a_retry_later_keeps_what_it_was_given_when_it_is_copied() -> None:
    import copy  # noqa: PLC0415 - only here
    import pickle  # noqa: PLC0415 - only here

    for other in (copy.copy(LATER), pickle.loads(pickle.dumps(LATER))):  # noqa: S301 - made a line above
        assert (other.delay, other.use_attempt, str(other)) == (5 * MINUTE, False, "the bank is down")
