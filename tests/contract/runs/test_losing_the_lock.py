"""A block that outlived its lock gets an error, and nothing of it is stored."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

from collections.abc import Callable
from datetime import timedelta

import pytest

from pynamodb_tracker import LockLostError, TaskIgnoredError
from pynamodb_tracker.clock import StoppedClock
from tests.support.shop import Order, created
from tests.support.workers import Broken, FrozenError, die, fail, succeed

pytestmark = pytest.mark.usefixtures("client", "table", "task")

OVER = timedelta(minutes=5, seconds=3)


def lost_to_two_others() -> None:
    succeed(Order.confirm_payment, "o-1")
    die(Order.ship, "o-1")


def lost_to_a_person_who_reopened_it() -> None:
    Order.confirm_payment.ignore("o-1", reason="stuck")
    Order.confirm_payment.reopen("o-1")


def created_again() -> None:
    Order.delete_task("o-1")
    Order.create("o-1", amount=1)


Loss = Callable[[], object]

LOSSES: dict[str, Loss] = {
    "a success": lambda: succeed(Order.confirm_payment, "o-1"),
    "a failure": lambda: fail(Order.confirm_payment, "o-1"),
    "one that still runs": lambda: die(Order.confirm_payment, "o-1"),
    "a release": lambda: fail(Order.confirm_payment, "o-1", KeyboardInterrupt()),
    "two others": lost_to_two_others,
    "a person": lambda: Order.confirm_payment.ignore("o-1", reason="stuck"),
    "a person who reopened it": lost_to_a_person_who_reopened_it,
    "a deletion": lambda: Order.delete_task("o-1"),
    "a deletion and a new task": created_again,
}
TYPICAL = {name: LOSSES[name] for name in ("one that still runs", "a deletion and a new task")}

each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
each_typical_loss = pytest.mark.parametrize("loss", TYPICAL.values(), ids=TYPICAL)


@pytest.fixture
def lose(clock: StoppedClock) -> Callable[[Loss], None]:
    """Call it with a loss, within a block whose lock is then over."""

    def lose(loss: Loss) -> None:
        clock.advance(OVER)
        loss()

    return lose


Lose = Callable[[Loss], None]


def row() -> object:
    """Return all of the task that anybody could see."""
    tasks = Order.query("o-1")
    return [(task.status, task.attempt, task.fence, task.amount, task.data, task.errors) for task in tasks]


@created(amount=1)
@each_loss
def test_nothing_of_a_block_that_lost_its_lock_is_saved_and_its_end_is_an_error(loss: Loss, lose: Lose) -> None:
    with (
        pytest.raises(LockLostError, match=r"confirm_payment of Order 'o-1'"),
        Order.confirm_payment.start("o-1") as ctx,
    ):
        ctx.task.amount = 2
        ctx.task.data["late"] = True
        lose(loss)
        before = row()
    assert row() == before


@created(amount=1)
@each_loss
def test_a_failure_of_a_block_that_lost_its_lock_is_not_recorded_and_propagates_with_a_note(
    loss: Loss, lose: Lose
) -> None:
    error = Broken("of the block")
    with pytest.raises(Broken) as caught, Order.confirm_payment.start("o-1"):
        lose(loss)
        before = row()
        raise error
    assert row() == before
    assert caught.value is error
    assert "lost" in error.__notes__[0]


def test_an_exception_that_takes_no_note_propagates_unchanged_from_a_block_that_lost_its_lock(lose: Lose) -> None:
    error = FrozenError("of the block")
    with pytest.raises(FrozenError) as caught, Order.confirm_payment.start("o-1"):
        lose(LOSSES["a success"])
        raise error
    assert caught.value is error


@created(amount=1)
@each_typical_loss
def test_ctrl_c_in_a_block_that_lost_its_lock_releases_nothing(loss: Loss, lose: Lose) -> None:
    with pytest.raises(KeyboardInterrupt), Order.confirm_payment.start("o-1"):
        lose(loss)
        before = row()
        raise KeyboardInterrupt
    assert row() == before


@pytest.mark.parametrize("error", [None, Broken()], ids=["success", "failure"])
def test_what_could_not_be_recorded_is_not_suppressed_by_skip_error(lose: Lose, error: Broken | None) -> None:
    with pytest.raises(Broken if error else LockLostError), Order.confirm_payment.start("o-1", skip_error=True):
        lose(LOSSES["a success"])
        if error:
            raise error


def test_the_error_of_a_lost_lock_carries_the_row_as_it_was_found(lose: Lose) -> None:
    with pytest.raises(LockLostError) as caught, Order.confirm_payment.start("o-1"):
        lose(LOSSES["one that still runs"])
    assert caught.value.task_id == "o-1"
    assert caught.value.task is not None
    assert (caught.value.task.state, caught.value.task.fence) == (Order.confirm_payment.in_progress, 2)


def test_a_success_after_the_lock_expired_counts_unless_another_worker_took_the_task(clock: StoppedClock) -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        clock.advance(timedelta(hours=1))
        ctx.task.amount = 2
    task = Order.get_task("o-1")
    assert (task.state, task.amount) == (Order.ship.pending, 2)


def test_a_failure_after_the_lock_expired_is_recorded_unless_another_worker_took_the_task(clock: StoppedClock) -> None:
    with pytest.raises(Broken), Order.confirm_payment.start("o-1"):
        clock.advance(timedelta(hours=1))
        raise Broken
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


def test_a_success_of_the_last_attempt_is_lost_once_the_task_was_set_aside(clock: StoppedClock) -> None:
    fail(Order.confirm_payment, "o-1")
    fail(Order.confirm_payment, "o-1")
    with pytest.raises(LockLostError), Order.confirm_payment.start("o-1"):
        clock.advance(OVER)
        with pytest.raises(TaskIgnoredError):
            succeed(Order.confirm_payment, "o-1")
    assert Order.get_task("o-1").state == Order.confirm_payment.ignored
