"""What tasks that wait for others cost a worker: nothing, however many they are."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.support.engines import opened
from tests.support.recorder import Requests, recorded
from tests.support.rows import client, stored
from tests.support.shop import AppTask, Order
from tests.support.workers import succeed
from tests.work.test_polling import Poller

PARKED = 200
NEVER = "9999-12-31T23:59:59.999999+0000"
_MOST_WRITES = 25


engine = opened(AppTask, scope="function")


def park(number: int) -> None:
    """Store tasks as the success of a step leaves them that wait for one more."""
    Order.create("p")
    row = {**stored(Order, "p"), "blockers": {"N": "1"}, "due_time": {"S": NEVER}}
    Order.delete_task("p")
    puts: list[Any] = [{"PutRequest": {"Item": {**row, "task_id": {"S": f"p-{each}"}}}} for each in range(number)]
    for first in range(0, number, _MOST_WRITES):
        client(AppTask).batch_write_item(RequestItems={AppTask.Meta.table_name: puts[first : first + _MOST_WRITES]})


def polled() -> Requests:
    """Create two tasks, and return what a worker sends that runs whatever is due."""
    Order.create_many(["o-1", "o-2"])
    Order.confirm_payment._definition.pause()  # reads the control item, which others do not read in the next 5 seconds
    poller = Poller(Order.confirm_payment._definition)
    with recorded() as requests:
        while task_id := poller.take():
            succeed(Order.confirm_payment, task_id)
            poller.ends(task_id, "succeeded")
        assert poller.take() is None
    return requests


@pytest.mark.usefixtures("engine", "stopped_clock")
def test_hundreds_of_parked_tasks_cost_a_worker_no_request_and_no_refused_claim(stopped_clock: StoppedClock) -> None:
    without = polled()
    Order.delete_task("o-1")
    Order.delete_task("o-2")
    stopped_clock.advance(timedelta(minutes=1))
    park(PARKED)
    among_parked = polled()
    assert among_parked.operations == without.operations
    assert among_parked.entries_read <= without.entries_read + 2  # one of each poll, which says that none is due
    assert Order.confirm_payment.pending.count() == PARKED
