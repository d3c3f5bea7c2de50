"""The handlers in the template: one per step for its queue, one for its schedule, and `watch`."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from pipeline import steps
from pipeline.orders import Order
from pipeline.overdue import write_overdue
from pynamodb_tracker.aws_lambda import LambdaContext, Replies, handles, retry_handler

__all__ = ["confirm_payment", "deliver", "retry_confirm_payment", "retry_deliver", "retry_ship", "ship", "watch"]

_REPLIES = Replies(locked="ack", not_ready="ack", failed="ack")
"""The schedule retries orders when the table says so, so failures do not need a redelivery of the message. A message is
redelivered, and finally becomes a dead letter, if it cannot be read, its order does not exist, the table does not
respond, the order could not be sent to the next step, or the invocation died."""

_METRICS = os.environ["METRICS_NAMESPACE"]

_SHIP_QUEUE = os.environ.get("SHIP_QUEUE_URL")
_DELIVER_QUEUE = os.environ.get("DELIVER_QUEUE_URL")
"""The template sets each of them for the previous step's functions. Without these messages, the next step's schedule
would find the same orders in the table a little later."""

_on_queue = partial(handles, trigger="sqs", replies=_REPLIES, metrics=_METRICS)

# Schedules run due orders themselves. If they used the queue, and that was long, an order that waits there would get
# another message every minute.
_on_schedule = partial(retry_handler, threads=int(os.environ["RETRY_THREADS"]), metrics=_METRICS)


def new_order(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an order's attributes from the event that announces it.

    The amount is text, such as "42.50", or a whole number. In JSON, 42.50 would be a float, which is refused.
    """
    amount, address = event["detail"]["amount"], event["detail"]["address"]
    return {"amount": Decimal(amount) if isinstance(amount, str) else amount, "address": address}


# Until an order is created, it exists only in its message. If another order in the batch killed the function before
# that, it would wait for the visibility timeout. Once it is in the table, the next schedule finds it.
confirm_payment = _on_queue(
    Order.confirm_payment,
    task_id="detail.order_id",
    create_if_missing=new_order,
    create_first=True,
    next_queue_url=_SHIP_QUEUE,
)
ship = _on_queue(Order.ship, task_id="task_id", next_queue_url=_DELIVER_QUEUE)
deliver = _on_queue(Order.deliver, task_id="task_id")

retry_confirm_payment = _on_schedule(Order.confirm_payment, steps.confirm_payment, next_queue_url=_SHIP_QUEUE)
retry_ship = _on_schedule(Order.ship, steps.ship, next_queue_url=_DELIVER_QUEUE)
retry_deliver = _on_schedule(Order.deliver, steps.deliver)


def watch(_event: Any, _context: LambdaContext | None) -> dict[str, float]:
    """Measure how long each step's oldest order has been due. Return seconds by step."""
    return write_overdue(datetime.now(UTC), _METRICS)
