"""The handlers that the template names: for each step one for its queue and one for its schedule, and the watch."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pipeline import steps
from pipeline.handing_on import HandOn
from pipeline.orders import Order
from pipeline.watching import watched
from pynamodb_tracker import BoundStep
from pynamodb_tracker.aws_lambda import LambdaContext, Replies, handles, retry_handler

__all__ = ["confirm_payment", "deliver", "retry_confirm_payment", "retry_deliver", "retry_ship", "ship", "watch"]

Handler = Callable[[Any, LambdaContext | None], Any]

_REPLIES = Replies(locked="done", not_ready="done", failed="done")
"""The table knows when an order is to be tried again, and the schedule does it: a message need not come again for that.
It comes again, and ends in the dead-letter queue, where it cannot be read, where there is no such order, where the
table does not answer, and where the invocation died."""

_METRICS = os.environ["METRICS_NAMESPACE"]
_THREADS = int(os.environ["RETRY_THREADS"])


def new_order(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an order from the event that announces it."""
    return {name: event["detail"][name] for name in ("amount", "address")}


def on_queue(step: BoundStep[Order], hand_on: HandOn, *, task_id: str = "order_id", is_first: bool = False) -> Handler:
    """Return the handler for the queue of a step."""
    run = handles(
        step,
        task_id=task_id,
        trigger="sqs",
        create_if_missing=new_order if is_first else False,
        replies=_REPLIES,
        metrics=_METRICS,
    )(lambda ctx, _: hand_on.run(ctx))
    return _handing_on(run, hand_on)


def on_schedule(step: BoundStep[Order], hand_on: HandOn) -> Handler:
    """Return the handler for the schedule of a step: it runs what is left, in place.

    A message for each order that is due would be one more each minute for those whose message waits in a long queue.
    """
    return _handing_on(retry_handler(step, hand_on.run, threads=_THREADS, metrics=_METRICS), hand_on)


def _handing_on(run: Handler, hand_on: HandOn) -> Handler:
    def handler(event: Any, context: LambdaContext | None) -> Any:
        hand_on.begin()
        answer = run(event, context)
        hand_on.send()
        return answer

    return handler


_paid = HandOn(steps.confirm_payment, to=Order.ship, queue="SHIP_QUEUE_URL")
_shipped = HandOn(steps.ship, to=Order.deliver, queue="DELIVER_QUEUE_URL")
_delivered = HandOn(steps.deliver)

confirm_payment = on_queue(Order.confirm_payment, _paid, task_id="detail.order_id", is_first=True)
ship = on_queue(Order.ship, _shipped)
deliver = on_queue(Order.deliver, _delivered)

retry_confirm_payment = on_schedule(Order.confirm_payment, _paid)
retry_ship = on_schedule(Order.ship, _shipped)
retry_deliver = on_schedule(Order.deliver, _delivered)


def watch(_event: Any, _context: LambdaContext | None) -> dict[str, float]:
    """Measure how long the oldest order of each step has been due, and return it by step, in seconds."""
    return watched(datetime.now(UTC), _METRICS)
