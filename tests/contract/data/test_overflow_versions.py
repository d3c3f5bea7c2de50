"""Versions of overflow chunks: a worker that lost its lock overwrites none, and a late delete removes none."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import LockLostError, TaskNotFoundError
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import SKIPPED_OCCURRENCES, Network, before, passing, throttled
from tests.support.rows import keys, put
from tests.support.shop import AppTask, Order

pytestmark = pytest.mark.usefixtures("table")

OVER = timedelta(minutes=6)


def large(text: str) -> dict[str, Any]:
    return {"text": text * 2_000}


def leave_a_piece_of_a_former_life() -> None:
    """Put what a delete left that was cut short, of a task that a clock ahead of all others created."""
    version = "9999-01-01T00:00:00.000000+0000/0000000001/000001"
    key = {"task_id": {"S": "o-1"}, "use_case_id": {"S": "order#data#A#0"}}
    put(AppTask, {**key, "version": {"S": version}, "piece": {"B": b"old"}, "lock": {"S": "0"}})


@pytest.mark.parametrize("operation", ["BatchGetItem", "GetItem", "PutItem"])
def test_a_worker_that_lost_its_lock_overwrites_no_chunks_of_the_winner(
    network: Network, clock: StoppedClock, operation: str
) -> None:
    leave_a_piece_of_a_former_life()
    Order.create("o-1")
    slow = Order.confirm_payment.start("o-1")
    loser = slow.__enter__()
    loser.task.data = large("loser")

    def take_over() -> None:
        clock.advance(OVER)
        with Order.confirm_payment.start("o-1") as winner:
            winner.task.data = large("winner")

    before(network, operation, take_over)
    with pytest.raises(LockLostError):
        loser.save()
    assert Order.get_task("o-1").data == large("winner")
    with pytest.raises(LockLostError):
        slow.__exit__(None, None, None)
    assert Order.get_task("o-1").data == large("winner")


@pytest.mark.parametrize("operation", ["Query", "TransactWriteItems"])
def test_a_delete_leaves_the_chunks_of_a_recreated_task_whose_clock_is_behind(
    network: Network, clock: StoppedClock, operation: str
) -> None:
    Order.create("o-1", data=large("old"))

    def create_again() -> None:
        clock.advance(-timedelta(seconds=1))
        Order.create("o-1", data=large("new"))
        clock.advance(timedelta(seconds=1))

    before(network, operation, create_again)
    Order.delete_task("o-1")
    assert Order.get_task("o-1").data == large("new")


@pytest.mark.parametrize("operation", ["Query", "TransactWriteItems"])
def test_an_interrupted_delete_is_finished_by_the_next_one(network: Network, operation: str) -> None:
    Order.create("o-1", data=large("old"))
    Order.create("o-2", data=large("other"))
    network.rule = throttled(operation, SKIPPED_OCCURRENCES)
    with pytest.raises(Exception, match="ThrottlingException"):
        Order.delete_task("o-1")
    network.rule = passing
    assert len(list(keys(AppTask))) == 3
    with pytest.raises(TaskNotFoundError):
        Order.delete_task("o-1")
    assert ({key["task_id"]["S"] for key in keys(AppTask)}, Order.get_task("o-2").data) == ({"o-2"}, large("other"))
