"""A shop in trouble: everything that needs a person at once."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext, GiveUp, Repeat
from pynamodb_tracker.testing import StoppedClock
from tests.web.shop import CarrierError, Nightly, Order, Refund, leave

HOUR = timedelta(hours=1)
CARRIER = "HTTP 503 Service Unavailable: carrier api /labels"


def _fail(ctx: ExecutionContext[Any]) -> None:
    raise CarrierError(CARRIER if int(ctx.task.task_id.removeprefix("ship-")) % 4 else "no such label")


def _no_money(_: ExecutionContext[Any]) -> None:
    raise GiveUp("card declined")


def _disk(_: ExecutionContext[Any]) -> None:
    raise GiveUp("no route to the archive")


def _refund(ctx: ExecutionContext[Any]) -> None:
    for number in range(3):
        ctx.create(Refund, f"{ctx.task.task_id}/{number}", wait=True)


def plant(clock: StoppedClock) -> None:
    """Plant the troubles in the course of a day: Order needs `pausable`."""
    Nightly.create("cleanup", repeat=Repeat.every(timedelta(minutes=5)))
    Nightly.create("nightly-ledger", repeat=Repeat.every(timedelta(hours=7)))
    clock.advance(timedelta(minutes=5))
    Nightly.collect.run("cleanup", lambda _: None)
    clock.advance(7 * HOUR - timedelta(minutes=5))
    with pytest.raises(GiveUp):
        Nightly.collect.run("nightly-ledger", _disk)
    Order.create_many([f"stock-{number}" for number in range(10)])
    Order.confirm_payment.run_all(lambda _: None)
    for number in range(3):
        leave(Order.reserve_stock, f"stock-{number}")
    Order.create("split")
    Order.confirm_payment.run("split", _refund)
    with pytest.raises(GiveUp):
        Refund.pay_back.run("split/1", _no_money)
    for number in range(3):
        Order.create(f"sign-{number}", wait_for=Order.approved, until=72 * HOUR)
    for number in range(12):
        Order.create(f"line-{number}", group=f"customer-{number % 2}")
    with pytest.raises(CarrierError):
        Order.confirm_payment.run("line-0", lambda _: _raise(CarrierError("no such street")))
    clock.advance(HOUR)
    Order.create_many([{"task_id": f"ship-{number}", "state": Order.ship.pending} for number in range(16)])
    Order.ship.run_all(_fail)
    for number in range(2):
        Order.create(f"poor-{number}", state=Order.ship.pending)
        with pytest.raises(GiveUp):
            Order.ship.run(f"poor-{number}", _no_money)
    Order.create("aside", state=Order.ship.pending)
    Order.ship.ignore("aside", reason="by phone", by="ada")
    Order.confirm_payment.pause(until=timedelta(hours=6), reason="the bank is down", by="ada")
    clock.advance(HOUR)


def _raise(error: Exception) -> None:
    raise error
