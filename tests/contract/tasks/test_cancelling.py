"""Cancelling: a person ignores a task although a worker is running it."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import LockLostError, TaskAlreadySucceededError, TaskIgnoredError, TaskLockedError
from pynamodb_tracker.clock import StoppedClock
from tests.support.network import Network, before
from tests.support.shop import Order
from tests.support.workers import die, entered, fail

pytestmark = pytest.mark.usefixtures("table", "task")


def cancel() -> Order:
    return Order.confirm_payment.ignore("o-1", reason="wrong amount", by="ada", even_running=True)


def test_a_cancelled_run_records_nothing_and_is_told_who_cancelled_it_and_why() -> None:
    lives = Order.confirm_payment.start("o-1")
    ctx = lives.__enter__()
    ctx.task.amount = 5
    cancelled = cancel()
    assert cancelled.state == Order.confirm_payment.ignored
    with pytest.raises(LockLostError, match=r"ada ignored the task \(wrong amount\)\. Nothing was recorded"):
        ctx.extend_lock()
    assert ctx.lock_lost
    with pytest.raises(LockLostError) as told:
        lives.__exit__(None, None, None)
    assert "lock_for" not in str(told.value)
    assert Order.get_task("o-1").to_dynamodb_dict() == cancelled.to_dynamodb_dict()


def test_a_cancelled_block_that_fails_records_no_failure() -> None:
    def fail_after_the_cancel(_: object) -> None:
        cancel()
        raise ValueError("too late")

    with pytest.raises(ValueError, match="too late") as raised:
        Order.confirm_payment.run("o-1", fail_after_the_cancel)
    assert "ada ignored the task (wrong amount)" in raised.value.__notes__[0]
    assert [(entry.type, entry.attempt) for entry in Order.get_task("o-1").errors] == [("ignored", 1)]


def test_a_cancelled_task_is_not_run_again_until_it_is_reopened() -> None:
    die(Order.confirm_payment, "o-1")
    cancel()
    with pytest.raises(TaskIgnoredError, match="wrong amount"), Order.confirm_payment.start("o-1"):
        pytest.fail("it is ignored")
    assert Order.confirm_payment.reopen("o-1").attempt == 0
    with Order.confirm_payment.start("o-1") as ctx:
        assert (ctx.attempt, ctx.task.fence) == (1, 2)


def test_a_run_whose_lock_had_expired_is_still_advised_to_take_a_longer_one(clock: StoppedClock) -> None:
    slow = entered(Order.confirm_payment, "o-1")
    clock.advance(timedelta(hours=1))
    cancel()
    with pytest.raises(LockLostError, match=r"ada ignored the task .* Use a longer lock_for"):
        slow.__exit__(None, None, None)


@pytest.mark.parametrize("ends", [None, KeyboardInterrupt()], ids=["succeeds", "is released"])
def test_a_run_that_ends_while_it_is_cancelled_is_decided_once(network: Network, ends: Any) -> None:
    lives = entered(Order.confirm_payment, "o-1")
    before(network, "UpdateItem", lambda: lives.__exit__(ends and type(ends), ends, None))
    if ends is None:
        with pytest.raises(TaskAlreadySucceededError):
            cancel()
    else:
        assert cancel().state == Order.confirm_payment.ignored


def test_a_waiting_task_is_ignored_as_without_it() -> None:
    fail(Order.confirm_payment, "o-1")
    assert cancel().state == Order.confirm_payment.ignored


def test_a_running_task_is_refused_with_the_way_to_cancel_it() -> None:
    die(Order.confirm_payment, "o-1")
    with pytest.raises(
        TaskLockedError, match=r"Try again after that. To ignore it now and cancel its run, pass even_running=True"
    ):
        Order.confirm_payment.ignore("o-1", reason="wrong amount")
    with pytest.raises(TypeError, match="even_running"):
        Order.confirm_payment.ignore("o-1", reason="wrong amount", even_running="yes")  # type: ignore[arg-type]
