"""The handlers that the template names: for each step one for its queue and one for its schedule, and `watch`."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pipeline import steps
from pipeline.next_step import StepWork
from pipeline.orders import Order
from pipeline.overdue import write_overdue
from pynamodb_tracker import BoundStep, ExecutionContext
from pynamodb_tracker.aws_lambda import LambdaContext, Replies, handles, retry_handler

__all__ = ["confirm_payment", "deliver", "retry_confirm_payment", "retry_deliver", "retry_ship", "ship", "watch"]

Handler = Callable[[Any, LambdaContext | None], Any]

_REPLIES = Replies(locked="done", not_ready="done", failed="done")
"""The table knows when an order may be tried again, and the schedule does it, so the message need not be redelivered
for that. It is redelivered, and ends in the dead-letter queue, if it cannot be read, if there is no such order, if the
table does not answer, or if the invocation died."""

_METRICS = os.environ["METRICS_NAMESPACE"]
_THREADS = int(os.environ["RETRY_THREADS"])


def new_order(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an order from the event that announces it."""
    return {name: event["detail"][name] for name in ("amount", "address")}


def on_queue(step: BoundStep[Order], work: StepWork, *, task_id: str = "order_id", is_first: bool = False) -> Handler:
    """Return the handler for the queue of a step."""

    def run(ctx: ExecutionContext[Order], _event: Any) -> None:
        work.run(ctx)

    create_if_missing = new_order if is_first else False
    handler = handles(
        step,
        task_id=task_id,
        trigger="sqs",
        create_if_missing=create_if_missing,
        replies=_REPLIES,
        metrics=_METRICS,
    )(run)
    return _sending(handler, work)


def on_schedule(step: BoundStep[Order], work: StepWork) -> Handler:
    """Return the handler for the schedule of a step: it runs the due orders itself.

    If it sent them to the queue instead, a due order whose message waits in a long queue would get one more message
    every minute.
    """
    return _sending(retry_handler(step, work.run, threads=_THREADS, metrics=_METRICS), work)


def _sending(run: Handler, work: StepWork) -> Handler:
    """Return a handler that sends the orders that it has finished to the next step."""

    def handler(event: Any, context: LambdaContext | None) -> Any:
        work.begin_invocation()
        answer = run(event, context)
        work.send_finished()
        return answer

    return handler


_payment = StepWork(steps.confirm_payment, next_step=Order.ship, queue="SHIP_QUEUE_URL")
_shipment = StepWork(steps.ship, next_step=Order.deliver, queue="DELIVER_QUEUE_URL")
_delivery = StepWork(steps.deliver)

confirm_payment = on_queue(Order.confirm_payment, _payment, task_id="detail.order_id", is_first=True)
ship = on_queue(Order.ship, _shipment)
deliver = on_queue(Order.deliver, _delivery)

retry_confirm_payment = on_schedule(Order.confirm_payment, _payment)
retry_ship = on_schedule(Order.ship, _shipment)
retry_deliver = on_schedule(Order.deliver, _delivery)


def watch(_event: Any, _context: LambdaContext | None) -> dict[str, float]:
    """Measure how long the oldest order of each step has been due, and return it by step, in seconds."""
    return write_overdue(datetime.now(UTC), _METRICS)
