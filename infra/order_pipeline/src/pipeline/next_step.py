"""How an order gets to its next step: a message to that step's queue, once the success is recorded."""

import json
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

import boto3

from pipeline.orders import Order
from pynamodb_tracker import BoundStep, ExecutionContext

Work = Callable[[ExecutionContext[Order]], None]

_BATCH_SIZE = 10
"""The most messages that SQS accepts in one request."""


class StepWork:
    """The work of a step; what an invocation has finished is sent to the queue of the next step.

    Nothing depends on these messages: they are only faster than the next step's schedule, which finds the same orders
    in the table. So an invocation that dies after a success and before its message is sent leaves no order behind.
    """

    def __init__(self, work: Work, *, next_step: BoundStep[Order] | None = None, queue: str = "") -> None:
        """`queue` is the environment variable with the URL of the next step's queue."""
        self._work = work
        self._next_step = next_step
        self._queue = queue
        self._orders: list[Order] = []

    def run(self, ctx: ExecutionContext[Order]) -> None:
        """Do the work, and remember the order."""
        self._orders.append(ctx.task)
        self._work(ctx)

    def begin_invocation(self) -> None:
        """Forget the orders of the previous invocation."""
        self._orders.clear()

    def send_finished(self) -> None:
        """Send a message for each order that is ready for the next step; RuntimeError if SQS does not accept all."""
        if self._next_step is None:
            return
        ready = [order.task_id for order in self._orders if order.state == self._next_step.pending]
        for begin in range(0, len(ready), _BATCH_SIZE):
            ids = ready[begin : begin + _BATCH_SIZE]
            bodies = [json.dumps({"order_id": task_id}) for task_id in ids]
            entries = [{"Id": str(place), "MessageBody": body} for place, body in enumerate(bodies)]
            answer = self._sqs.send_message_batch(QueueUrl=os.environ[self._queue], Entries=entries)
            if refused := answer.get("Failed"):
                names = ", ".join(ids[int(each["Id"])] for each in refused)
                raise RuntimeError(f"{self._queue} did not accept {names}: {refused}; the schedule will find them")

    @cached_property
    def _sqs(self) -> Any:
        return boto3.client("sqs")
