"""Tasks that wait for others, as readers and other workers see them."""

from datetime import timedelta

import pytest

from pynamodb_tracker import TaskNotReadyError
from pynamodb_tracker.clock import StoppedClock, in_words
from tests.support.rows import park
from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")


@pytest.mark.parametrize(("waits", "told"), [(1, "1 task"), (3, "3 tasks")])
def test_a_task_says_what_it_waits_for_and_so_does_its_refusal(waits: int, told: str) -> None:
    Order.create("o-1")
    park(Order, "o-1", waits)
    assert (Order.get_task("o-1").blockers, Order.get_task("o-1").waits_for) == (waits, told)
    refused = f"confirm_payment pending, and waits for {told}, so it becomes due then"
    with pytest.raises(TaskNotReadyError, match=refused):
        Order.confirm_payment.run("o-1", lambda _: pytest.fail("it waits"))


def test_a_task_that_waits_until_some_time_says_so_and_starts_then(clock: StoppedClock) -> None:
    Order.create("o-1")
    until = clock.now() + timedelta(hours=1)
    park(Order, "o-1", 2, until)
    assert Order.get_task("o-1").waits_for == f"2 tasks, or until {in_words(until)}"
    clock.advance(timedelta(hours=1))
    assert Order.get_task("o-1").waits_for is None
    with Order.confirm_payment.start("o-1") as ctx:
        assert ctx.task.waits_for is None


def test_tasks_that_only_others_make_due_are_not_due_and_nobody_knows_when(clock: StoppedClock) -> None:
    Order.create("o-1")
    park(Order, "o-1", 3)
    assert (list(Order.confirm_payment.due_ids()), Order.confirm_payment.next_due()) == ([], {})
    later = Order.create("o-2", due_time=clock.now() + timedelta(hours=1)).due_time
    assert Order.confirm_payment.next_due() == {Order.confirm_payment.pending: later}
    assert Order.counts()[Order.confirm_payment.pending] == 2


def test_a_task_that_waits_for_a_time_alone_waits_for_no_others(clock: StoppedClock) -> None:
    assert Order.create("o-1", due_time=clock.now() + timedelta(hours=1)).waits_for is None
