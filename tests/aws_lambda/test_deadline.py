"""Requests end before the invocation does, so that the handler can still answer."""

import math
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pynamodb.exceptions import TransactWriteError, UpdateError

from pynamodb_tracker.aws_lambda import handles, retry_handler
from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.dynamodb.retries import ending_by, latest_response
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, sqs
from tests.aws_lambda.shop import Context, Order, no_access, ready, ship

handler = handles(Order.ship, task_id="order_id")(ship)


@pytest.fixture(scope="module")
def connection() -> SharedConnection:
    return SharedConnection(region="us-east-1", connect_timeout_seconds=3, read_timeout_seconds=5, max_retry_attempts=3)


@pytest.mark.parametrize(
    ("strictly", "timeouts", "tries"),
    [
        (math.inf, (3, 5), 4),
        (39, (3, 5), 4),  # 4 tries of 8 seconds, and pauses of 1, 2 and 4 seconds if it is throttled
        (38, (1.5, 2.5), 4),
        (15, (0.75, 1.25), 4),
        (5.5, (0.5, 0.625), 2),
        (1.125, (0.5, 0.625), 1),
        (-1, (0.5, 0.625), 1),
    ],
)
def test_timeouts_tries_and_pauses_of_the_sdk_fit_into_the_invocation(
    connection: SharedConnection, strictly: float, timeouts: tuple[float, float], tries: int
) -> None:
    config = connection.within(60, strictly).client.meta.config
    assert (config.connect_timeout, config.read_timeout) == timeouts
    assert config.retries["total_max_attempts"] == tries


def test_a_block_without_a_deadline_keeps_that_of_the_block_around_it(clock: StoppedClock) -> None:
    deadline = clock.now()
    with ending_by(deadline), ending_by(None):
        assert latest_response(deadline + timedelta(seconds=1)) == deadline


@pytest.mark.parametrize("again", [False, True], ids=["handles", "retry_handler"])
def test_every_request_of_an_invocation_ends_half_a_second_before_it(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    ready("o-1")
    within, times = SharedConnection.within, list[float]()

    def note(connection: SharedConnection, seconds: float, strictly: float = math.inf) -> SharedConnection:
        times.append(strictly)
        return within(connection, seconds, strictly)

    monkeypatch.setattr(SharedConnection, "within", note)
    monkeypatch.setattr("pynamodb_tracker.clock.seconds_until", lambda time: (time - clock.now()).total_seconds())
    if again:
        retry_handler(Order.ship, lambda _: None, time_per_task=timedelta(seconds=1))({}, Context(clock, 6))
    else:
        handler(bare("o-1"), Context(clock, 6))

    assert set(times) == {5.5}
    assert len(times) > 2 if again else len(times) == 2  # a schedule also queries, and reads the rows that it finds
    times.clear()
    Order.deliver.run("o-1", lambda _: None)
    assert times == []  # nothing ends these before the timeouts of the client


@pytest.mark.parametrize(
    ("operation", "options", "error"),
    [
        ("UpdateItem", {}, UpdateError),
        ("TransactWriteItems", {"create_if_missing": lambda _: {"data": {"scan": "x" * 700_000}}}, TransactWriteError),
    ],
    ids=["claim", "create with large data"],
)
def test_a_throttled_write_is_not_repeated_beyond_the_invocation(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch, *, operation: str, options: Any, error: type[Exception]
) -> None:
    dispatch = SharedConnection.dispatch

    def throttle(connection: SharedConnection, asked: str, *given: Any, **named: Any) -> Any:
        if asked == operation:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, operation)
        return dispatch(connection, asked, *given, **named)

    monkeypatch.setattr(SharedConnection, "dispatch", throttle)
    monkeypatch.setattr("pynamodb_tracker.dynamodb.retries.jittered_pause", lambda *_, **__: 0.4)
    begun = clock.now()
    with pytest.raises(error, match="slow down"):
        handles(Order.ship, task_id="order_id", **options)(ship)(bare("o-1"), Context(clock, 2.5))
    assert clock.now() - begun == timedelta(seconds=0.8)  # another try takes a second, and half a second is left


def test_no_record_is_begun_if_the_table_has_been_slow_to_refuse_the_last_ones(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []
    slow_handler = handles(Order.ship, task_id="order_id")(ship)

    def slow(task_id: str, **_: Any) -> Any:
        tries.append(task_id)
        clock.advance(timedelta(seconds=4))
        return no_access()

    monkeypatch.setattr(Order.ship, "start", slow)
    with pytest.raises(UpdateError):
        slow_handler(sqs(*(bare(f"o-{number}") for number in range(1, 5))), Context(clock, 14))
    assert tries == ["o-1", "o-2", "o-3"]
