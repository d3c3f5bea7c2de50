"""Commands and unusual exceptions add to the recorded failures, and earlier ones stay complete."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

import zlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import Failure, GiveUp, TaskIgnoredError
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import Answer, Network, Request
from tests.support.rows import client, put
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table", "task")

REASON = "BEGIN " + "because of ticket 4711, see the explanation there. " * 10 + " END"
MESSAGE = "the card of customer 4711 was refused by the bank: insufficient funds, code 51"


def failures() -> list[Failure]:
    return list(Order.get_task("o-1").errors)


@pytest.mark.parametrize("reason", ["cancelled by the customer", REASON], ids=["short", "long"])
def test_what_a_person_ignores_keeps_its_failures_whole(reason: str) -> None:
    fail(Order.confirm_payment, "o-1", Broken(MESSAGE))
    (before,) = failures()
    assert (before.message, "raise error" in before.traceback) == (MESSAGE, True)
    ignored = Order.confirm_payment.ignore("o-1", reason=reason)
    assert (failures(), failures()[0], failures()[-1].message) == (list(ignored.errors), before, reason)


def test_the_whole_reason_of_a_person_and_of_a_block_is_kept() -> None:
    Order.confirm_payment.ignore("o-1", reason=REASON)
    assert failures()[-1].message == REASON
    Order.confirm_payment.reopen("o-1")
    fail(Order.confirm_payment, "o-1", GiveUp(REASON))
    assert [failure.message for failure in failures()] == [REASON, REASON]


def test_what_is_set_aside_because_its_attempts_are_used_keeps_its_failures_whole(clock: StoppedClock) -> None:
    fail(Order.confirm_payment, "o-1", Broken(MESSAGE))
    before = failures()
    for _ in range(2):
        die(Order.confirm_payment, "o-1")
        clock.advance(timedelta(hours=1))
    with pytest.raises(TaskIgnoredError):
        succeed(Order.confirm_payment, "o-1")
    assert failures()[:1] == before
    assert "3 of 3 attempts are used" in failures()[-1].message


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("earlier", [0, 1, 2])
def test_an_interrupt_while_the_failures_are_logged_records_none_of_them_twice(
    network: Network, *, sent: bool, earlier: int
) -> None:
    for number in range(earlier):
        fail(Order.confirm_payment, "o-1", Broken(f"{number} {REASON}"))
    before, interrupts = failures(), [KeyboardInterrupt()]

    def interrupt(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation != "PutItem" or not interrupts:
            return send()
        if sent:
            send()
        raise interrupts.pop()

    network.rule = interrupt
    with pytest.raises(KeyboardInterrupt), Order.confirm_payment.start("o-1"):
        raise Broken(f"last {REASON}")
    assert (failures()[:-1], failures()[-1].message) == (before, f"last {REASON}")


def log_item() -> dict[str, Any]:
    key = {"task_id": {"S": "o-1"}, "use_case_id": {"S": "order#errors"}}
    answer = client(AppTask).get_item(TableName=AppTask.Meta.table_name, Key=key, ConsistentRead=True)
    item: dict[str, Any] = answer["Item"]
    return item


@pytest.mark.parametrize("content", [{"B": b"no zlib"}, {"S": "x"}, {"B": zlib.compress(b"[1]")}], ids=repr)
def test_a_log_that_cannot_be_read_hides_no_task_and_keeps_no_failure_from_being_recorded(
    content: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2):
        fail(Order.confirm_payment, "o-1", Broken(f"{number} {REASON}"))
        put(AppTask, {**log_item(), "piece": content})
        assert failures()[-1].message[:3] == f"{number} B"
        assert "showing only the newest errors of Order 'o-1'" in caplog.text
        (queried,) = Order.confirm_payment.failed.query()
        assert queried.errors == failures()
    fail(Order.confirm_payment, "o-1", Broken(f"2 {REASON}"))
    assert (failures()[-1].message, Order.get_task("o-1").state) == (f"2 {REASON}", Order.confirm_payment.ignored)


def test_failures_of_a_deleted_task_are_not_those_of_a_later_one_of_its_id() -> None:
    fail(Order.confirm_payment, "o-1", Broken(f"first {REASON}"))
    of_first = log_item()
    Order.delete_task("o-1")
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", Broken(f"second {REASON}"))
    put(AppTask, {**of_first, "version": {"S": "9" + of_first["version"]["S"]}})
    assert [failure.message[:6] for failure in failures()] == ["second"]


def test_a_part_of_a_row_has_its_failures_whole() -> None:
    fail(Order.confirm_payment, "o-1", Broken(REASON))
    part = Order.get("o-1", consistent_read=True, attributes_to_get=["task_id", "use_case_id", "errors"])
    assert part.errors == failures()


class Problems(Exception):  # noqa: N818 - a user's own
    """Any number of problems, none included: then it is falsy."""

    def __len__(self) -> int:
        return len(self.args)


@pytest.mark.parametrize("promised", [False, True])
def test_an_exception_that_is_falsy_is_recorded_as_itself(*, promised: bool) -> None:
    error = Problems()
    with pytest.raises(Problems) as left, Order.confirm_payment.start("o-1") as ctx:
        if promised:
            ctx.transaction(succeed=True)
        raise error
    assert left.value is error
    assert [failure.type for failure in failures()] == ["Problems"]


def test_a_falsy_exception_after_the_success_gets_a_note_that_the_success_stands() -> None:
    with pytest.raises(Problems) as left, Order.confirm_payment.start("o-1") as ctx:
        with ctx.transaction(succeed=True):
            pass
        raise Problems
    assert any("had recorded the success" in note for note in left.value.__notes__)
    assert Order.get_task("o-1").state == Order.ship.pending
