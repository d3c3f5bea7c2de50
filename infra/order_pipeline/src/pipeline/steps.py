"""What each step does with an order: functions of the context, run by queues, schedules and the command line.

A worker may do the work and die before that is recorded, so it happens at least once. The idempotency key is the same
for every attempt of a step, so the other system does it only once. That system must remember the key for as long as an
order may be retried; if it forgets keys after a day, ask it first what it has already done for the order.
"""

from pipeline.orders import Order
from pipeline.services import post
from pynamodb_tracker import ExecutionContext


@Order.confirm_payment.does
def confirm_payment(ctx: ExecutionContext[Order]) -> None:
    """Charge the customer."""
    order = ctx.task
    key = f"{order.task_id}/confirm_payment"
    order.receipt = post("GATEWAY_URL", "charges", key, {"amount": float(order.amount)})["receipt"]


@Order.ship.does
def ship(ctx: ExecutionContext[Order]) -> None:
    """Have the carrier print a label."""
    order = ctx.task
    order.tracking_no = post("CARRIER_URL", "labels", f"{order.task_id}/ship", {"address": order.address})[
        "tracking_no"
    ]


@Order.deliver.does
def deliver(ctx: ExecutionContext[Order]) -> None:
    """Have the carrier hand the parcel over."""
    order = ctx.task
    key = f"{order.task_id}/deliver"
    order.handed_over = post("CARRIER_URL", "deliveries", key, {"tracking_no": order.tracking_no})["handed_over"]
