"""Locks: when one is taken over, and how its holder extends it."""

import time
from datetime import timedelta

import pytest

from pynamodb_tracker import Step, Task, TaskLockedError, TaskNotReadyError, UseCase
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.writes.lock import new_token
from tests.support.recorder import recorded
from tests.support.rows import change, index_entries, stored
from tests.support.shop import AppTask, Order
from tests.support.workers import die, fail, succeed

pytestmark = pytest.mark.usefixtures("client", "table", "task")

LOCK = timedelta(minutes=5)
MARGIN = timedelta(seconds=2)
MOMENT = timedelta(microseconds=1)


class ExactTask(Task):
    """The table of workers whose clocks agree."""

    class Meta:
        table_name = "exact"
        region = "us-east-1"
        clock_margin = timedelta(0)


class Exact(ExactTask):
    use_case_id = UseCase("exact")

    work = Step(10)


TABLES = [AppTask, ExactTask]


def test_a_lock_is_taken_over_after_the_margin(clock: StoppedClock) -> None:
    die(Order.confirm_payment, "o-1")
    clock.advance(LOCK + MARGIN + MOMENT)
    succeed(Order.confirm_payment, "o-1")
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_task_may_start_within_the_margin_before_it_is_due(clock: StoppedClock) -> None:
    Order.create("o-2", due_time=clock.now() + MARGIN)
    succeed(Order.confirm_payment, "o-2")
    assert Order.get_task("o-2").state == Order.ship.pending


def test_a_task_does_not_start_earlier_than_the_margin(clock: StoppedClock) -> None:
    Order.create("o-2", due_time=clock.now() + MARGIN + MOMENT)
    with pytest.raises(TaskNotReadyError), Order.confirm_payment.start("o-2"):
        pytest.fail("it is not due")


def test_meta_sets_the_margin_for_due_tasks(clock: StoppedClock) -> None:
    Exact.create("e-1", due_time=clock.now() + MOMENT)
    with pytest.raises(TaskNotReadyError), Exact.work.start("e-1"):
        pytest.fail("it is not due")
    clock.advance(MOMENT)
    succeed(Exact.work, "e-1")


def test_meta_sets_the_margin_for_locks(clock: StoppedClock) -> None:
    Exact.create("e-1")
    die(Exact.work, "e-1")
    clock.advance(LOCK)
    with pytest.raises(TaskLockedError), Exact.work.start("e-1"):
        pytest.fail("it is locked")
    clock.advance(MOMENT)
    succeed(Exact.work, "e-1")


@pytest.mark.parametrize(
    ("by", "held"),
    [((), LOCK), ((timedelta(hours=2),), timedelta(hours=2)), ((MOMENT,), timedelta(minutes=1))],
    ids=["as long again", "for longer", "never shorter"],
)
def test_extend_lock_holds_the_task_from_now(clock: StoppedClock, by: tuple[timedelta, ...], held: timedelta) -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        clock.advance(timedelta(minutes=4))
        ctx.extend_lock(*by)
        assert ctx.lock_expire_time == clock.now() + held == Order.get_task("o-1").lock_expire_time


def test_extend_lock_takes_as_long_as_start_was_given(clock: StoppedClock) -> None:
    with Order.confirm_payment.start("o-1", lock_for=timedelta(hours=1)) as ctx:
        clock.advance(timedelta(minutes=30))
        ctx.extend_lock()
        assert ctx.lock_expire_time == clock.now() + timedelta(hours=1)


def test_extend_lock_is_one_request_and_touches_no_attribute_of_the_index() -> None:
    with Order.confirm_payment.start("o-1") as ctx, recorded() as requests:
        before = index_entries(AppTask)
        requests.clear()
        ctx.extend_lock(timedelta(hours=1))
        assert (requests.operations, requests[0].written) == (["UpdateItem"], {"lock_expire_time"})
        assert index_entries(AppTask) == before


def test_tokens_of_a_row_only_grow() -> None:
    tokens = []
    for order in (
        lambda: fail(Order.confirm_payment, "o-1"),
        lambda: Order.confirm_payment.ignore("o-1", reason="wait"),
        lambda: Order.confirm_payment.reopen("o-1"),
        lambda: succeed(Order.confirm_payment, "o-1"),
    ):
        order()
        tokens.append(stored(Order, "o-1")["lock"]["S"])
    assert tokens == sorted(set(tokens))


def test_a_row_whose_token_is_far_ahead_has_no_effect_on_the_tokens_of_others() -> None:
    Order.create_many(["ahead", "other"])
    change(Order, "ahead", lock={"S": "7" * 24})
    for task_id in ("ahead", "other"):
        succeed(Order.confirm_payment, task_id)
    assert stored(Order, "ahead")["lock"]["S"] > "7" * 24
    assert int(stored(Order, "other")["lock"]["S"][:16], 16) <= time.time_ns() + 1000  # a later token has one more


def test_tokens_above_the_same_one_grow() -> None:
    tokens = [new_token(above="7" * 24) for _ in range(20)]
    assert tokens == sorted(tokens)
