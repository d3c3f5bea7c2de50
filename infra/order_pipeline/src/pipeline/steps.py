"""The steps' functions, which queues, schedules and the command line run.

A worker may die after its work and before that is recorded, so the work happens at least once. `ctx.idempotency_key`
is the same for every attempt, so the other system does it only once. That system must remember the key for as long as
an order may be retried. If it forgets keys after a day, first ask it for what it has already done.
"""

from pipeline.orders import Order
from pipeline.services import post
from pynamodb_tracker import ExecutionContext


@Order.confirm_payment.does
def confirm_payment(ctx: ExecutionContext[Order]) -> None:
    """Charge the customer."""
    order = ctx.task
    body = {"order_id": order.task_id, "amount": f"{order.amount:f}"}  # text, because a float is not exact
    order.receipt = post("GATEWAY_URL", "charges", ctx.idempotency_key, body)["receipt"]


@Order.ship.does
def ship(ctx: ExecutionContext[Order]) -> None:
    """Have the carrier print a label."""
    order = ctx.task
    body = {"order_id": order.task_id, "address": order.address}
    order.tracking_no = post("CARRIER_URL", "labels", ctx.idempotency_key, body)["tracking_no"]


@Order.deliver.does
def deliver(ctx: ExecutionContext[Order]) -> None:
    """Have the carrier hand the parcel over."""
    order = ctx.task
    body = {"order_id": order.task_id, "tracking_no": order.tracking_no}
    order.handed_over = post("CARRIER_URL", "deliveries", ctx.idempotency_key, body)["handed_over"]
