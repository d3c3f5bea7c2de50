"""What is done for an order in each step; functions of the context, for queues, schedules and the command line alike.

A worker may do it and die before that is recorded, so it is done at least once. The key makes it once for the other
system: it is the same for every attempt of a step. That system has to know the key for as long as an order may be tried
again; one that forgets keys after a day is to be asked first, by the order, what it has done already.
"""

from pipeline.orders import Order
from pipeline.services import post
from pynamodb_tracker import ExecutionContext

__all__ = ["confirm_payment", "deliver", "ship"]


def confirm_payment(ctx: ExecutionContext[Order]) -> None:
    """Charge the customer."""
    order = ctx.task
    key = f"{order.task_id}/confirm_payment"
    order.receipt = post("GATEWAY_URL", "charges", key, {"amount": float(order.amount)})["receipt"]


def ship(ctx: ExecutionContext[Order]) -> None:
    """Have the carrier print a label."""
    order = ctx.task
    order.tracking_no = post("CARRIER_URL", "labels", f"{order.task_id}/ship", {"address": order.address})[
        "tracking_no"
    ]


def deliver(ctx: ExecutionContext[Order]) -> None:
    """Have the carrier hand the parcel over."""
    order = ctx.task
    key = f"{order.task_id}/deliver"
    order.handed_over = post("CARRIER_URL", "deliveries", key, {"tracking_no": order.tracking_no})["handed_over"]
