"""The table of these tests, its use cases, and what is run on them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from pynamodb_tracker import ConcurrencyLimit, Repeat, Signal, Step, Task, UseCase

LETTERS = "tests.infra.shop:Letter"
"""The class that commands are given."""


class ShopTask(Task):
    class Meta:
        table_name = "shop-tasks"
        region = "us-east-1"

    weight = NumberAttribute(null=True)


class Parcel(ShopTask):
    """Kept for a month after its end, so that its overflow chunks have a time to live as well."""

    use_case_id = UseCase("parcel", keep_for=timedelta(days=30), keep_ignored_for=timedelta(days=30))

    pack = Step(10)
    send = Step(20)


class Letter(ShopTask):
    use_case_id = UseCase("letter", status_shards=2)

    post = Step(10)


def tell(task: Any, create: Callable[..., None]) -> None:
    create(Letter, task.task_id)


class Freight(ShopTask):
    """Creates tasks with its end, and may be sent back."""

    use_case_id = UseCase("freight")

    haul = Step(10, when_ignored=tell)
    send_back = Step(90, branch=True)


class Payout(ShopTask):
    """May be paused, is limited, may be urgent, and may await an answer."""

    use_case_id = UseCase("payout", pausable=True, urgent=True)

    pay = Step(10, concurrency_limit=ConcurrencyLimit("bank", 2))

    approved = Signal()


class Stock(Model):
    """A table of the shop's own, which transactions of a run write to."""

    class Meta:
        """Another table: its permissions are given elsewhere."""

        table_name = "stocks"
        region = "us-east-1"

    sku = UnicodeAttribute(hash_key=True)
    left = NumberAttribute(default=0)


DAILY = Repeat.every(timedelta(days=1))


def pack(ctx: Any) -> None:
    ctx.task.weight = 3


def refuse(_ctx: Any) -> None:
    raise ConnectionError("the printer does not answer " * 100)
