"""The table of the guide: what becomes of a payment, what its sender is told, and who reads it."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext, TaskNotStartableError
from pynamodb_tracker.aws_lambda import handles_signal
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import http_api
from tests.aws_lambda.shop import Order

HOUR = timedelta(hours=1)
webhook, strict = (
    handles_signal(Order.paid, task_id="body.order", value="body.amount", key="body.event", other=other)
    for other in ("ack", "conflict")
)


def pay(key: str = "evt-1", handler: Any = webhook) -> dict[str, Any]:
    """Send the payment as a provider does; its amount is always the same."""
    response = handler(http_api({"order": "o-1", "amount": "42.50", "event": key}), None)
    return {"code": response["statusCode"], **json.loads(response["body"])}


def wait() -> None:
    Order.create("o-1")
    Order.confirm.run("o-1", lambda ctx: ctx.wait_for(Order.paid, until=HOUR))


def decide(_ctx: ExecutionContext[Order]) -> None: ...


def after_the_limit_before_a_run(clock: StoppedClock) -> None:
    wait()
    clock.advance(2 * HOUR)


def in_the_next_attempt(clock: StoppedClock) -> None:
    after_the_limit_before_a_run(clock)
    with suppress(KeyboardInterrupt), Order.ship.start("o-1"):
        raise KeyboardInterrupt


def after_it_gave_up(_: StoppedClock) -> None:
    wait()
    Order.ship.ignore("o-1", reason="no stock")


def twice_with_one_key(_: StoppedClock) -> None:
    wait()
    pay()


def twice_with_two_keys(_: StoppedClock) -> None:
    wait()
    pay("evt-0")


def after_the_decision(clock: StoppedClock) -> None:
    after_the_limit_before_a_run(clock)
    Order.ship.run("o-1", decide)


def after_the_decision_once_more(clock: StoppedClock) -> None:
    after_the_decision(clock)
    pay()


def after_the_refund(clock: StoppedClock) -> None:
    after_the_decision(clock)
    Order.deliver.run("o-1", decide)


def after_a_cancel(_: StoppedClock) -> None:
    wait()
    Order.cancel("o-1", reason="by phone")


def for_a_deleted_order(_: StoppedClock) -> None:
    wait()
    Order.delete_task("o-1")


TABLE: list[tuple[Callable[[StoppedClock], object], str | None, bool | None, int, int, str | None]] = [
    # the payment comes           effect     will be read   codes     read by
    (lambda _: Order.create("o-1"), "early", True, 200, 200, "evt-1"),
    (lambda _: wait(), "resumed", True, 200, 200, "evt-1"),
    (after_the_limit_before_a_run, "resumed", True, 200, 200, "evt-1"),
    (in_the_next_attempt, "late", True, 200, 200, "evt-1"),
    (after_it_gave_up, "late", True, 200, 200, "evt-1"),
    (twice_with_one_key, "stored", True, 200, 200, "evt-1"),
    (twice_with_two_keys, "other", False, 200, 409, "evt-0"),
    (after_the_decision, "late", False, 200, 409, None),
    (after_the_decision_once_more, "late", False, 200, 409, None),
    (after_the_refund, "late", False, 200, 409, None),
    (lambda _: Order.create("o-1", state=Order.deliver.succeeded), "other", False, 200, 409, None),
    (after_a_cancel, "cancelled", False, 200, 409, None),
    (for_a_deleted_order, None, None, 404, 404, None),
]


def key_read() -> str | None:
    """Let the order go on, and return the key of the payment that the deciding step has."""
    found: list[str] = []

    def ship(ctx: ExecutionContext[Order]) -> None:
        found.extend([ctx.task.paid.key or ""] if ctx.task.paid else [])

    steps: list[Callable[[], object]] = [
        lambda: Order.ship.reopen("o-1"),
        lambda: Order.confirm.run("o-1", decide),
        lambda: Order.ship.run("o-1", ship),
    ]
    for run in steps:
        with suppress(TaskNotStartableError):
            run()
    return found[0] if found else None


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0].__name__)
def test_what_becomes_of_a_payment(row: tuple[Any, ...], clock: StoppedClock) -> None:
    comes, *expected = row
    comes(clock)
    told, again = pay(), pay(handler=strict)
    found = told.get("effect"), told.get("will_be_read"), told["code"], again["code"], key_read()
    assert (found, again.get("will_be_read")) == (tuple(expected), expected[1]), "a repeated delivery is told the same"


def test_a_payment_while_a_run_decides_without_it_is_read_by_the_next_attempt(clock: StoppedClock) -> None:
    after_the_limit_before_a_run(clock)
    with suppress(TaskNotStartableError), Order.ship.start("o-1"):
        told = pay()
    assert (told["effect"], told["will_be_read"], key_read()) == ("late", True, "evt-1")


def test_a_payment_while_the_last_run_lasts_is_read_by_its_next_attempt(clock: StoppedClock) -> None:
    Order.create("o-1", state=Order.deliver.pending)
    found: list[str | None] = []

    def deliver(ctx: ExecutionContext[Order]) -> None:
        if not found:
            told = pay()
            assert (told["effect"], told["will_be_read"]) == ("early", True)
        found.append(ctx.task.paid.key if ctx.task.paid else None)

    for _ in range(2):
        Order.deliver.run_all(deliver)
        clock.advance(HOUR)
    assert (found, Order.get_task("o-1").state) == ([None, "evt-1"], Order.deliver.succeeded)
    assert pay()["will_be_read"]
