"""A function that runs a step of this library, and creates its task with the first event, as Powertools does."""

import time
from typing import Any

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.aws_lambda import handles
from tests.benchmarks.orders import Order


@handles(Order.ship, task_id="id", create_if_missing=True, store_result=True)
def work(_ctx: ExecutionContext[Order], _event: object) -> dict[str, str]:
    return {"receipt": "r-1"}


_IMPORTED = time.process_time()


def handler(event: Any, context: Any) -> list[float]:
    """Return how much CPU time the import and this invocation took."""
    begun = time.process_time()
    work(event, context)
    return [_IMPORTED, time.process_time() - begun]
