"""Attempts and fences: what counts, what does not, and what happens when no attempt is left."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

from datetime import timedelta

import pytest

from pynamodb_tracker import LockLostError, Step, TaskIgnoredError, TaskLockedError, UseCase
from pynamodb_tracker.clock import StoppedClock
from tests.support.network import Network, before
from tests.support.recorder import recorded
from tests.support.rows import change
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, die, fail

pytestmark = pytest.mark.usefixtures("table", "task")

OVER = timedelta(minutes=5, seconds=3)
"""From the claim until the lock of a dead worker has expired for all workers."""


class Strict(AppTask):
    use_case_id = UseCase("strict")

    check = Step(10, max_attempts=1)
    double_check = Step(20, max_attempts=2)


class Patient(AppTask):
    use_case_id = UseCase("patient")

    wait = Step(10, max_attempts=1000)


def killed(task_id: str, clock: StoppedClock, times: int) -> None:
    for _ in range(times):
        die(Order.confirm_payment, task_id)
        clock.advance(OVER)


def test_the_last_attempt_ends_ignored() -> None:
    for expected in (Order.confirm_payment.failed, Order.confirm_payment.failed, Order.confirm_payment.ignored):
        fail(Order.confirm_payment, "o-1")
        assert Order.get_task("o-1").state == expected


def test_the_errors_of_a_task_say_that_its_workers_died(clock: StoppedClock) -> None:
    killed("o-1", clock, 3)
    with pytest.raises(TaskIgnoredError) as caught, Order.confirm_payment.start("o-1"):
        pytest.fail("no attempt is left")
    task = Order.get_task("o-1")
    assert task.state == Order.confirm_payment.ignored
    failure = task.errors[-1]
    assert (failure.step, failure.attempt) == ("confirm_payment", 3)
    assert "3 of 3 attempts" in failure.message
    assert failure.message in str(caught.value)


def test_a_task_may_lose_more_than_a_hundred_workers(clock: StoppedClock) -> None:
    Patient.create("p-1")
    with pytest.raises(LockLostError), Patient.wait.start("p-1"):
        dead = {"L": [{"N": str(fence)} for fence in range(1, 105)]}
        change(Patient, "p-1", attempt={"N": "104"}, fence={"N": "104"}, unfinished=dead)  # as when 104 have died
        clock.advance(OVER)
        die(Patient.wait, "p-1")
        clock.advance(OVER)
        with Patient.wait.start("p-1") as ctx:
            assert (ctx.attempt, ctx.task.fence) == (106, 106)
    assert Patient.get_task("p-1").state == Patient.wait.succeeded


def test_a_limit_that_was_lowered_since_ignores_a_waiting_task() -> None:
    fail(Order.confirm_payment, "o-1")
    change(Order, "o-1", attempt={"N": "3"})  # as when max_attempts was 5
    with pytest.raises(TaskIgnoredError), Order.confirm_payment.start("o-1"):
        pytest.fail("no attempt is left")
    assert Order.get_task("o-1").state == Order.confirm_payment.ignored


def test_a_task_without_attempts_left_is_not_set_aside_before_its_lock_expires() -> None:
    fail(Order.confirm_payment, "o-1")
    fail(Order.confirm_payment, "o-1")
    with Order.confirm_payment.start("o-1") as ctx:
        assert ctx.attempt == 3
        with pytest.raises(Exception, match="held by"), Order.confirm_payment.start("o-1"):
            pytest.fail("it is locked")
    assert Order.get_task("o-1").state == Order.ship.pending


def test_without_detail_a_used_up_task_costs_one_request(clock: StoppedClock) -> None:
    killed("o-1", clock, 3)
    with (
        recorded() as requests,
        pytest.raises(Exception, match="refused"),
        Order.confirm_payment.start("o-1", detailed_error=False),
    ):
        pytest.fail("no attempt is left")
    assert requests.operations == ["UpdateItem"]


def test_each_claim_has_a_higher_fence_whatever_happens_between(clock: StoppedClock) -> None:
    fences = []

    def claim() -> None:
        with Order.confirm_payment.start("o-1", skip_error=True) as ctx:
            fences.append(ctx.task.fence)
            raise Broken

    claim()
    fail(Order.confirm_payment, "o-1", KeyboardInterrupt())
    claim()
    Order.confirm_payment.ignore("o-1", reason="wait")
    Order.confirm_payment.reopen("o-1")
    claim()
    die(Order.confirm_payment, "o-1")
    clock.advance(OVER)
    claim()
    assert (fences, Order.get_task("o-1").fence) == ([1, 3, 4, 6], 6)


def test_a_worker_that_extends_its_last_attempt_in_time_is_not_set_aside(network: Network, clock: StoppedClock) -> None:
    Strict.create("s-1")
    with Strict.check.start("s-1") as ctx:
        clock.advance(OVER)
        before(network, "GetItem", lambda: before(network, "UpdateItem", ctx.extend_lock))  # then it is set aside
        with pytest.raises(TaskLockedError):
            Strict.check.run("s-1", lambda _: None)
        assert Strict.get_task("s-1").state == Strict.check.in_progress
    assert Strict.get_task("s-1").state == Strict.double_check.pending
