"""One order, or a few, in the pipeline: through its steps, past what fails, and past invocations that die."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.infra.order_pipeline.account import Account
from tests.infra.order_pipeline.template import STEPS

ORDER = {"order_id": "o-1", "amount": "42.55", "address": "1 Main Street"}

MINUTE = timedelta(minutes=1)


def wait_for_messages(account: Account) -> None:
    """Let the visibility timeouts end, and bring what is there to its functions."""
    account.clock.advance(6 * MINUTE)
    for step in STEPS.values():
        account.poll(step)


def refuse(_key: str, _call: int) -> None:
    raise ConnectionError("it does not answer")


def dying(name: str, moment: int) -> Callable[[str], int | None]:
    """Return what lets one function die at a moment, and all others live."""
    return lambda function: moment if function == name else None


def nobody(_function: str) -> None: ...


def test_an_order_goes_through_all_steps_by_messages(account: Account) -> None:
    account.announce(ORDER)
    assert [account.poll(step) for step in STEPS.values()] == [1, 1, 1]

    order = account.order.get_task("o-1")
    assert (order.state, order.handed_over) == (account.order.deliver.succeeded, "deliveries of o-1/deliver")
    assert account.services.bodies == {
        "o-1/confirm_payment": {"order_id": "o-1", "amount": "42.55"},
        "o-1/ship": {"order_id": "o-1", "address": "1 Main Street"},
        "o-1/deliver": {"order_id": "o-1", "tracking_no": "labels of o-1/ship"},
    }
    assert len(set(account.services.keys.values())) == 3
    assert account.messages() == 0


def test_an_order_that_is_announced_twice_is_one_order(account: Account) -> None:
    account.announce(ORDER, ORDER)
    for step in STEPS.values():
        account.poll(step)
    assert account.order.get_task("o-1").fence == 3
    assert account.messages() == 0


def test_a_failed_order_is_tried_again_by_the_schedule_and_not_by_its_message(account: Account) -> None:
    account.services.refuses = refuse
    account.announce(ORDER)
    account.poll("confirm_payment")
    assert account.messages() == 0
    assert account.order.get_task("o-1").state == account.order.confirm_payment.failed

    account.services.refuses = lambda _key, _call: None
    assert account.retry("confirm_payment")["succeeded"] == 0, "it is due in a minute"
    account.clock.advance(MINUTE)
    assert account.retry("confirm_payment")["succeeded"] == 1

    assert account.waiting("ShipQueue") == 1, "a schedule hands on, too"


def test_an_order_that_the_gateway_refuses_is_ignored_at_once_and_its_message_is_gone(account: Account) -> None:
    def declined(key: str, _call: int) -> None:
        raise account.refused_error(f"{key}: no cover")

    account.services.refuses = declined
    account.announce(ORDER)
    account.poll("confirm_payment")

    order = account.order.get_task("o-1")
    assert (order.state, order.attempt) == (account.order.confirm_payment.ignored, 1)
    assert account.messages() == 0


@pytest.mark.parametrize("step", STEPS.values())
def test_an_order_that_kills_its_function_ends_in_the_table_and_is_no_dead_letter(account: Account, step: str) -> None:
    def kill(key: str, _call: int) -> None:
        if key.endswith(f"/{step}"):
            account.clock.advance(2 * MINUTE)  # past the end of the invocation

    account.services.refuses = kill
    account.announce(ORDER)
    for _ in range(10):
        wait_for_messages(account)

    bound = getattr(account.order, step)
    assert account.order.get_task("o-1").state == bound.ignored
    assert account.deaths == bound.max_attempts
    assert account.messages() == 0
    assert account.dead_letters() == []


@pytest.mark.parametrize("step", STEPS.values())
def test_an_order_survives_a_function_that_dies_at_any_moment(account: Account, step: str) -> None:
    steps = list(STEPS.values())
    place = steps.index(step)
    name, moment, died = list(STEPS)[place], 0, True
    while died:
        order_id, deaths = f"o-{moment}", account.deaths
        account.announce({**ORDER, "order_id": order_id})
        for earlier in steps[:place]:
            account.poll(earlier)
        account.dies = dying(name, moment)
        account.poll(step)
        account.dies = nobody
        died = account.deaths > deaths

        account.clock.advance(2 * MINUTE)  # the dead invocation's lock has expired; its messages are not visible yet
        for its in steps[place:]:
            account.retry(its)
            account.poll(its)
        wait_for_messages(account)

        assert account.order.get_task(order_id).state == account.order.deliver.succeeded, moment
        assert account.messages() == 0
        moment += 1

    requests = 8 if step == steps[-1] else 9
    assert moment >= requests, "claim, call, success, each before and after; and the message to the next step"
    assert account.services.bodies.keys() == {f"o-{each}/{its}" for each in range(moment) for its in steps}
    assert max(account.services.calls.values()) == 2, "one that died after the call did it again, with the same key"


def test_the_schedule_alone_brings_orders_to_their_end(account: Account) -> None:
    account.announce(ORDER)
    account.dies = dying("ConfirmPayment", 4)  # it is registered and claimed by then
    account.poll("confirm_payment")
    account.clock.advance(2 * MINUTE)
    for step in STEPS.values():
        assert account.retry(step)["succeeded"] == 1

    assert account.order.get_task("o-1").state == account.order.deliver.succeeded


POISON: dict[str, tuple[str, Any]] = {
    "no JSON": ("ship", "o-1, please"),
    "no order id": ("ship", json.dumps({"id": "o-1"})),
    "an order that nobody knows": ("ship", json.dumps({"task_id": "o-1"})),
    "a new order without its amount": ("confirm_payment", json.dumps({"detail": {"order_id": "o-1", "address": "?"}})),
    "an amount that is no number": (
        "confirm_payment",
        json.dumps({"detail": {"order_id": "o-1", "address": "?", "amount": "a lot"}}),
    ),
    "an amount that is a float": (
        "confirm_payment",
        json.dumps({"detail": {"order_id": "o-1", "address": "?", "amount": 42.5}}),
    ),
}


def test_messages_that_cannot_be_processed_become_dead_letters(account: Account) -> None:
    account.announce({**ORDER, "order_id": "o-2"})
    for step, body in POISON.values():
        account.send(step, body)
    receives = 0
    while account.messages():
        assert receives < 20
        wait_for_messages(account)
        receives += 1

    assert sorted(account.dead_letters()) == sorted(body for _, body in POISON.values())
    assert receives == 13, "12 times received, and not once more"
    assert account.order.get_task("o-2").state == account.order.deliver.succeeded, "others of its batch went on"


def test_a_queue_that_takes_no_message_strands_no_order(account: Account) -> None:
    account.announce(ORDER)
    account.life.breaks = lambda operation: operation == "SendMessageBatch"
    account.poll("confirm_payment")
    assert account.waiting("ShipQueue") == 0
    account.life.breaks = lambda _operation: False
    assert account.retry("ship")["succeeded"] == 1


def test_an_outage_of_the_table_makes_the_function_fail_and_loses_no_new_order(account: Account) -> None:
    account.announce(ORDER)
    account.life.breaks = lambda operation: operation.endswith("Item")
    for _ in range(3):
        account.poll("confirm_payment")
        account.clock.advance(6 * MINUTE)
    account.life.breaks = lambda _operation: False
    assert [type(end).__name__ for end in account.mappings["confirm_payment"].ends] == ["UpdateError"] * 3

    for step in STEPS.values():
        account.poll(step)
    assert account.order.get_task("o-1").state == account.order.deliver.succeeded


def test_orders_of_a_batch_that_is_killed_do_not_wait_for_their_messages(account: Account) -> None:
    def hang(_key: str, _call: int) -> None:
        account.clock.advance(2 * MINUTE)  # past the end of the invocation, which is killed

    account.services.refuses = hang
    account.announce(*({**ORDER, "order_id": f"o-{number}"} for number in range(4)))
    account.poll("confirm_payment")
    assert account.deaths == 1

    account.services.refuses = lambda _key, _call: None
    assert account.retry("confirm_payment")["succeeded"] == 4, "long before the visibility timeout has passed"
