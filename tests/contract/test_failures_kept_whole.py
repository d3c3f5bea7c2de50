"""Commands and unusual exceptions add to the recorded failures, and earlier ones stay complete."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

from __future__ import annotations

from datetime import timedelta

import pytest

from pynamodb_tracker import Failure, GiveUp, TaskIgnoredError
from pynamodb_tracker.testing import StoppedClock
from tests.support.shop import Order
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

REASON = "BEGIN " + "because of ticket 4711, see the explanation there. " * 10 + " END"
MESSAGE = "the card of customer 4711 was refused by the bank: insufficient funds, code 51"


def failures() -> list[Failure]:
    return list(Order.get_task("o-1").errors)


@pytest.mark.parametrize("reason", ["cancelled by the customer", REASON], ids=["short", "long"])
def test_what_a_person_ignores_keeps_its_failures_whole(reason: str) -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", Broken(MESSAGE))
    (before,) = failures()
    assert (before.message, "raise error" in before.traceback) == (MESSAGE, True)
    ignored = Order.confirm_payment.ignore("o-1", reason=reason)
    assert failures() == list(ignored.errors)
    assert (failures()[0], failures()[-1].message) == (before, reason)


def test_the_whole_reason_of_a_person_and_of_a_block_is_kept() -> None:
    Order.create("o-1")
    Order.confirm_payment.ignore("o-1", reason=REASON)
    assert failures()[-1].message == REASON
    Order.confirm_payment.reopen("o-1")
    fail(Order.confirm_payment, "o-1", GiveUp(REASON))
    assert [failure.message for failure in failures()] == [REASON, REASON]


def test_what_is_set_aside_because_its_attempts_are_used_keeps_its_failures_whole(clock: StoppedClock) -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", Broken(MESSAGE))
    before = failures()
    for _ in range(2):
        die(Order.confirm_payment, "o-1")
        clock.advance(timedelta(hours=1))
    with pytest.raises(TaskIgnoredError):
        succeed(Order.confirm_payment, "o-1")
    assert failures()[:-1] == before
    assert "3 of 3 attempts are used" in failures()[-1].message


class Problems(Exception):  # noqa: N818 - a user's own
    """Any number of problems, none included: then it is falsy."""

    def __len__(self) -> int:
        return len(self.args)


@pytest.mark.parametrize("promised", [False, True])
def test_an_exception_that_is_falsy_is_recorded_as_itself(promised: bool) -> None:  # noqa: FBT001 - pytest's
    Order.create("o-1")
    error = Problems()
    with pytest.raises(Problems) as left, Order.confirm_payment.start("o-1") as ctx:
        if promised:
            ctx.transaction(succeed=True)
        raise error
    assert left.value is error
    assert [failure.type for failure in failures()] == ["Problems"]


def test_a_falsy_exception_after_the_success_gets_a_note_that_the_success_stands() -> None:
    Order.create("o-1")
    with pytest.raises(Problems) as left, Order.confirm_payment.start("o-1") as ctx:
        with ctx.transaction(succeed=True):
            pass
        raise Problems
    assert any("had recorded the success" in note for note in left.value.__notes__)
    assert Order.get_task("o-1").state == Order.ship.pending
