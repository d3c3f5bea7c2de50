"""Occurrences that were missed, for whatever reason: the task runs once, for the latest of them."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ReadTimeoutError
from pynamodb.exceptions import PynamoDBException, UpdateError

from pynamodb_tracker import Repeat, RetryLater, Step, TaskLockedError, UseCase
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.model.worker_name import this_worker
from tests.support.network import Answer, Network, Request, before, passing
from tests.support.recorder import recorded
from tests.support.shop import AppTask
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FIRST = datetime(2026, 5, 2, 2, tzinfo=UTC)
"""The first occurrence: the task is created the day before."""


class Sweep(AppTask):
    """One step that can be paused, and three attempts."""

    use_case_id = UseCase("missed sweep", pausable=True)

    run = Step(10, max_attempts=3, lock_for=HOUR)


class Report(AppTask):
    use_case_id = UseCase("missed report")

    collect = Step(10)
    send = Step(20)


@pytest.fixture(autouse=True)
def sweep(clock: StoppedClock) -> None:
    """Create a task that is due each night."""
    clock.advance(FIRST - 14 * HOUR - clock.now())
    Sweep.create("s-1", repeat=Repeat.cron("0 2 * * *"))


def at(clock: StoppedClock, days: int, hours: int = 1) -> datetime:
    """Let it be some hours after the occurrence so many days after the first one, and return that one."""
    clock.advance(FIRST + days * DAY + hours * HOUR - clock.now())
    return FIRST + days * DAY


def run() -> datetime | None:
    return Sweep.run.run("s-1", lambda ctx: ctx.occurrence)


def next_turn() -> datetime:
    found: datetime = Sweep.get_task("s-1").due_time
    return found


def test_after_an_outage_the_latest_is_run_for_one_more_write(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sweep.use_case_id, "pausable", False)  # no request for its pauses
    latest = at(clock, 3)
    with recorded() as requests:
        assert run() == latest
    assert (requests.operations, next_turn()) == (["UpdateItem"] * 3, latest + DAY)
    at(clock, 4)
    with recorded() as requests:
        assert run() == latest + DAY
    assert requests.operations == ["UpdateItem"] * 2


def test_after_a_pause_the_latest_is_run(clock: StoppedClock) -> None:
    Sweep.run.pause(until=None, reason="the archive moves")
    at(clock, 2)
    assert Sweep.run.run_all(lambda _: None).paused
    Sweep.run.resume()
    latest = at(clock, 3)
    assert run() == latest


def test_after_a_run_that_took_days_the_latest_is_run_at_once(clock: StoppedClock) -> None:
    first = at(clock, 0)
    with Sweep.run.start("s-1", lock_for=9 * DAY) as ctx:
        latest = at(clock, 3)
        assert ctx.occurrence == first
    assert (next_turn(), run(), next_turn()) == (clock.now(), latest, latest + DAY)


@pytest.mark.parametrize("error", [Broken(), RetryLater(3 * DAY, "later", use_attempt=False), KeyboardInterrupt()])
def test_an_attempt_days_later_keeps_its_occurrence_and_the_latest_follows(
    clock: StoppedClock, error: BaseException
) -> None:
    first = at(clock, 0)
    fail(Sweep.run, "s-1", error)
    latest = at(clock, 3, 2)
    assert (run(), run()) == (first, latest)


def test_a_takeover_days_later_keeps_its_occurrence_and_the_latest_follows(clock: StoppedClock) -> None:
    first = at(clock, 0)
    die(Sweep.run, "s-1")
    latest = at(clock, 3)
    assert (run(), run()) == (first, latest)


def test_the_next_attempt_and_a_takeover_find_the_latest_in_the_row(clock: StoppedClock) -> None:
    latest = at(clock, 3)
    fail(Sweep.run, "s-1")
    at(clock, 4)
    die(Sweep.run, "s-1")
    at(clock, 5)
    assert (Sweep.get_task("s-1").occurrence, run()) == (latest, latest)


def test_a_failed_task_that_is_reopened_keeps_its_occurrence(clock: StoppedClock) -> None:
    first = at(clock, 0)
    fail(Sweep.run, "s-1")
    at(clock, 3)
    Sweep.run.reopen("s-1")
    assert run() == first


@pytest.mark.parametrize("dies", [False, True])
def test_an_occurrence_that_was_given_up_is_followed_by_the_latest(clock: StoppedClock, *, dies: bool) -> None:
    at(clock, 0)
    for hours in (1, 3, 5):
        at(clock, 0, hours)
        (die if dies else fail)(Sweep.run, "s-1")
    at(clock, 0, 7)
    Sweep.run.run_all(lambda _: pytest.fail("its attempts are used"))
    assert next_turn() == FIRST + DAY
    latest = at(clock, 3)
    assert run() == latest


def test_the_second_step_runs_for_the_same_occurrence_as_the_first(clock: StoppedClock) -> None:
    Report.create("r-1", repeat=Repeat.cron("0 2 * * *"))
    latest = at(clock, 3)
    succeed(Report.collect, "r-1")
    at(clock, 5)
    assert Report.send.run("r-1", lambda ctx: ctx.occurrence) == latest


def test_a_rule_that_counts_counts_what_was_missed(clock: StoppedClock) -> None:
    Report.create("r-1", repeat=Repeat.rrule("FREQ=DAILY;BYHOUR=2;COUNT=4"))
    latest = at(clock, 9)
    with Report.collect.start("r-1") as ctx:
        assert (ctx.occurrence, ctx.task.occurrence_count) == (latest - 6 * DAY, 4)
    succeed(Report.send, "r-1")
    assert str(Report.get_task("r-1").state) == "send succeeded"


def test_a_start_by_id_in_the_margin_before_an_occurrence_runs_for_that_one(clock: StoppedClock) -> None:
    at(clock, 0, 0)
    clock.advance(-timedelta(seconds=1))
    assert run() == FIRST


# Faults between the claim and its pin.


def nothing_after(network: Network, requests: int) -> None:
    """Let a worker die when it has sent so many updates."""
    sent: list[str] = []

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        sent.append(operation)
        if len(sent) > requests:
            raise ReadTimeoutError(endpoint_url="of the test")
        return send()

    network.rule = rule
    with suppress(PynamoDBException):
        Sweep.run.run("s-1", lambda _: pytest.fail("its pin was not answered"))
    network.rule = passing


@pytest.mark.parametrize(("after", "occurrence"), [(1, 5), (2, 3)], ids=["before its pin", "after its pin"])
def test_who_dies_between_claim_and_block_leaves_the_latest_to_the_next(
    clock: StoppedClock, network: Network, after: int, occurrence: int
) -> None:
    at(clock, 3)
    if after == 1:
        nothing_after(network, 1)
    else:
        die(Sweep.run, "s-1")
    at(clock, 5)
    assert run() == FIRST + occurrence * DAY


def lose_response(network: Network, number: int) -> None:
    """Let a worker lose the response to its update of that number."""
    updates: list[Answer] = []

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        answer = send()
        if operation == "UpdateItem":
            updates.append(answer)
            if len(updates) == number:
                raise ReadTimeoutError(endpoint_url="of the test")
        return answer

    network.rule = rule
    with pytest.raises(UpdateError):
        Sweep.run.run("s-1", lambda _: pytest.fail("it is not known to be pinned"))
    network.rule = passing


@pytest.mark.parametrize("lost", ["claim", "pin"])
def test_a_claim_or_a_pin_whose_response_is_lost_leaves_the_latest_to_the_next(
    clock: StoppedClock, network: Network, lost: str
) -> None:
    latest = at(clock, 3)
    lose_response(network, ["claim", "pin"].index(lost) + 1)
    assert (run(), next_turn()) == (latest, latest + DAY)


@pytest.mark.parametrize("is_given_back", [False, True])
def test_a_claim_without_its_pin_in_the_round_after_one_that_gave_up_leaves_the_latest_to_the_next(
    clock: StoppedClock, network: Network, *, is_given_back: bool
) -> None:
    for hours in (1, 3, 5):
        at(clock, 0, hours)
        fail(Sweep.run, "s-1")
    at(clock, 3)
    if is_given_back:
        lose_response(network, 1)
    else:
        nothing_after(network, 1)
    latest = at(clock, 5)
    assert run() == latest


def test_who_loses_the_task_before_its_pin_does_not_begin(clock: StoppedClock, network: Network) -> None:
    at(clock, 3)

    def lose() -> None:
        Sweep.run.unlock("s-1", reason="it is dead", worker=this_worker())
        die(Sweep.run, "s-1")

    def claim_and_lose(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        answer = send()
        before(network, "UpdateItem", lose)
        assert operation == "UpdateItem"
        return answer

    network.rule = claim_and_lose
    with pytest.raises(TaskLockedError), Sweep.run.start("s-1"):
        pytest.fail("another worker has it")
