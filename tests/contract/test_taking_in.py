"""The success of the last step takes in what was asked for while the task ran: the task is pending again with that."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pynamodb.transactions import TransactWrite

from tests.support.recorder import recorded
from tests.support.rows import change, stored
from tests.support.shop import Order, Receipt
from tests.support.workers import fail, succeed

if TYPE_CHECKING:
    from pynamodb_tracker.clock import StoppedClock

pytestmark = pytest.mark.usefixtures("table")

LATER = "2999-01-01T00:00:00.000000+0000"


def ask(model: Any, task_id: str, *, asked: int = 1, due_time: str = LATER, **attributes: Any) -> None:
    """Leave a request in the row of a task that cannot take it now."""
    again = {"due_time": {"S": due_time}, "attributes": {"M": attributes}}
    change(model, task_id, again={"M": again}, asked={"N": str(asked)}, v={"N": "2"})


def test_the_success_of_the_last_step_makes_the_task_pending_with_what_was_asked_for() -> None:
    Order.create("o-1", state=Order.deliver.pending, amount=1)
    with recorded() as requests, Order.deliver.start("o-1") as ctx:
        ctx.task.amount = 2
        ctx.task.tracking_no = "T-1"
        ask(Order, "o-1", amount={"N": "3"})
        requests.clear()
    assert requests.operations == ["UpdateItem", "GetItem", "UpdateItem"]
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.amount, task.tracking_no) == (Order.confirm_payment.pending, 0, 3, "T-1")
    assert (task.due_time.year, task.again, task.round is None) == (2999, None, False)
    assert (ctx.task.amount, ctx.task.state, ctx.task.again) == (3, Order.confirm_payment.pending, None)


def test_a_success_of_an_earlier_step_leaves_it_where_it_is() -> None:
    Order.create("o-1")
    ask(Order, "o-1")
    succeed(Order.confirm_payment, "o-1")
    assert (Order.get_task("o-1").state, "again" in stored(Order, "o-1")) == (Order.ship.pending, True)


def test_a_failed_attempt_leaves_it_where_it_is() -> None:
    Receipt.create("r-1")
    ask(Receipt, "r-1")
    fail(Receipt.send, "r-1", ValueError())
    assert "again" in stored(Receipt, "r-1")
    Receipt.send.reopen("r-1")
    succeed(Receipt.send, "r-1")
    assert ("again" in stored(Receipt, "r-1"), Receipt.get_task("r-1").state) == (False, Receipt.send.pending)


def test_a_success_in_a_transaction_takes_it_in_as_well() -> None:
    Receipt.create("r-1")
    Order.create("o-1")
    with Receipt.send.start("r-1") as ctx:
        ask(Receipt, "r-1")
        with ctx.transaction(succeed=True) as transaction:
            transaction.update(Order.get_task("o-1"), [Order.amount.set(7)])
    assert (Receipt.get_task("r-1").state, Receipt.get_task("r-1").due_time.year) == (Receipt.send.pending, 2999)
    assert Order.get_task("o-1").amount == 7
    assert isinstance(transaction, TransactWrite)


def test_what_was_asked_for_since_the_row_was_read_is_taken_in_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from pynamodb_tracker.transitions import success  # noqa: PLC0415 - only here

    Order.create("o-1", state=Order.deliver.pending)
    waits = success._wait_for_quiet

    def asked_once_more(lock: Any, retries: int) -> None:
        if retries == 0:
            ask(Order, "o-1", asked=2, amount={"N": "5"})
        waits(lock, retries)

    monkeypatch.setattr(success, "_wait_for_quiet", asked_once_more)
    with Order.deliver.start("o-1"):
        ask(Order, "o-1", asked=1, amount={"N": "4"})
    assert (Order.get_task("o-1").amount, "again" in stored(Order, "o-1")) == (5, False)


def test_what_was_asked_for_may_be_due_at_once(clock: StoppedClock) -> None:
    Receipt.create("r-1")
    with Receipt.send.start("r-1"):
        ask(Receipt, "r-1", due_time="2000-01-01T00:00:00.000000+0000")
        clock.advance(timedelta(seconds=1))
    assert Receipt.get_task("r-1").due_time == clock.now()
    succeed(Receipt.send, "r-1")
    assert Receipt.get_task("r-1").state == Receipt.send.succeeded


def test_a_round_that_starts_from_the_end_is_another_one() -> None:
    Receipt.create("r-1")
    succeed(Receipt.send, "r-1")
    with Receipt.send.start("r-1", also_from=(Receipt.send.succeeded,)) as ctx:
        assert ctx.task.round == ctx.fencing_token
