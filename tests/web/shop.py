"""The use cases that the pages of these tests are about, and tasks in all of their states."""

from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UTCDateTimeAttribute

from pynamodb_tracker import BoundStep, FindBy, Signal, Step, Task, UseCase

_DEAD: list[ExitStack] = []


class ShopTask(Task):
    class Meta:
        table_name = "shop-tasks"
        region = "us-east-1"

    customer = UnicodeAttribute(null=True)

    by_customer = FindBy(customer)


class Order(ShopTask):
    use_case_id = UseCase("order")

    confirm_payment = Step(10, max_attempts=4)
    reserve_stock = Step(20)
    ship = Step(30, max_attempts=5, lock_for=timedelta(minutes=15))

    paid, approved = Signal(), Signal()
    amount = NumberAttribute(null=True)


class Refund(ShopTask):
    use_case_id = UseCase("refund", urgent=True)

    pay_back = Step(10)

    valid_until = UTCDateTimeAttribute(null=True)


class Nightly(ShopTask):
    """Repeats every night; finished tasks are not in the index."""

    use_case_id = UseCase("nightly", index_succeeded=False)

    collect = Step(10)


class Parcel(ShopTask):
    """Has so many that one partition of the index would not do."""

    use_case_id = UseCase("parcel", status_shards=4)

    pack = Step(10)


class CarrierError(Exception):
    """The carrier does not do what it should."""


def leave(step: BoundStep[Any], task_id: str) -> None:
    """Start a task as a worker does that dies: it never leaves its block, and says nothing about that."""
    dead = ExitStack()
    dead.enter_context(step.start(task_id))
    _DEAD.append(dead)


def failed(*task_ids: str) -> None:
    """Create orders whose shipping has failed."""
    for task_id in task_ids:
        Order.create(task_id, state=Order.ship.failed)
