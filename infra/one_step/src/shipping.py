"""One step behind one queue, with its table, use case, function and handler."""

import json
import os
import urllib.request
from datetime import timedelta
from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import ExecutionContext, Step, Task, UseCase
from pynamodb_tracker.aws_lambda import Replies, handles

__all__ = ["Order", "handler"]


class AppTask(Task):
    """The table, whose name comes from the template."""

    class Meta:
        """Lambda sets the region in the environment."""

        table_name = os.environ["TASKS_TABLE"]


class Order(AppTask):
    """A customer's order."""

    use_case_id = UseCase("order", keep_for=timedelta(days=365))

    ship = Step(100, max_attempts=5)

    address = UnicodeAttribute()
    tracking_no = UnicodeAttribute(null=True)


@Order.ship.does
def ship(ctx: ExecutionContext[Order]) -> None:
    """Let the carrier print a label. The key makes a second call for the same order harmless."""
    request = urllib.request.Request(  # noqa: S310 - the URL is the operator's, from the template
        os.environ["CARRIER_URL"],
        data=json.dumps({"order_id": ctx.task.task_id, "address": ctx.task.address}).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": ctx.idempotency_key},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - as above
        ctx.task.tracking_no = json.load(answer)["tracking_no"]


def new_order(message: dict[str, Any]) -> dict[str, Any]:
    """Return an order's attributes from its first message, `{"order_id": "o-1", "address": "1 Main Street"}`."""
    return {"address": message["address"]}


handler = handles(
    Order.ship,
    task_id="order_id",
    trigger="sqs",
    create_if_missing=new_order,
    # The queue repeats failed messages. Those of ignored orders stay, too, until a dead letter raises the alarm.
    replies=Replies(ignored="raise"),
)
