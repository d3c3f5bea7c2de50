"""A claim that was applied, but whose answer never arrives: the task is released, and does not stay locked."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pynamodb.attributes import UnicodeAttribute
from pynamodb.exceptions import GetError, PynamoDBConnectionError, UpdateError

from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.writes.lock import new_token
from tests.support.network import SKIPPED_OCCURRENCES, Network, error, passing, throttled
from tests.support.rows import change, stored
from tests.support.shop import Order, created
from tests.support.workers import die, entered

pytestmark = pytest.mark.usefixtures("table", "task")


class TimeLimit(Exception):  # noqa: N818 - a user's own
    """What a signal handler raises, as job queues do at a soft time limit."""


STOPS = [SystemExit(143), KeyboardInterrupt(), TimeLimit()]


def given_back() -> bool:
    task = Order.get_task("o-1")
    return (task.state, task.attempt, task.fence) == (Order.confirm_payment.pending, 0, 1)


def never(_: Any) -> None:
    pytest.fail("the block ran")


def test_a_repeated_claim_whose_row_cannot_be_read_is_released(network: Network) -> None:
    unread = throttled("GetItem", SKIPPED_OCCURRENCES)

    def met_itself(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        if operation == "UpdateItem":
            network.rule = unread
            send()
            raise error(operation, "ConditionalCheckFailedException", repeats=1)
        return send()

    network.rule = met_itself
    with pytest.raises(GetError) as told:
        Order.confirm_payment.run("o-1", never)
    assert any("was released" in note for note in told.value.__notes__)
    assert given_back()


def test_a_claim_with_a_late_answer_that_cannot_be_extended_is_released(network: Network, clock: StoppedClock) -> None:
    unextended = throttled("UpdateItem")

    def late(_operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        network.rule = unextended
        answer = send()
        clock.advance(timedelta(minutes=5))
        return answer

    network.rule = late
    with pytest.raises(UpdateError):
        Order.confirm_payment.run("o-1", never)
    assert given_back()


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: type(stop).__name__)
def test_an_interrupted_claim_is_released(network: Network, stop: BaseException) -> None:
    def cut_short(_operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        network.rule = passing
        send()
        raise stop

    network.rule = cut_short
    with pytest.raises(type(stop)) as left:
        Order.confirm_payment.run("o-1", never)
    assert left.value is stop
    assert any("was released" in note for note in stop.__notes__)
    assert given_back()


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: type(stop).__name__)
@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
def test_an_interrupt_during_the_success_propagates_after_it_is_recorded(
    network: Network, stop: BaseException, applied: Any
) -> None:
    def cut_short(_operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        network.rule = passing
        if applied:
            send()
        raise stop

    with pytest.raises(type(stop)) as left, Order.confirm_payment.start("o-1") as ctx:  # noqa: PT012 - the block ends well
        ctx.task.amount = 5
        network.rule = cut_short
    assert left.value is stop
    task = Order.get_task("o-1")
    assert (task.state, task.amount, task.errors) == (Order.ship.pending, 5, [])


def test_a_claim_that_was_never_applied_is_reported_as_not_applied(network: Network) -> None:
    network.rule = throttled("UpdateItem", SKIPPED_OCCURRENCES)
    with pytest.raises(PynamoDBConnectionError) as told:
        Order.confirm_payment.run("o-1", never)
    assert not getattr(told.value, "__notes__", [])
    assert Order.get_task("o-1").fence == 0


@created(state=Order.deliver.failed)
def test_a_claim_that_was_refused_before_the_table_failed_gives_nothing_back(network: Network) -> None:
    operations: list[str] = []

    def denied_in_the_end(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        operations.append(operation)
        if len(operations) > 2:
            raise error(operation, "AccessDeniedException")
        return send()

    network.rule = denied_in_the_end
    with pytest.raises(PynamoDBConnectionError) as told:
        Order.confirm_payment.run("o-1", never, also_from=(Order.deliver.failed,))
    assert not getattr(told.value, "__notes__", [])
    assert operations == ["UpdateItem", "GetItem", "UpdateItem"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_claim_that_was_interrupted_before_it_arrived_is_refused_when_it_does(network: Network, number: int) -> None:
    late: list[Callable[[], Any]] = []
    claims: list[str] = []
    if number == 2:  # the clock of the last one to claim was ahead, so the first claim is refused
        change(Order, "o-1", lock={"S": new_token(above="7" + "0" * 23)})

    def cut_short(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        claims.extend([operation] * (operation == "UpdateItem"))
        if len(claims) < number:
            return send()
        network.rule = passing
        late.append(send)
        raise KeyboardInterrupt

    network.rule = cut_short
    with pytest.raises(KeyboardInterrupt) as left:
        Order.confirm_payment.run("o-1", never)
    assert any("was not locked by this call" in note for note in left.value.__notes__)
    with pytest.raises(ClientError, match="conditional request failed"):
        late[0]()
    assert Order.get_task("o-1").fence == 0


def has_a_status_of_another_version() -> None:
    change(Order, "o-1", status={"N": "55"}, lock={"S": "0" * 24})


@pytest.mark.parametrize(
    "held", [lambda: die(Order.confirm_payment, "o-1"), has_a_status_of_another_version], ids=["here", "there"]
)
def test_an_interrupted_claim_of_a_task_that_another_worker_holds_may_still_lock_it(
    network: Network, caplog: pytest.LogCaptureFixture, held: Callable[[], None]
) -> None:
    held()

    def cut_short(_operation: str, _request: Any, _send: Callable[[], Any]) -> Any:
        network.rule = passing
        raise KeyboardInterrupt

    before = stored(Order, "o-1")
    network.rule = cut_short
    with pytest.raises(KeyboardInterrupt) as left:
        Order.confirm_payment.run("o-1", never)
    assert any("may still be locked by this call" in note for note in left.value.__notes__)
    assert "may still be locked by this call" in caplog.text
    assert stored(Order, "o-1") == before


def test_an_end_that_is_interrupted_twice_is_noted_and_logged(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    def cut_short(_operation: str, _request: Any, _send: Callable[[], Any]) -> Any:
        raise TimeLimit

    with pytest.raises(TimeLimit) as left, Order.confirm_payment.start("o-1"):
        network.rule = cut_short
    network.rule = passing
    for told in (left.value.__notes__[-1], caplog.text):
        assert "could not record how confirm_payment of Order 'o-1' (attempt 1) ended" in told
        assert "stays locked until" in told


def test_an_interrupt_says_that_the_failure_which_it_hides_is_not_on_record(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    def cut_short(_operation: str, _request: Any, _send: Callable[[], Any]) -> Any:
        network.rule = passing
        raise TimeLimit

    def lose(_ctx: object) -> None:
        Order.confirm_payment.ignore("o-1", reason="wrong address", even_running=True)
        network.rule = cut_short
        raise ValueError

    with pytest.raises(TimeLimit) as left:
        Order.confirm_payment.run("o-1", lose)
    for told in (left.value.__notes__[-1], caplog.text):
        assert "could not record how confirm_payment of Order 'o-1' (attempt 1) ended" in told
        assert "wrong address" in told


def test_the_error_of_a_transaction_that_a_block_has_caught_says_once_that_its_failure_is_not_on_record() -> None:
    def lose(ctx: Any) -> None:
        with suppress(TimeLimit), ctx.transaction(succeed=True):
            raise TimeLimit
        Order.confirm_payment.ignore("o-1", reason="wrong address", even_running=True)

    with pytest.raises(TimeLimit) as left:
        Order.confirm_payment.run("o-1", lose)
    assert len([note for note in left.value.__notes__ if "could not record" in note]) == 1


def test_a_time_limit_while_values_are_serialized_is_raised_after_the_success_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [TimeLimit()]
    original = UnicodeAttribute.serialize

    def serialize(attribute: Any, value: Any) -> Any:
        if left:
            raise left.pop()
        return original(attribute, value)

    with pytest.raises(TimeLimit), Order.confirm_payment.start("o-1") as ctx:  # noqa: PT012 - the block ends well
        ctx.task.tracking_no = "T-1"
        monkeypatch.setattr(UnicodeAttribute, "serialize", serialize)
    task = Order.get_task("o-1")
    assert (task.state, task.tracking_no, task.errors) == (Order.ship.pending, "T-1", [])


@created(tracking_no="T-1")
def test_a_time_limit_while_the_row_is_read_releases_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [TimeLimit()]
    original = UnicodeAttribute.deserialize

    def deserialize(attribute: Any, value: Any) -> Any:
        if left and attribute.attr_name == "tracking_no":
            raise left.pop()
        return original(attribute, value)

    monkeypatch.setattr(UnicodeAttribute, "deserialize", deserialize)
    with pytest.raises(TimeLimit):
        Order.confirm_payment.run("o-1", never)
    assert given_back()


def test_a_run_that_is_left_without_its_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    run = entered(Order.confirm_payment, "o-1")
    del run
    assert "the end of confirm_payment of Order 'o-1' (attempt 1) was not recorded" in caplog.text
    assert "stays locked until" in caplog.text
