"""Signals from outside that come as requests, messages and events."""

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from botocore.client import BaseClient

from pynamodb_tracker import BoundSignal, SignalAlreadyReceivedError, TaskNotFoundError, TaskNotReadyError
from pynamodb_tracker.aws_lambda import handles_signal
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import eventbridge, fifo, http_api, names, sqs
from tests.aws_lambda.shop import Context, Order, ShopTask, no_access
from tests.aws_lambda.test_queue import bodies, client, received, sqs_client, url

__all__ = ["client", "sqs_client", "url"]  # fixtures

webhook = handles_signal(Order.paid, task_id="body.order", value="body.amount", key="body.event", by="stripe")
from_queue = handles_signal(Order.paid, task_id="order", value="amount")
EVENT = {"order": "o-1", "amount": "42.50", "event": "evt-1"}


def code_and_body(response: dict[str, Any]) -> tuple[int, Any]:
    return response["statusCode"], json.loads(response["body"])


def test_a_request_wakes_the_task_once_and_is_done_as_often_as_it_is_repeated(context: Context) -> None:
    Order.create("o-1", wait_for=Order.paid)
    hows = [code_and_body(webhook(http_api(EVENT), context)) for _ in range(2)]
    assert hows == [
        (200, {"task_id": "o-1", "effect": effect, "will_be_read": True}) for effect in ("resumed", "stored")
    ]
    paid = Order.get_task("o-1").paid
    assert paid
    assert (paid.value, paid.by, paid.key) == ("42.50", "stripe", "evt-1")


@pytest.mark.parametrize("ended", [False, True], ids=["answered", "ended"])
def test_an_answer_that_does_not_count_is_logged_and_done_unless_it_is_to_be_a_conflict(
    context: Context, caplog: pytest.LogCaptureFixture, *, ended: bool
) -> None:
    Order.create("o-1")
    if ended:
        Order.confirm.run("o-1", lambda ctx: ctx.end_task())
    else:
        Order.paid.send("o-1", "1.00")

    other = {"task_id": "o-1", "effect": "other", "will_be_read": False}
    assert code_and_body(webhook(http_api(EVENT), context)) == (200, other)
    assert [(record.levelno, record.outcome) for record in caplog.records] == [(logging.WARNING, "mismatch")]  # type: ignore[attr-defined]
    conflict: dict[str, Any] = {"task_id": "body.order", "value": "body.amount", "other": "conflict"}
    refused = (409, {**other, "error": "mismatch"})
    assert code_and_body(handles_signal(Order.paid, **conflict)(http_api(EVENT), context)) == refused
    in_queue = handles_signal(Order.paid, task_id="order", value="amount", other="conflict")
    assert (names(from_queue(sqs(EVENT), context)), names(in_queue(sqs(EVENT), context))) == ([], ["m-1"])


def test_a_request_about_no_task_or_an_ended_round_is_not_found(context: Context) -> None:
    assert code_and_body(webhook(http_api(EVENT), context)) == (404, {"task_id": "o-1", "error": "not_found"})
    Order.create("o-1")
    of_round = handles_signal(Order.paid, task_id="body.order", round="queryStringParameters.round")
    event = http_api(EVENT) | {"queryStringParameters": {"round": "0" * 24}}
    assert of_round(event, context)["statusCode"] == 404
    with pytest.raises(TaskNotFoundError):
        from_queue(eventbridge("o-2") | {"order": "o-2", "amount": 1}, context)


def test_a_task_of_another_round_needs_the_round(context: Context) -> None:
    Order.create("o-1", state=Order.deliver.succeeded)
    Order.create_or_merge("o-1")
    assert webhook(http_api(EVENT), context)["statusCode"] == 500
    of_round = handles_signal(Order.paid, task_id="order", round="round")
    assert names(of_round(sqs({"order": "o-1", "round": Order.get_task("o-1").round}), context)) == []
    assert Order.get_task("o-1").paid is not None


def test_a_task_that_is_not_ready_is_to_be_asked_again(context: Context) -> None:
    Order.create("o-1", state=Order.ship.pending)
    Order.create_or_merge("o-1")
    response = webhook(http_api(EVENT), context)
    assert (response["statusCode"], response["headers"]["retry-after"]) == (503, "5")
    with pytest.raises(TaskNotReadyError):
        from_queue(EVENT, context)


def test_a_table_that_cannot_be_used_is_to_be_asked_again(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1", wait_for=Order.paid)
    monkeypatch.setattr(BaseClient, "_make_api_call", no_access)
    response = webhook(http_api(EVENT), context)
    assert (response["statusCode"], response["headers"]["retry-after"]) == (503, "5")
    with pytest.raises(Exception, match="not authorized"):
        from_queue(sqs(EVENT), context)


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": 7},
        {"event": ""},
        {"event": 7},
        {"event": "k" * 257},
        {"event": "\ud800"},
        {"amount": "9" * 1025},
        {"amount": json.loads("[" * 900 + "]" * 900)},
    ],
)
def test_what_cannot_be_stored_is_a_bad_request(context: Context, wrong: dict[str, Any]) -> None:
    Order.create("o-1", wait_for=Order.paid)
    assert webhook(http_api(EVENT | wrong), context)["statusCode"] == 400
    assert Order.get_task("o-1").paid is None


def test_the_queue_of_the_step_gets_a_message_until_the_task_is_started(
    context: Context, clock: StoppedClock, client: Any, url: str
) -> None:
    Order.create("o-1", wait_for=Order.paid)
    handler = handles_signal(Order.paid, task_id="order", value="amount", next_queue_url=url)
    paid, other = sqs(EVENT), sqs(EVENT | {"amount": "1.00"})
    for event in (paid, paid, other):  # the first message may have been lost with the function that was to send it
        handler(event, context)
        assert bodies(received(client, url)) == [{"task_id": "o-1"}]
    clock.advance(timedelta(seconds=1))
    Order.confirm.run("o-1", lambda _: None)
    handler(paid, context)
    assert received(client, url) == []


def test_an_answer_by_which_no_task_is_due_sends_no_message(clock: StoppedClock, client: Any, url: str) -> None:
    handler = handles_signal(Order.paid, task_id="order", value="amount", next_queue_url=url)
    for task_id in ("early", "more", "late"):
        Order.create(task_id)
    with Order.confirm.start("more") as ctx:
        ctx.wait_for(Order.paid)
        ctx.wait_for(Order.approved)
    with Order.confirm.start("late") as ctx:
        ctx.wait_for(Order.paid, until=timedelta(hours=1))
    clock.advance(timedelta(hours=2))
    with pytest.raises(KeyboardInterrupt), Order.ship.start("late"):
        raise KeyboardInterrupt
    clock.advance(timedelta(seconds=1))

    for task_id in ("early", "more", "late") * 2:
        handler(sqs({"order": task_id, "amount": 1}), Context(clock))
    assert received(client, url) == []


def test_a_message_that_cannot_be_sent_lets_the_answer_be_delivered_again(context: Context, client: Any) -> None:
    Order.create("o-1", wait_for=Order.paid)
    url = client.create_queue(QueueName="next")["QueueUrl"]
    handler = handles_signal(Order.paid, task_id="body.order", value="body.amount", next_queue_url=url)
    client.delete_queue(QueueUrl=url)
    assert handler(http_api(EVENT), context)["statusCode"] == 503
    client.create_queue(QueueName="next")
    assert handler(http_api(EVENT), context)["statusCode"] == 200
    assert bodies(received(client, url)) == [{"task_id": "o-1"}]


def test_a_fifo_queue_drops_the_message_of_a_repetition(context: Context, client: Any) -> None:
    url = client.create_queue(QueueName="next.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    Order.create("o-1", wait_for=Order.paid)
    handler = handles_signal(Order.paid, task_id="order", value="amount", next_queue_url=url)
    for _ in range(2):
        assert names(handler(fifo(("g", EVENT)), context)) == []
    assert [message["Attributes"]["MessageGroupId"] for message in received(client, url)] == ["g"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"signal": Order.ship}, "a signal that a use case declares"),
        ({"signal": BoundSignal(ShopTask, "paid")}, "ShopTask"),
        ({"task_id": "body..order"}, "task_id is a path"),
        ({"value": 7}, "value is a path"),
        ({"by": 7}, "by must be text"),
        ({"by": " "}, "by is empty"),
        ({"other": "error"}, 'other is "ack" or "conflict"'),
        ({"next_queue_url": "queue"}, "next_queue_url is a queue's URL"),
        ({"trigger": "web"}, "trigger is one of"),
    ],
)
def test_wrong_arguments_are_refused_before_the_first_event(wrong: dict[str, Any], message: str) -> None:
    given = {"signal": Order.paid, "task_id": "order", **wrong}
    with pytest.raises((TypeError, ValueError), match=message):
        handles_signal(given.pop("signal"), **given)


def test_another_answer_is_the_one_that_a_person_finds_in_the_error(context: Context) -> None:
    Order.create("o-1")
    Order.paid.send("o-1", "1.00")
    conflict = handles_signal(Order.paid, task_id="order", value="amount", other="conflict")
    with pytest.raises(SignalAlreadyReceivedError, match="with another value") as raised:
        conflict(EVENT, context)
    assert raised.value.signal.value == "1.00"
