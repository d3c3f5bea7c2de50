"""A function that runs a step of this library."""

import time
from typing import Any

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.aws_lambda import handles
from tests.benchmarks.orders import Order


@handles(Order.ship, task_id="id")
def work(ctx: ExecutionContext[Order], _event: object) -> None:
    ctx.task.note = "r-1"


_IMPORTED = time.process_time()


def handler(event: Any, context: Any) -> list[float]:
    """Return how much CPU time the import and this invocation took."""
    begun = time.process_time()
    work(event, context)
    return [_IMPORTED, time.process_time() - begun]
