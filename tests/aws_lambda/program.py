"""What a deployment package would have: handlers of one function for each trigger, and a schedule."""

import time
from typing import Any

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.aws_lambda import handles, retry_handler
from tests.aws_lambda.shop import Order, ship

direct = handles(Order.ship, task_id="order_id", metrics=True)(ship)
by_bus = handles(Order.confirm, task_id="detail.order_id", create_if_missing=lambda event: event["detail"]["task"])(
    lambda _ctx, _event: None
)
by_queue = handles(Order.ship, task_id="order_id", trigger="sqs")(ship)
by_stream = handles(Order.ship, task_id="order_id", trigger="kinesis")(ship)
by_request = handles(
    Order.ship, task_id="body.order_id", create_if_missing=True, store_result=True, must_match="body.amount"
)(lambda ctx, _event: {"label": ctx.fencing_token})
again = retry_handler(Order.ship, lambda _ctx: None)


@handles(Order.ship, task_id="dynamodb.Keys.order_id.S")
def by_change(ctx: ExecutionContext[Order], record: Any) -> None:
    """Keep what the other table has."""
    ctx.task.amount = int(record["dynamodb"]["NewImage"]["amount"]["N"])


@handles(Order.ship, task_id="order_id")
def hangs(ctx: ExecutionContext[Order], _event: Any) -> None:
    ctx.task.label = "half done"
    ctx.save()
    time.sleep(60)
