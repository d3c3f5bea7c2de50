"""How an order comes to its next step: a message to that step's queue, once the success is on record."""

import json
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

import boto3

from pipeline.orders import Order
from pynamodb_tracker import BoundStep, ExecutionContext

__all__ = ["HandOn"]

Work = Callable[[ExecutionContext[Order]], None]

_MOST_MESSAGES = 10
"""That SQS takes at once."""


class HandOn:
    """Notes the orders that an invocation runs, and sends those that are ready for the next step to its queue.

    Nothing depends on these messages: they are quicker than the next step's schedule, which finds the same orders in
    the table. So an invocation that dies after a success, and before its message is sent, strands no order.
    """

    def __init__(self, work: Work, *, to: BoundStep[Order] | None = None, queue: str = "") -> None:
        """`queue` names the environment variable that has the queue's URL."""
        self._work = work
        self._to = to
        self._queue = queue
        self._orders: list[Order] = []

    def run(self, ctx: ExecutionContext[Order]) -> None:
        """Do the work, and note whose it was."""
        self._orders.append(ctx.task)
        self._work(ctx)

    def begin(self) -> None:
        """Forget the invocation before this one."""
        self._orders.clear()

    def send(self) -> None:
        """Send a message for each order that is ready for the next step; RuntimeError where SQS takes not all."""
        ready = [order.task_id for order in self._orders if self._to is not None and order.state == self._to.pending]
        for begin in range(0, len(ready), _MOST_MESSAGES):
            ids = ready[begin : begin + _MOST_MESSAGES]
            bodies = [json.dumps({"order_id": task_id}) for task_id in ids]
            entries = [{"Id": str(place), "MessageBody": body} for place, body in enumerate(bodies)]
            answer = self._sqs.send_message_batch(QueueUrl=os.environ[self._queue], Entries=entries)
            if refused := answer.get("Failed"):
                names = ", ".join(ids[int(each["Id"])] for each in refused)
                raise RuntimeError(f"{self._queue} did not take {names}: {refused}; the schedule will find them")

    @cached_property
    def _sqs(self) -> Any:
        return boto3.client("sqs")
