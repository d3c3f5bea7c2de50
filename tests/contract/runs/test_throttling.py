"""Temporary failures are retried: throttling, conflicts with a transaction, and server errors."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pynamodb.exceptions import PutError, UpdateError, VerboseClientError

from pynamodb_tracker import TaskAlreadyExistsError
from pynamodb_tracker.clock import StoppedClock, now
from tests.support.shop import AppTask, Order
from tests.support.through import Dispatch
from tests.support.workers import Broken

pytestmark = pytest.mark.usefixtures("table")

THROTTLED = (400, "ThrottlingException")
OVER_CAPACITY = (400, "ProvisionedThroughputExceededException")
CONFLICT = (400, "TransactionConflictException")
FAULT = (500, "InternalServerError")
UNAVAILABLE = (503, "ServiceUnavailable")
PASSING = [THROTTLED, OVER_CAPACITY, CONFLICT, FAULT, UNAVAILABLE]

DENIED = (400, "AccessDeniedException")

MOST = 5
"""How often a request is sent again; there are as many reasons for it above."""

ReceivedSignal = tuple[int, str]


class Engine:
    def __init__(self) -> None:
        self.sent: list[str] = []
        self.times: list[datetime] = []
        self._answers: list[ReceivedSignal] = []
        self._applies = False

    def fails(self, *answers: ReceivedSignal, applies: bool = False) -> None:
        """Give the next requests these answers, carried out before or not."""
        self._answers, self._applies = list(answers), applies
        self.sent.clear()
        self.times.clear()

    def change(self, send: Dispatch, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.sent.append(operation)
        self.times.append(now())
        if not self._answers or (self._applies and operation == "GetItem"):
            return send(operation, request)
        if self._applies:
            send(operation, dict(request))
        status, code = self._answers.pop(0)
        error: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": 0}}
        raise VerboseClientError(error, operation) from ClientError(error, operation)


@pytest.fixture
def engine_that_fails(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine, connection = Engine(), AppTask.tracker.connection().connection
    send = connection.dispatch
    monkeypatch.setattr(connection, "dispatch", lambda *request: engine.change(send, *request))
    return engine


Arm = Callable[[], None]
"""Called right before the request that is to fail."""


def create(arm: Arm) -> None:
    arm()
    assert Order.create("o-1", amount=3).amount == 3


def claim(arm: Arm) -> None:
    Order.create("o-1")
    arm()
    with Order.confirm_payment.start("o-1", detailed_error=False) as ctx:
        assert (ctx.attempt, ctx.task.fence) == (1, 1)


def save(arm: Arm) -> None:
    Order.create("o-1")
    with pytest.raises(Broken), Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 3
        arm()
        ctx.save()
        raise Broken
    assert Order.get_task("o-1").amount == 3


def extend(arm: Arm) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1") as ctx:
        arm()
        ctx.extend_lock(timedelta(hours=1))
        assert ctx.lock_expire_time == Order.get_task("o-1").lock_expire_time


def success(arm: Arm) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 3
        arm()
    task = Order.get_task("o-1")
    assert (task.state, task.amount) == (Order.ship.pending, 3)


def failure(arm: Arm) -> None:
    Order.create("o-1")
    with pytest.raises(Broken), Order.confirm_payment.start("o-1"):
        arm()
        raise Broken
    task = Order.get_task("o-1")
    assert (task.state, len(task.errors)) == (Order.confirm_payment.failed, 1)


def release(arm: Arm) -> None:
    Order.create("o-1")
    with pytest.raises(KeyboardInterrupt), Order.confirm_payment.start("o-1"):
        arm()
        raise KeyboardInterrupt
    assert Order.get_task("o-1").state == Order.confirm_payment.pending


def ignore(arm: Arm) -> None:
    Order.create("o-1")
    assert Order.get_task("o-1").state == Order.confirm_payment.pending
    arm()
    assert Order.confirm_payment.ignore("o-1", reason="cancelled").state == Order.confirm_payment.ignored


def reopen(arm: Arm) -> None:
    Order.create("o-1", state=Order.confirm_payment.ignored)
    arm()
    assert Order.confirm_payment.reopen("o-1").state == Order.confirm_payment.pending


def delete(arm: Arm) -> None:
    Order.create("o-1")
    arm()
    Order.delete_task("o-1")


STORIES = [create, claim, save, extend, success, failure, release, ignore, reopen, delete]
every_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)


@every_story
def test_temporary_failures_are_retried(engine_that_fails: Engine, story: Callable[[Arm], None]) -> None:
    story(lambda: engine_that_fails.fails(*PASSING))
    assert engine_that_fails.sent[: MOST + 1] == [engine_that_fails.sent[0]] * (MOST + 1)


@every_story
def test_a_request_that_was_applied_despite_a_server_error_counts_once(
    engine_that_fails: Engine, story: Callable[[Arm], None]
) -> None:
    story(lambda: engine_that_fails.fails(FAULT, applies=True))
    assert len(engine_that_fails.sent) > 1


@pytest.mark.parametrize("answer", PASSING, ids=lambda answer: answer[1])
def test_retries_are_limited(engine_that_fails: Engine, clock: StoppedClock, answer: ReceivedSignal) -> None:
    begin = clock.now()
    engine_that_fails.fails(*[answer] * (MOST + 1))
    with pytest.raises(PutError) as error:
        Order.create("o-1")
    assert (error.value.cause_response_code, engine_that_fails.sent) == (answer[1], ["PutItem"] * (MOST + 1))
    assert clock.now() - begin < timedelta(seconds=2)


def test_permanent_failures_are_not_retried(engine_that_fails: Engine) -> None:
    engine_that_fails.fails(DENIED)
    with pytest.raises(PutError):
        Order.create("o-1")
    assert engine_that_fails.sent == ["PutItem"]


def test_each_pause_is_drawn_between_nothing_and_twice_the_one_before(engine_that_fails: Engine) -> None:
    engine_that_fails.fails(*[THROTTLED] * MOST)
    Order.create("o-1")
    times = engine_that_fails.times
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert all(0 <= pause <= 0.05 * 2**number for number, pause in enumerate(pauses))
    assert len(set(pauses)) == MOST


@pytest.mark.parametrize("seconds", [0.01, 0.1])
def test_a_claim_is_not_sent_again_after_the_lock_would_have_ended(
    engine_that_fails: Engine, clock: StoppedClock, seconds: float
) -> None:
    Order.create("o-1")
    begin, lock_for = clock.now(), timedelta(seconds=seconds)
    engine_that_fails.fails(*[THROTTLED] * MOST)
    with pytest.raises(UpdateError):
        Order.confirm_payment.run("o-1", lambda _: pytest.fail("the block runs"), lock_for=lock_for)
    assert clock.now() < begin + lock_for


def test_a_task_that_exists_is_reported_as_existing_although_its_create_was_throttled(
    engine_that_fails: Engine,
) -> None:
    Order.create("o-1")
    engine_that_fails.fails(THROTTLED, THROTTLED)
    with pytest.raises(TaskAlreadyExistsError):
        Order.create("o-1")
    assert engine_that_fails.sent == ["PutItem"] * 3  # what is throttled is not applied, so there is nothing to read


def test_the_log_says_of_a_failure_that_it_was_not_recorded(
    engine_that_fails: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    Order.create("o-1")
    error = Broken()
    with pytest.raises(Broken), Order.confirm_payment.start("o-1") as ctx:
        engine_that_fails.fails(*[THROTTLED] * 10_000)
        raise error
    first, record = caplog.records
    assert "could not be recorded yet" in first.getMessage()
    assert "was not recorded" in record.getMessage()
    assert "confirm_payment of Order 'o-1'" in record.getMessage()
    assert f"taken over after {ctx.lock_expire_time}" in record.getMessage()
    assert "done" not in record.getMessage()
    assert "could not record this" in error.__notes__[0]
