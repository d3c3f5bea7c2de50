"""The handlers that the template names: for each step one for its queue and one for its schedule, and `watch`."""

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
"""The table knows when an order may be tried again, and the schedule does it, so the message need not be redelivered
for that. It is redelivered, and ends in the dead-letter queue, if it cannot be read, if there is no such order, if the
table does not answer, if the order could not be sent to the next step, or if the invocation died."""

_METRICS = os.environ["METRICS_NAMESPACE"]

_SHIP_QUEUE = os.environ.get("SHIP_QUEUE_URL")
_DELIVER_QUEUE = os.environ.get("DELIVER_QUEUE_URL")
"""The template sets each for the functions of the step before. Nothing is lost without these messages: they are only
faster than the next step's schedule, which finds the same orders in the table."""

_on_queue = partial(handles, trigger="sqs", replies=_REPLIES, metrics=_METRICS)

# Schedules run the due orders themselves. If they sent them to the queue instead, a due order whose message waits in a
# long queue would get one more message every minute.
_on_schedule = partial(retry_handler, threads=int(os.environ["RETRY_THREADS"]), metrics=_METRICS)


def new_order(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an order from the event that announces it.

    The amount is text, such as "42.50", or a whole number: in JSON, 42.50 would be a float, which is refused.
    """
    amount, address = event["detail"]["amount"], event["detail"]["address"]
    return {"amount": Decimal(amount) if isinstance(amount, str) else amount, "address": address}


# Until an order is created, it exists in its message alone. If another order of the batch killed the function before
# that, it would wait for the visibility timeout; in the table, the next schedule finds it.
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
    """Measure how long the oldest order of each step has been due, and return it by step, in seconds."""
    return write_overdue(datetime.now(UTC), _METRICS)
