"""Releasing by command: a person frees the task of a worker that is known to be dead."""

import os
from datetime import timedelta

import pytest

from pynamodb_tracker import (
    BoundStep,
    LockLostError,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
)
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.model import worker_name
from pynamodb_tracker.model.worker_name import this_worker
from tests.support.network import Network, before, error, unreached
from tests.support.rows import stored
from tests.support.shop import Order, Receipt
from tests.support.workers import die, entered, fail

pytestmark = pytest.mark.usefixtures("table", "task")


def unlock(step: BoundStep[Order] = Order.confirm_payment, **held_by: str | None) -> Order:
    return step.unlock("o-1", reason="the host is gone", by="ada", **(held_by or {"worker": this_worker()}))


def refuse() -> None:
    """ReceivedSignal as the engine does if an update makes the row too large."""
    raise error("UpdateItem", "ValidationException")


def test_an_unlocked_task_is_pending_and_due_at_once_and_its_attempt_counts(clock: StoppedClock) -> None:
    die(Order.confirm_payment, "o-1")
    clock.advance(timedelta(minutes=1))
    task = unlock()
    assert isinstance(task, Order)
    assert (task.state, task.attempt, task.due_time) == (Order.confirm_payment.pending, 1, clock.now())
    assert task.to_dynamodb_dict() == Order.get_task("o-1").to_dynamodb_dict()
    with Order.confirm_payment.start("o-1") as ctx:
        assert ctx.attempt == 2


def test_an_unlock_keeps_who_unlocked_the_task_and_why(clock: StoppedClock) -> None:
    die(Order.confirm_payment, "o-1")
    (entry,) = unlock().errors
    assert (entry.type, entry.message, entry.worker) == ("unlocked", "the host is gone", "ada")
    assert (entry.step, entry.attempt, entry.time) == ("confirm_payment", 1, clock.now())


def test_an_unlock_that_the_row_has_no_room_for_keeps_the_last_error(network: Network) -> None:
    fail(Order.confirm_payment, "o-1")
    failed = Order.get_task("o-1").last_error
    die(Order.confirm_payment, "o-1")
    before(network, "UpdateItem", refuse)
    assert (unlock().last_error, Order.get_task("o-1").errors) == (failed, [])


def test_a_worker_without_its_lock_that_lives_records_nothing() -> None:
    lives = Order.confirm_payment.start("o-1")
    ctx = lives.__enter__()
    ctx.task.amount = 5
    unlocked = unlock()
    with pytest.raises(LockLostError):
        ctx.save()
    with pytest.raises(LockLostError, match=r"ada unlocked the task \(the host is gone\)\. Nothing was recorded"):
        lives.__exit__(None, None, None)
    assert Order.get_task("o-1").to_dynamodb_dict() == unlocked.to_dynamodb_dict()


def test_a_run_that_loses_its_lock_after_an_earlier_unlock_is_not_told_of_that(clock: StoppedClock) -> None:
    die(Order.confirm_payment, "o-1")
    unlock()
    clock.advance(timedelta(seconds=1))
    slow = entered(Order.confirm_payment, "o-1")
    clock.advance(timedelta(minutes=6))
    die(Order.confirm_payment, "o-1")
    with pytest.raises(LockLostError, match=r"in_progress, last claimed by .*Use a longer lock_for"):
        slow.__exit__(None, None, None)


def test_after_the_last_attempt_is_unlocked_the_next_start_ignores_the_task() -> None:
    Receipt.create("o-1")
    die(Receipt.send, "o-1")
    token = Receipt.get_task("o-1").lock
    assert Receipt.send.unlock("o-1", reason="the host is gone", fencing_token=token).state == Receipt.send.pending
    with pytest.raises(TaskIgnoredError, match="1 of 1 attempts are used"), Receipt.send.start("o-1"):
        pytest.fail("no attempt is left")
    assert [entry.type for entry in Receipt.get_task("o-1").errors] == ["unlocked", "ignored"]


def test_only_the_task_of_the_named_worker_is_unlocked() -> None:
    die(Order.confirm_payment, "o-1")
    holder = Order.get_task("o-1").worker
    with pytest.raises(TaskLockedError, match=f"it is not held by another:1. Attempt .* held by {holder}") as caught:
        unlock(worker="another:1")
    assert caught.value.task is not None
    assert caught.value.task.state == Order.confirm_payment.in_progress
    assert unlock(worker=holder).state == Order.confirm_payment.pending


def test_without_a_name_only_a_task_whose_lock_has_expired_is_unlocked(clock: StoppedClock) -> None:
    die(Order.confirm_payment, "o-1")
    task = Order.get_task("o-1")
    clock.advance(timedelta(minutes=5, seconds=2))
    told = f"its lock is valid until .*. If {task.worker} is dead, pass fencing_token='{task.lock}' or worker='"
    with pytest.raises(TaskLockedError, match=told):
        Order.confirm_payment.unlock("o-1", reason="it seems to be dead")
    clock.advance(timedelta(microseconds=1))
    unlocked = Order.confirm_payment.unlock("o-1", reason="it seems to be dead")
    assert unlocked.state == Order.confirm_payment.pending


def test_the_next_life_of_a_container_keeps_its_claim() -> None:
    die(Order.confirm_payment, "o-1")
    shown = Order.get_task("o-1")
    assert unlock(fencing_token=shown.lock, worker=shown.worker).state == Order.confirm_payment.pending
    worker_name._life.cache_clear()  # the container starts again, with the same host name and process id
    die(Order.confirm_payment, "o-1")
    assert Order.get_task("o-1").worker != shown.worker
    for named in ({"worker": shown.worker}, {"fencing_token": shown.lock}):
        with pytest.raises(TaskLockedError, match="it is not held by"):
            unlock(**named)
    assert Order.get_task("o-1").state == Order.confirm_payment.in_progress


def test_a_forked_process_has_another_name() -> None:
    pipe = os.pipe()
    if (child := os.fork()) == 0:
        os.write(pipe[1], this_worker().encode())
        os._exit(0)
    os.waitpid(child, 0)
    name = os.read(pipe[0], 100).decode()
    assert name.split(":")[:2] == [this_worker().split(":")[0], str(child)]
    assert name.split(":")[2] != this_worker().split(":")[2]


def test_a_task_that_somebody_else_unlocks_at_the_same_time_is_unlocked_once(
    network: Network, clock: StoppedClock
) -> None:
    def rival() -> None:
        clock.advance(timedelta(milliseconds=1))
        Order.confirm_payment.unlock("o-1", reason="it hangs", worker=this_worker(), by="grace")

    die(Order.confirm_payment, "o-1")
    before(network, "UpdateItem", rival)
    assert unlock().state == Order.confirm_payment.pending
    assert [entry.worker for entry in Order.get_task("o-1").errors] == ["grace"]


def test_a_task_that_no_worker_holds_stays_as_it_is() -> None:
    fail(Order.confirm_payment, "o-1")
    before = stored(Order, "o-1")
    assert (unlock().state, stored(Order, "o-1")) == (Order.confirm_payment.failed, before)


@pytest.mark.parametrize(
    ("task", "step", "error"),
    [
        ({"state": Order.ship.pending}, Order.confirm_payment, TaskAlreadySucceededError),
        ({"state": Order.ship.pending}, Order.deliver, TaskNotReadyError),
        ({"state": Order.ship.ignored}, Order.ship, TaskIgnoredError),
    ],
    indirect=["task"],
)
def test_an_unlock_of_a_step_that_no_worker_can_hold_is_refused(step: BoundStep[Order], error: type[Exception]) -> None:
    with pytest.raises(error, match="cannot unlock"):
        unlock(step)


def test_a_task_that_its_worker_ended_meanwhile_stays_as_that_left_it(network: Network) -> None:
    lives = entered(Order.confirm_payment, "o-1")
    before(network, "UpdateItem", lambda: lives.__exit__(None, None, None))
    with pytest.raises(TaskAlreadySucceededError):
        unlock()
    assert [entry.type for entry in Order.get_task("o-1").errors] == []


def test_an_unlock_that_meets_the_next_worker_unlocks_nothing(network: Network) -> None:
    lives = Order.confirm_payment.start("o-1")
    holder = lives.__enter__().task.worker

    def next_worker() -> None:
        lives.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        die(Order.confirm_payment, "o-1")

    before(network, "UpdateItem", next_worker)
    told = f"not held by the claim of {holder} that was to be unlocked. Attempt 1 is held by {holder} until"
    with pytest.raises(TaskLockedError, match=told) as caught:
        unlock(worker=holder)
    assert caught.value.task is not None
    assert Order.get_task("o-1").state == Order.confirm_payment.in_progress


def test_an_unlock_of_a_task_that_was_deleted_meanwhile_does_not_find_it(network: Network, clock: StoppedClock) -> None:
    die(Order.confirm_payment, "o-1")
    clock.advance(timedelta(hours=1))
    before(network, "UpdateItem", lambda: Order.delete_task("o-1"))
    with pytest.raises(TaskNotFoundError):
        unlock()


def test_an_unlock_does_not_find_a_missing_task() -> None:
    Order.delete_task("o-1")
    with pytest.raises(TaskNotFoundError, match=r"cannot unlock confirm_payment of Order 'o-1'"):
        unlock()


def test_a_command_keeps_who_gave_it() -> None:
    Order.confirm_payment.ignore("o-1", reason="cancelled", by="ada")
    task = Order.confirm_payment.reopen("o-1", by="bob")
    assert [(entry.type, entry.worker) for entry in task.errors] == [("ignored", "ada"), ("reopened", "bob")]


def test_the_complete_errors_are_found_after_a_reopen_that_keeps_who_gave_it() -> None:
    Order.confirm_payment.ignore("o-1", reason="long " * 300)
    task = Order.confirm_payment.reopen("o-1", by="bob")
    assert [len(entry.message) for entry in task.errors] == [1500, 0]
    fail(Order.confirm_payment, "o-1")
    assert [entry.type for entry in Order.get_task("o-1").errors] == ["ignored", "reopened", "Broken"]


@pytest.mark.parametrize(
    "given", [{"by": ""}, {"by": 1}, {"worker": " "}, {"fencing_token": 7}, {"worker": b"w"}, {"reason": None}]
)
def test_a_command_refuses_names_that_are_no_text(given: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)), unreached():
        Order.confirm_payment.unlock("o-1", **{"reason": "gone", **given})  # type: ignore[arg-type]  # wrong types


def test_fencing_tokens_grow_across_the_lives_of_a_task() -> None:
    tokens = []
    for _ in range(2):
        for _ in range(2):
            with Order.confirm_payment.start("o-1", also_from=(Order.ship.pending,)) as ctx:
                tokens.append(ctx.fencing_token)
        Order.delete_task("o-1")
        Order.create("o-1")
    assert (tokens, {len(token) for token in tokens}) == (sorted(set(tokens)), {24})
