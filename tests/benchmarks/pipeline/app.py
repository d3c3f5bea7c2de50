"""The application: orders of four steps, with the settings of `infra/order_pipeline`, on a clock that runs faster."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from pynamodb_tracker import ExecutionContext, Step, Task, UseCase
from pynamodb_tracker.aws_lambda import Replies, handles, retry_handler

FREEZE = 4.0
"""Seconds for which an environment is frozen in the middle of a block."""

STEPS = ("confirm_payment", "pack", "ship", "deliver")

HUNG, KILLED, FROZEN, FAILED, OVERRUN = 0.015, 0.03, 0.04, 0.06, 0.065
"""How often a call of another system has that fault, added up; the same calls in each run of the benchmark."""

freeze: Callable[[float], None] = time.sleep
"""Set by the environment: the emulator stops its process for so long."""

is_broken = False
"""Set by the environment, of a deployment with a bug."""


class Table(Task):
    class Meta:
        table_name = "tasks"
        region = "us-east-1"
        host = os.environ.get("TABLE_HOST")


def later_each_time(attempt: int) -> timedelta:
    """Return the pause after a failed attempt, a tenth of the pipeline's."""
    return timedelta(seconds=6 * min(2 ** (attempt - 1), 60))


class Order(Table):
    use_case_id = UseCase("order", keep_for=timedelta(days=365))

    confirm_payment = Step(100, max_attempts=8, retry_delay=later_each_time)
    pack = Step(200, max_attempts=8, retry_delay=later_each_time)
    ship = Step(300, max_attempts=8, retry_delay=later_each_time)
    deliver = Step(400, max_attempts=8, retry_delay=later_each_time)


def call(ctx: ExecutionContext[Order]) -> None:
    """Call another system, which notes that; it may hang or fail, and the function may be killed or frozen."""
    step, attempt = ctx.task.state.step, ctx.task.attempt
    luck = random.Random(f"{ctx.task.task_id}/{step}/{attempt}")
    note = {"time": time.time(), "order": ctx.task.task_id, "step": step, "attempt": attempt}
    with open(os.environ["BLOCKS"], "a", encoding="utf-8") as blocks:  # noqa: PTH123 - one short write
        blocks.write(json.dumps(note) + "\n")
    if is_broken:
        raise NameError("name 'ordr' is not defined")
    fault = luck.random()
    time.sleep(luck.uniform(0.02, 0.1))
    if fault < HUNG:
        time.sleep(5)
        raise TimeoutError("the other system does not answer")
    if fault < KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault < FROZEN:
        freeze(FREEZE)
    elif fault < FAILED:
        raise ConnectionError("HTTP Error 503")
    elif fault < OVERRUN:
        time.sleep(60)


for _name in STEPS:
    getattr(Order, _name).does(call)

_QUEUE = os.environ.get("QUEUES", "http://127.0.0.1:1/")
_NEXT = dict(zip(STEPS, [*(f"{_QUEUE}{name}" for name in STEPS[1:]), None], strict=True))

_on_queue = partial(
    handles,
    trigger="sqs",
    replies=Replies(locked="ack", not_ready="ack", failed="ack"),
    metrics="order-pipeline",
)
_first = _on_queue(
    Order.confirm_payment,
    task_id="detail.order_id",
    create_if_missing=lambda _event: {},
    create_first=True,
    next_queue_url=_NEXT[STEPS[0]],
)

HANDLERS: dict[str, Callable[[Any, Any], Any]] = {
    STEPS[0]: _first,
    **{name: _on_queue(getattr(Order, name), task_id="task_id", next_queue_url=_NEXT[name]) for name in STEPS[1:]},
    **{
        f"retry_{name}": retry_handler(
            getattr(Order, name), threads=8, next_queue_url=_NEXT[name], metrics="order-pipeline"
        )
        for name in STEPS
    },
}
