"""A use case whose steps run in Lambda functions, and the context that Lambda gives them."""

import os
from datetime import timedelta
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import ExecutionContext, Signal, Step, Task, UseCase
from pynamodb_tracker.testing import StoppedClock

REQUEST = "8f507cfc-xmpl-4697-b07a-ac58fc914c95"


class ShopTask(Task):
    class Meta:
        table_name = os.environ.get("SHOP_TABLE", "shop")  # a process that a test starts uses the table of the test
        region = "us-east-1"


class Order(ShopTask):
    use_case_id = UseCase("order")

    confirm = Step(10)
    ship = Step(20, max_attempts=2)
    deliver = Step(30, retry_delay=timedelta(minutes=10))

    paid, approved = Signal(), Signal()
    amount = NumberAttribute(null=True)
    label = UnicodeAttribute(null=True)


class Broken(Exception):  # noqa: N818 - what users raise has any name
    ...


class Context:
    """Lambda's context, of an invocation that began now by a stopped clock."""

    def __init__(self, clock: StoppedClock, seconds: float = 30, request_id: str = REQUEST) -> None:
        self._clock = clock
        self._end = clock.now() + timedelta(seconds=seconds)
        self.aws_request_id = request_id

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - self._clock.now()) / timedelta(milliseconds=1))


def ship(ctx: ExecutionContext[Order], event: Any) -> None:
    if event.get("broken"):
        raise Broken(event["broken"])
    ctx.task.label = f"label of {ctx.task.task_id}"


def no_access(*_: object, **__: object) -> Any:
    """Be what `start` is where the table refuses every write."""
    raise UpdateError("AccessDeniedException: not authorized to perform dynamodb:UpdateItem")


def ready(*task_ids: str) -> None:
    """Create orders that are ready to ship; one if there is no id."""
    for task_id in task_ids or ("o-1",):
        Order.create(task_id, state=Order.ship.pending)


def ignored() -> None:
    ready()
    Order.ship.ignore("o-1", reason="cancelled")


def states(*task_ids: str) -> list[str]:
    return [str(Order.get_task(task_id).state) for task_id in task_ids]
