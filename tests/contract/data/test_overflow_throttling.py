"""Throttled requests for overflow chunks, and throttled transactions with a heartbeat, are retried in time."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker.testing import StoppedClock
from tests.support.network import SKIPPED_OCCURRENCES, Network, error, throttled
from tests.support.rows import keys
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, fail

pytestmark = pytest.mark.usefixtures("table")

LARGE = {"text": "x" * 5_000}
LOCK = timedelta(seconds=30)


@pytest.mark.parametrize(
    "read",
    [
        lambda: Order.get_task("o-1").data,
        lambda: next(Order.confirm_payment.failed.query()).data,
        lambda: Order.get("o-1", consistent_read=True).data,
        lambda: Order.confirm_payment.run("o-1", lambda ctx: ctx.task.data),
    ],
    ids=["task", "query", "get", "block"],
)
def test_a_throttled_read_of_chunks_is_retried(network: Network, read: Callable[[], Any]) -> None:
    Order.create("o-1", data=LARGE)
    fail(Order.confirm_payment, "o-1", Broken("long " * 200))
    network.rule = throttled("BatchGetItem", SKIPPED_OCCURRENCES - 1)
    assert read() == LARGE


@pytest.mark.parametrize("operation", ["Query", "TransactWriteItems"])
def test_a_delete_whose_search_for_chunks_is_throttled_is_finished(network: Network, operation: str) -> None:
    Order.create("o-1", data=LARGE)
    network.rule = throttled(operation, SKIPPED_OCCURRENCES - 1)
    Order.delete_task("o-1")
    assert list(keys(AppTask)) == []


@pytest.mark.parametrize("succeed", [False, True], ids=["on its own", "with the success"])
def test_a_transaction_is_retried_until_the_extended_lock_expires(
    network: Network, clock: StoppedClock, succeed: Any
) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1", lock_for=LOCK) as ctx:
        end = ctx.lock_expire_time

        def extended(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
            if operation == "TransactWriteItems" and clock.now() < end + LOCK:
                ctx.extend_lock(LOCK)  # as a heartbeat does
                raise error(operation, "ThrottlingException")
            return send()

        network.rule = extended
        with ctx.transaction(succeed=succeed):
            pass
        assert clock.now() >= end + LOCK
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_transaction_is_not_retried_after_its_lock_has_expired(network: Network, clock: StoppedClock) -> None:
    Order.create("o-1")
    with Order.confirm_payment.start("o-1", lock_for=LOCK) as ctx:
        network.rule = throttled("TransactWriteItems", 10_000)
        with pytest.raises(TransactWriteError), ctx.transaction():
            pass
        assert clock.now() < ctx.lock_expire_time
    assert Order.get_task("o-1").state == Order.ship.pending
