"""What cannot work is refused where the handler is made, before the first event comes."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import Step
from pynamodb_tracker.aws_lambda import Replies, handles, retry_handler
from tests.aws_lambda.shop import Order, ship

URL = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"


async def later(_ctx: object, _event: object) -> AsyncIterator[int]:
    yield 1


async def told(_result: object) -> str:
    return "told"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": Step(10)}, "a step, such as Order.ship"),
        ({"step": "ship"}, "a step, such as Order.ship"),
        ({"task_id": None}, "task_id is a path"),
        ({"task_id": ""}, "task_id is a path"),
        ({"task_id": "detail..order_id"}, "task_id is a path"),
        ({"payload": "detail"}, "payload is a function"),
        ({"respond": {}}, "respond is a function"),
        ({"respond": told}, "respond is not awaited"),
        ({"create_if_missing": "yes"}, "create_if_missing is True, False, or a function"),
        ({"replies": {"locked": "done"}}, r"replies are Replies\(...\)"),
    ],
)
def test_a_handler_of_the_wrong_kind_is_a_type_error(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"step": Order.ship, "task_id": "order_id"}
    with pytest.raises(TypeError, match=message):
        handles(**{**good, **arguments})(ship)


@pytest.mark.parametrize(
    "function",
    [lambda _event: None, lambda: None, lambda _a, _b, _c: None, lambda event, context: (event, context), str.upper],
)
def test_a_function_that_is_not_of_the_context_and_the_event_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match=r"this takes a function of \(ctx, event\)"):
        handles(Order.ship, task_id="order_id")(function)


@pytest.mark.parametrize("function", [lambda _ctx, _event, _more=1: None, lambda *_: None, max, ship])
def test_a_function_that_can_be_called_with_both_is_taken(function: Any) -> None:
    assert callable(handles(Order.ship, task_id="order_id")(function))


@pytest.mark.parametrize("function", [None, "ship", later])
def test_what_is_handled_is_by_a_function_that_is_done_when_it_returns(function: Any) -> None:
    with pytest.raises(TypeError, match="function"):
        handles(Order.ship, task_id="order_id")(function)


def test_a_trigger_is_one_of_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"trigger is one of 'direct', 'http', 'async', 'eventbridge', .*, not 'mqtt'"):
        handles(Order.ship, task_id="order_id", trigger="mqtt")  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    "metrics", ["", " ", "n" * 256, "AWS/Lambda", ":shop", "Größe", "a\nb", "shop\n", None, 1], ids=repr
)
def test_metrics_are_on_off_or_a_namespace(metrics: Any) -> None:
    with pytest.raises(ValueError, match="the namespace of metrics must be 1 to 255 letters"):
        handles(Order.ship, task_id="order_id", metrics=metrics)


def test_a_batch_is_reported_or_raised() -> None:
    with pytest.raises(ValueError, match="""batch is "report" or "raise", not 'ack'"""):
        Replies(batch="ack")  # type: ignore[arg-type]  # that is the point


def test_a_reply_is_ack_or_raise() -> None:
    with pytest.raises(ValueError, match="""locked is "ack" or "raise", not 'retry'"""):
        Replies(locked="retry")  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"step": "ship"}, TypeError, "a step, such as"),
        ({"function": None}, TypeError, "no function is bound to Order.ship"),
        ({"step": [Order]}, TypeError, "leave function out"),
        ({"step": [Order], "function": None}, TypeError, "no step of Order has a function"),
        ({"step": [Order], "function": None, "queue_url": URL}, TypeError, "a step, such as"),
        ({"queue_url": URL}, TypeError, "either a function or queue_url"),
        ({"function": "ship"}, TypeError, "takes a function of the context"),
        ({"function": lambda _ctx, _event: None}, TypeError, r"a function of \(ctx\)"),
        ({"function": None, "queue_url": URL, "threads": 8}, TypeError, "queue_url excludes threads"),
        ({"function": None, "queue_url": URL, "rate": 5.0}, TypeError, "queue_url excludes threads"),
        ({"function": None, "queue_url": URL, "metrics": True}, TypeError, "queue_url excludes threads"),
        ({"threads": 0}, ValueError, "threads"),
        ({"limit": 0}, ValueError, "limit"),
        ({"since": 3600}, TypeError, "since must be a timedelta"),
        ({"since": timedelta(0)}, ValueError, "since must be above zero"),
        ({"only": (Order.confirm.pending,)}, ValueError, "only has"),
        ({"error_contains": 5}, TypeError, "error_contains must be text"),
        ({"rate": 0}, ValueError, "rate must be between"),
        ({"time_per_task": 10}, TypeError, "time_per_task must be a timedelta"),
        ({"time_per_task": timedelta(0)}, ValueError, "time_per_task must be above zero"),
        ({"metrics": ""}, ValueError, "the namespace of metrics"),
        ({"function": None, "queue_url": "orders"}, ValueError, "queue_url is a queue's URL"),
        ({"function": None, "queue_url": ""}, ValueError, "queue_url is a queue's URL"),
    ],
)
def test_a_schedule_of_a_wrong_kind_is_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    good: dict[str, Any] = {"step": Order.ship, "function": lambda _: None}
    with pytest.raises(error, match=message):
        retry_handler(**{**good, **arguments})
