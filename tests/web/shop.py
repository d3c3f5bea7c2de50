"""The use cases that the pages of these tests are about, and tasks in all of their states."""

import random
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UTCDateTimeAttribute

from pynamodb_tracker import (
    BoundStep,
    ExecutionContext,
    FindBy,
    GiveUp,
    Repeat,
    RetryLater,
    Signal,
    Step,
    Task,
    UseCase,
)
from pynamodb_tracker.testing import StoppedClock

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


class Fate:
    """What becomes of the attempts of a shop that is not lucky, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def __call__(self, ctx: ExecutionContext[Any]) -> None:
        """Do the work of a step, or fail in one of several ways."""
        drawn = self.random.random()
        if drawn < 0.08:
            raise RetryLater(timedelta(hours=8, seconds=self.random.random() * 3000))
        if drawn < 0.16:
            raise CarrierError(f"label service: 429 Too Many Requests (request {self.random.getrandbits(48):012x})")
        if drawn < 0.22:
            raise TimeoutError(f"POST /charge timed out after {self.random.randint(900, 3000)} ms")
        if drawn < 0.26:
            raise GiveUp(f"no such street: «Rua das Flores {self.random.randint(1, 9999)}»")
        ctx.task.data["note"] = "fine"


def steps() -> list[BoundStep[Any]]:
    return [Order.confirm_payment, Order.reserve_stock, Order.ship]


def leave(step: BoundStep[Any], task_id: str) -> None:
    """Start a task as a worker does that dies: it never leaves its block, and says nothing about that."""
    dead = ExitStack()
    dead.enter_context(step.start(task_id))
    _DEAD.append(dead)


def fill(clock: StoppedClock, tasks: int, *, seed: int = 1, hours: float = 3) -> None:
    """Let time pass while tasks are created and run: at the end there are some in each state."""
    fate, pause = Fate(seed), timedelta(hours=hours) / tasks
    for number in range(tasks):
        clock.advance(pause)
        Order.create(f"o-2026-{number:06}", amount=100 + number, customer="Ada", data={"lines": [{"sku": number}]})
        for step in steps():
            if fate.random.random() < 0.9:
                step.run_all(fate, limit=3)
    for step in steps():
        for task in list(step.due(limit=3)):
            leave(step, task.task_id)
    for number in range(8):
        Refund.create(f"r-{number}")
    Refund.pay_back.run_all(fate, limit=5)
    Nightly.create("nightly", repeat=Repeat.every(timedelta(hours=24)))


def failed(*task_ids: str) -> None:
    """Create orders whose shipping has failed."""
    for task_id in task_ids:
        Order.create(task_id, state=Order.ship.failed)
