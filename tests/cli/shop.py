"""The classes and the functions that the commands of these tests are about."""

import asyncio
import itertools
import os
import signal
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
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

from pynamodb_tracker import (
    AsyncContext,
    DecimalAttribute,
    ExecutionContext,
    FindBy,
    GiveUp,
    Signal,
    State,
    Step,
    Task,
    UseCase,
)


class StoreTask(Task):
    class Meta:
        table_name = "store"
        region = "us-east-1"


class Order(StoreTask):
    use_case_id = UseCase("order")

    pay = Step(10)
    ship = Step(20, max_attempts=2, lock_for=timedelta(minutes=15))

    paid, approved = Signal(), Signal()
    amount = NumberAttribute(null=True)
    note = UnicodeAttribute(null=True)


class Invoice(StoreTask):
    use_case_id = UseCase("invoice", urgent=True)

    send = Step(10)


class OtherTask(Task):
    class Meta:
        table_name = "other"
        region = "us-east-1"


class Sample(OtherTask):
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
    ratio = NumberAttribute(null=True)
    price = DecimalAttribute(null=True)
    name = UnicodeAttribute()


class DeskTask(Task):
    """Has two use cases with a step of one name."""

    class Meta:
        table_name = "desk"
        region = "us-east-1"

    customer = UnicodeAttribute(null=True)

    by_customer = FindBy(customer)


class Letter(DeskTask):
    use_case_id = UseCase("letter")

    send = Step(10)


class Parcel(DeskTask):
    use_case_id = UseCase("parcel")

    pack = Step(10)
    send = Step(20)


class BoundTask(Task):
    """Has a step to which a function is bound."""

    class Meta:
        table_name = "bound"
        region = "us-east-1"


class Bound(BoundTask):
    use_case_id = UseCase("bound")

    pay = Step(10)
    ship = Step(20)


@Bound.pay.does
def bind(ctx: ExecutionContext[Bound]) -> None:
    if "bad" in ctx.task.task_id:
        raise ConnectionError("the bank did not answer")
    ctx.task.data["receipt"] = "bound"


class EmptyTask(Task):
    class Meta:
        table_name = "empty"
        region = "us-east-1"


def charge(ctx: ExecutionContext[Order]) -> None:
    print(f"charging {ctx.task.task_id}")  # noqa: T201 - as functions of users do
    ctx.task.data["receipt"] = f"r-{ctx.task.task_id}"


def open_shop() -> None:
    print("the shop is open")  # noqa: T201 - as functions of users do


def burn() -> None:
    raise OSError("the shop burns")


def close() -> None:
    sys.exit("the shop is closed")


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


_dawdled = itertools.count()


def dawdle(_ctx: ExecutionContext[Order]) -> None:
    """End at once the first time; after that, take until the test lets this go on, and a while if it has already."""
    if next(_dawdled) == 0:
        return
    if Invoice.send.pending.count():
        time.sleep(0.3)
    while not Invoice.send.pending.count():
        time.sleep(0.02)


def go_on() -> None:
    """Let those go on that dawdle."""
    Invoice.create("go on")


def stall(ctx: ExecutionContext[Order]) -> None:
    """Take longer than anybody waits, and let others see that it has begun: a claim alone may be released."""
    ctx.task.note = "stalls"
    ctx.save()
    time.sleep(120)


def stalling() -> int:
    return sum(order.note == "stalls" for step in (Order.pay, Order.ship) for order in step.in_progress.query())


def stall_in_a_thread(ctx: ExecutionContext[Order]) -> None:
    """Do so on a thread that Python waits for before it ends."""
    with ThreadPoolExecutor() as pool:
        pool.submit(stall, ctx).result()


def obey(ctx: ExecutionContext[Order]) -> None:
    os.kill(os.getpid(), signal.Signals[ctx.task.note])


def leave(_ctx: ExecutionContext[Order]) -> None:
    sys.exit("no such file")


def interrupt(ctx: ExecutionContext[Order]) -> None:
    """End the program at a task, as some libraries do."""
    if ctx.task.note == "stop":
        raise KeyboardInterrupt


def ship_it(ctx: ExecutionContext[Order], label: str) -> None:
    """Want more than the context."""


def chatter(ctx: ExecutionContext[Order]) -> None:
    for _ in range(200):
        print("x" * 1000)  # noqa: T201 - as functions of users do
    time.sleep(0.05)
    ctx.task.data["done"] = True


def postpone(ctx: ExecutionContext[Order]) -> object:
    """Return a coroutine that nobody awaits, as a decorator does that knows nothing of them."""
    return asyncio.sleep(0, ctx)


async def later(ctx: AsyncContext[Order]) -> None:
    ctx.task.data["paid"] = "later"
    await ctx.save()


NUMBER = 5


def counted() -> dict[str, int]:
    counts: dict[State[Order], int] = Order.counts()
    return {str(state): number for state, number in counts.items() if number}
