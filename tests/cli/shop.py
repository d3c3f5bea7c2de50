"""The classes and the functions that the commands of these tests are about."""

from __future__ import annotations

import sys
import time
import zlib
from datetime import timedelta

from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    JSONAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    NumberSetAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
    UTCDateTimeAttribute,
)

from pynamodb_tracker import ExecutionContext, GiveUp, Step, Task, UseCase

__all__ = [
    "EmptyTask",
    "Invoice",
    "Order",
    "OtherTask",
    "Sample",
    "StoreTask",
    "charge",
    "dawdle",
    "later",
    "refuse",
    "stall",
    "waver",
]


class StoreTask(Task):
    class Meta:
        table_name = "store"
        region = "us-east-1"


class Order(StoreTask):
    use_case_id = UseCase("order")

    pay = Step(10)
    ship = Step(20, max_attempts=2, lock_for=timedelta(minutes=15))

    amount = NumberAttribute(null=True)
    note = UnicodeAttribute(null=True)


class Invoice(StoreTask):
    use_case_id = UseCase("invoice")

    send = Step(10)


class OtherTask(Task):
    class Meta:
        table_name = "other"
        region = "us-east-1"


class Sample(OtherTask):
    """Has an attribute of each kind."""

    use_case_id = UseCase("sample", keep_for=timedelta(days=30))

    test = Step(10)

    is_good = BooleanAttribute(null=True)
    photo = BinaryAttribute(legacy_encoding=False, null=True)
    labels = UnicodeSetAttribute(null=True)
    weights = NumberSetAttribute(null=True)
    taken_at = UTCDateTimeAttribute(null=True)
    parts: ListAttribute[object] = ListAttribute(null=True)
    place: MapAttribute[str, object] = MapAttribute(null=True)  # type: ignore[no-untyped-call]  # PynamoDB's own
    extra = JSONAttribute(null=True)
    name = UnicodeAttribute()


class EmptyTask(Task):
    """Has no use case."""

    class Meta:
        table_name = "empty"
        region = "us-east-1"


def charge(ctx: ExecutionContext[Order]) -> None:
    print(f"charging {ctx.task.task_id}")  # noqa: T201 - as functions of users do
    ctx.task.data["receipt"] = f"r-{ctx.task.task_id}"


def refuse(ctx: ExecutionContext[Order]) -> None:
    raise ConnectionError(
        f"the bank did not answer about {ctx.task.task_id}, request {10_000 + zlib.crc32(ctx.task.task_id.encode())}"
    )


def waver(ctx: ExecutionContext[Order]) -> None:
    """Succeed, fail or give up, as the id says."""
    if "bad" in ctx.task.task_id:
        refuse(ctx)
    if "lost" in ctx.task.task_id:
        raise GiveUp("no such address")


def dawdle(_ctx: ExecutionContext[Order]) -> None:
    """Take long enough to be interrupted, and to end afterwards."""
    time.sleep(0.3)


def stall(_ctx: ExecutionContext[Order]) -> None:
    """Take longer than anybody waits."""
    time.sleep(120)


def leave(_ctx: ExecutionContext[Order]) -> None:
    """End the program, as a script does that meets an error."""
    sys.exit("no such file")


async def later(_ctx: ExecutionContext[Order]) -> None:
    pass


NUMBER = 5
