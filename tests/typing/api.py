"""The public API as a type checker sees it: mypy reads this file, nothing runs it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, assert_type, cast

from pynamodb.attributes import Attribute, NumberAttribute, UnicodeAttribute
from pynamodb.transactions import TransactWrite
from starlette.requests import Request
from starlette.types import ASGIApp

from pynamodb_tracker import (
    AsyncContext,
    AsyncWorker,
    BoundSignal,
    BoundStep,
    CancelRecord,
    DecimalAttribute,
    ExecutionContext,
    Group,
    IndexEntry,
    IndexPage,
    Merged,
    ReceivedSignal,
    Repeat,
    Report,
    Sent,
    Signal,
    State,
    Status,
    Step,
    Tally,
    Task,
    TaskLockedError,
    TaskPage,
    UseCase,
    Worker,
)
from pynamodb_tracker.aws_lambda import (
    Handler,
    Invocation,
    LambdaContext,
    Replies,
    RetryHandler,
    StepHandler,
    handles,
    handles_signal,
    retry_handler,
)
from pynamodb_tracker.instrumentation import Hook, RunDetails, add_hook
from pynamodb_tracker.opentelemetry import instrument
from pynamodb_tracker.testing import LocalServer, LocalTable, StoppedClock, local_server, local_table, stopped_clock
from pynamodb_tracker.web import ActionRequest, dashboard


class AddressUnknownError(Exception):
    pass


class AppTask(Task):
    class Meta:
        table_name = "tasks"
        region = "us-east-1"


class Order(AppTask):
    use_case_id = UseCase(
        "order",
        status_shards=4,
        read_shards=8,
        keep_for=timedelta(days=90),
        keep_ignored_for=timedelta(days=365),
        index_succeeded=True,
    )

    confirm_payment = Step(10, when_ignored=lambda task, create: create(Refund, task.task_id))
    ship = Step(20, max_attempts=5, lock_for=timedelta(minutes=15), retry_delay=lambda n: timedelta(minutes=n))
    deliver = Step(30, give_up_on=(AddressUnknownError,), also_from=(confirm_payment.failed, ship.ignored))

    paid = Signal()

    amount = NumberAttribute()
    fee = DecimalAttribute(default=Decimal("0.5"))
    tracking_no = UnicodeAttribute(null=True)
    note = cast("Attribute[str | None]", UnicodeAttribute(null=True))


def warn(task: AppTask, create: Callable[..., None]) -> None:
    create(Refund, f"{task.task_id}/ignored")


class Refund(AppTask):
    use_case_id = UseCase("refund")

    send = Step(10, when_ignored=warn)


def print_label(ctx: ExecutionContext[Order]) -> int:
    assert_type(ctx.task, Order)
    assert_type(ctx.outcome, Literal["succeeded", "failed", "ignored", "released"] | None)
    assert_type(ctx.task.waits_for, str | None)
    assert_type(ctx.task.amount, float)
    assert_type(ctx.task.fee, Decimal)
    ctx.task.fee = 3
    ctx.task.fee = 3.1  # type: ignore[assignment]
    assert_type(ctx.task.task_id, str)
    assert_type(ctx.task.use_case_id, str)
    assert_type(ctx.task.status, int)
    assert_type(ctx.task.due_time, datetime)
    assert_type(ctx.attempt, int)
    assert_type(ctx.fencing_token, str)
    assert_type(ctx.idempotency_key, str)
    assert_type(ctx.key("charge"), str)
    assert_type(ctx.lock_expire_time, datetime)
    assert_type(ctx.lock_lost, bool)
    ctx.task.data["label"] = "printed"
    ctx.task.amont = 1  # type: ignore[attr-defined]
    ctx.extend_lock()
    ctx.save()
    assert_type(ctx.checkpoint("charge", lambda: "c-1"), str)
    ctx.wait_for(Order.paid, until=timedelta(days=2))
    ctx.wait_for(Order.deliver)  # type: ignore[arg-type]
    assert_type(ctx.task.paid, ReceivedSignal | None)
    assert_type(ctx.round, str)
    assert_type(Order.paid, BoundSignal[Order])
    assert_type(Order.paid.send("o-1", {"amount": "42.50"}, by="stripe"), Sent[Order])
    assert_type(Order.paid.send("o-1").will_be_read, bool)
    Order.create("o-1", wait_for=Order.paid, until=timedelta(days=2))
    ctx.create(Order, "o-2", wait_for=Order.paid, until=timedelta(days=2))
    handles_signal(Order.paid, task_id="body.order", value=lambda payload: payload["amount"])
    handles_signal(Order.deliver, task_id="body.order")  # type: ignore[arg-type]
    handles_signal(Order.paid, task_id="body.order", other="error")  # type: ignore[arg-type]
    ctx.go_to(Order.deliver)
    ctx.go_to("deliver")  # type: ignore[arg-type]
    ctx.end_task()
    ctx.create(Refund, "r-1", due_time=timedelta(days=1), trace={"traceparent": "00"}, model="x")
    ctx.create("refund", "r-1")  # type: ignore[arg-type]
    return 1


async def later(ctx: ExecutionContext[Order]) -> None:
    assert_type(ctx.task, Order)


@Order.deliver.does
def deliver(ctx: ExecutionContext[Order]) -> str:
    assert_type(ctx.task, Order)
    return "delivered"


def look(ctx: ExecutionContext[AppTask]) -> None:
    assert_type(ctx.task, AppTask)


def merge(task: Order, new: Mapping[str, Any]) -> None:
    task.amount = max(task.amount, new["amount"])


def follow(ctx: ExecutionContext[Order]) -> None:
    ctx.create(Refund, "r-1", due_time=timedelta(minutes=1), trace={"traceparent": "00-0af7"})
    ctx.create(Refund, "r-2", wait=True)
    ctx.create(Refund, "r-3", repeat=Repeat.every(timedelta(hours=1)))
    ctx.create(Refund, 3)  # type: ignore[arg-type]
    ctx.create("refund", "r-4")  # type: ignore[arg-type]
    ctx.wait_until(timedelta(hours=2))
    ctx.wait_until(datetime.now(UTC))
    ctx.wait_until(2)  # type: ignore[arg-type]
    assert_type(ctx.occurrence, datetime | None)
    assert_type(ctx.task.waits_for, str | None)
    assert_type(ctx.task.blockers, int)


def read_what_may_be_missing(order: Order) -> str:
    assert_type(order.cancelled, CancelRecord | None)
    assert_type(Order.cancelled, State[Order])
    assert_type(order.wait_until, datetime | None)
    assert_type(order.expire_time, datetime | None)
    assert_type(order.worker, str | None)
    if order.cancelled is None or order.last_error is None:
        return "neither is unreachable"
    if order.note is None:
        return "nor is this"
    assert_type(order.note, str)
    return order.note


def keep_an_order(ctx: ExecutionContext[Order]) -> None:
    assert_type(Order.create("o-1001", group="customer-7"), Order)
    ctx.create(Refund, "r-1", group="customer-7")
    assert_type(ctx.group.data, dict[str, Any])
    assert_type(ctx.task.group, str)
    assert_type(Order.group("customer-7"), Group[Order])
    assert_type(Order.group("customer-7").waiting(), list[str])
    assert_type(Order.group("customer-7").turn, str | None)
    Order.create("o-1001", group=7)  # type: ignore[arg-type]


def repeat() -> None:
    nightly = Repeat.cron("0 2 * * *", tz="Europe/Berlin", missed="all", stop_on_failure=True)
    assert_type(nightly, Repeat)
    assert_type(Repeat.rrule("FREQ=MONTHLY;BYDAY=1MO", start=datetime.now(UTC)), Repeat)
    assert_type(Order.create_or_merge("nightly", repeat=nightly).task, Order)
    assert_type(Order.create("nightly", repeat=nightly, due_time=timedelta(minutes=1)), Order)
    Repeat.cron("0 2 * * *", missed="none")  # type: ignore[arg-type]
    Repeat.every(5)  # type: ignore[arg-type]
    Order.create("nightly", repeat="0 2 * * *")  # type: ignore[arg-type]


def use(cursor: str | None) -> int:
    assert_type(Order.create("o-1001", amount=4200), Order)
    assert_type(Order.create_or_merge("o-1001", merge=merge, due_time=timedelta(minutes=1)), Merged[Order])
    assert_type(Order.create_or_merge("o-1001").task, Order)
    nightly = Repeat.cron("0 2 * * *", tz="Europe/Berlin", missed="all", stop_on_failure=True)
    assert_type(Order.create("o-1001", amount=4200, repeat=nightly).repeat, Repeat | None)
    assert_type(Order.get_task("o-1001").occurrence, datetime | None)
    assert_type(
        Order.create_or_merge("o-1001").effect,
        Literal["created", "merged", "queued", "restarted", "ignored", "cancelled"],
    )
    assert_type(Order.create_many(["a", {"task_id": "b", "amount": 1}], threads=8), Report)
    assert_type(Order.get_task("o-1001"), Order)
    assert_type(Order.get_many(["o-1001"]), list[Order])
    assert_type(Order.get_task("o-1001").state, State[Order])
    assert_type(Order.get("o-1001"), Order)
    assert_type(Order.get_task("o-1001").to_dict(), dict[str, Any])
    assert_type(Order.get_task("o-1001").to_json(), str)
    assert_type(Order.ship, BoundStep[Order])
    assert_type(Order.ship.failed, State[Order])
    assert_type(Order.ship.failed.status, Status | None)
    assert_type(Order.ship.failed.code, int)
    assert_type(Order.ship.run("o-1001", print_label), int)
    assert_type(Order.ship.run("o-1001", print_label, heartbeat=True), int)
    assert_type(Order.ship.run("o-1001", print_label, must_match={"amount": 4200}, store_result=True), int)
    assert_type(Order.deliver.run("o-1001"), object)
    assert_type(Order.deliver.run("o-1001", deliver), str)
    assert_type(Order.deliver.run_all(threads=8), Report)
    assert_type(Order.deliver.max_attempts, int)
    assert_type(Order.ship.run_all(print_label, threads=8), Report)
    assert_type(Order.ship.run_all(print_label, heartbeat=True), Report)
    Order.ship.run_all(later, threads=8)  # type: ignore[deprecated]
    Order.ship.run("o-1001", later)  # type: ignore[unused-coroutine]
    Order.ship.run_all(print_label, thread=8)  # type: ignore[call-overload]
    Order.ship.run_all(look)  # what works on any task works on an order
    assert_type(Order.ship.due(), Iterator[Order])
    assert_type(Order.ship.next_due(), dict[State[Order], datetime])
    assert_type(Order.ship.reopen("o-1001"), Order)
    assert_type(Order.ship.reopen_many({"o-1001"}, by="ada", threads=8), Report)
    assert_type(Order.ship.ignore_many((task.task_id for task in Order.ship.due()), reason="cancelled"), Report)
    Order.ship.ignore_many(["o-1001"])  # type: ignore[call-arg]
    Order.ship.reopen_many([1001])  # type: ignore[list-item]
    assert_type(Order.ship.unlock("o-1001", reason="its host is gone", worker=None, by="ada"), Order)
    assert_type(Order.ship.ignore("o-1001", reason="cancelled"), Order)
    since = datetime.now(UTC) - timedelta(days=30)
    assert_type(Order.ship.failed.query(since=since, latest_due_first=True, limit=100), Iterator[Order])
    assert_type(Order.ship.failed.count(since=since, up_to=1000), int)
    assert_type(Order.ship.failed.page(limit=50, cursor=cursor), TaskPage[Order])
    glance = Order.ship.failed.index_page(limit=50, cursor=cursor, since=since)
    assert_type(glance, IndexPage)
    assert_type(glance.tasks, list[IndexEntry])
    assert_type(glance.tasks[0].due_time, datetime | None)
    assert_type(Order.counts(), dict[State[Order], int])
    assert_type(Order.delete_use_case(), Report)
    return run_without_skip()


def run_without_skip() -> int:
    with Order.ship.start("o-1001", lock_for=timedelta(minutes=1), also_from=[Order.ship.succeeded]) as ctx:
        return print_label(ctx)  # nothing is swallowed, so a checker misses no return behind the block


def run_with_skip() -> int:
    with Order.ship.start("o-1001", skip_error=True) as ctx:
        return print_label(ctx)
    return 0  # reachable: the block's exception is swallowed


def run_for_long() -> int:
    with Order.ship.start("o-1001", heartbeat=True) as ctx:
        return 0 if ctx.lock_lost else print_label(ctx)


def run_for_long_with_skip() -> int:
    with Order.ship.start("o-1001", skip_error=True, heartbeat=True) as ctx:
        return print_label(ctx)
    return 0  # reachable, as above


def read_an_error(error: TaskLockedError) -> None:
    if error.task is not None:
        assert_type(error.task.worker, str | None)
        assert_type(error.task.lock_expire_time, datetime)
        assert_type(error.task.state, object)
    if isinstance(error.task, Order):
        order: Order = error.task
        assert_type(order.amount, float)


def work_until_told_to_stop() -> None:
    worker = Worker({Order.ship: print_label, Order.deliver: look}, threads=8, grace=timedelta(minutes=1))
    worker.stop()
    for step, tally in worker.run().items():
        assert_type(tally, Tally)
        assert_type(step.name, str)
        assert_type(tally.succeeded, int)
    Worker([Order, Order.ship], processes=2)
    Worker([AppTask, "order"])  # type: ignore[list-item]
    Worker({"ship": print_label})  # type: ignore[dict-item]
    Worker({Order.ship: print_label}, grace=30)  # type: ignore[arg-type]
    Worker({Order.ship: stamp, Order.deliver: look}, processes=2)


async def work_on_an_event_loop() -> None:
    worker = AsyncWorker({Order.ship: stamp, Refund.send: refund}, concurrency=100, grace=timedelta(minutes=1))
    worker.stop()
    assert_type(await worker.run(), dict[BoundStep[Any], Tally])
    AsyncWorker([Order, Order.ship], heartbeat=True, rate=10)
    AsyncWorker({Order.ship: print_label})  # type: ignore[dict-item]
    AsyncWorker([Order], threads=8)  # type: ignore[call-arg]


def test_with_a_fixture(local_table: LocalTable) -> None:
    assert_type(local_table(AppTask), type[AppTask])
    assert_type(local_table(Order, Refund), type[Order])


def test_on_a_server(local_server: LocalServer) -> None:
    assert_type(local_server(AppTask), str)
    assert_type(local_server(Order, Refund, path=Path("tasks.db"), port=8000), str)


def test_with_tables() -> None:
    with local_server(AppTask, path="tasks.db") as endpoint:
        assert_type(endpoint, str)
    with local_table(AppTask) as table, stopped_clock(datetime(2026, 1, 1, tzinfo=UTC)) as clock:
        assert_type(table, type[AppTask])
        assert_type(clock, StoppedClock)
        clock.advance(timedelta(days=1))


async def stamp(ctx: AsyncContext[Order]) -> int:
    assert_type(ctx.task, Order)
    assert_type(ctx.outcome, Literal["succeeded", "failed", "ignored", "released"] | None)
    assert_type(ctx.fencing_token, str)
    await ctx.save()
    await ctx.extend_lock(timedelta(minutes=5))
    await ctx.create(Refund, "r-1", wait=True, model="x")
    await ctx.wait_until(timedelta(hours=1))
    assert_type(await ctx.checkpoint("charge", refund_key), str)
    await ctx.go_to(Order.deliver)
    await ctx.end_task()
    assert_type(await ctx.group.data(), dict[str, Any])
    async with ctx.transaction(succeed=True) as writes:
        assert_type(writes, TransactWrite)
    ctx.store_result({"paid": True})
    return 1


@Refund.send.does
async def refund(ctx: AsyncContext[Refund]) -> str:
    assert_type(ctx.task, Refund)
    return "sent"


async def stamp_for(ctx: AsyncContext[Order], _event: object) -> int:
    return await stamp(ctx)


async def refund_key() -> str:
    return "r-1"


async def blocks_the_loop(ctx: ExecutionContext[Refund]) -> None:
    ctx.save()


Refund.send.does(blocks_the_loop)  # type: ignore[deprecated]


async def use_with_asyncio() -> int:
    assert_type(await Order.ship.arun("o-1001", stamp), int)
    assert_type(await Order.ship.arun("o-1001", lambda ctx: stamp(ctx), store_result=True), int)  # noqa: PLW0108
    assert_type(await Refund.send.arun("r-1"), object)
    assert_type(await Refund.send.arun("r-1", refund), str)
    assert_type(await Order.ship.arun_all(stamp, concurrency=100, rate=10, only=(Order.ship.failed,)), Report)
    assert_type(await Order.acreate("o-1001", amount=4200), Order)
    assert_type(await Order.acreate_or_merge("o-1001", merge=merge), Merged[Order])
    assert_type(await Order.acreate_many(["a", {"task_id": "b"}], threads=8), Report)
    assert_type(await Order.aget_task("o-1001"), Order)
    assert_type(await Order.aget_many(["o-1001"]), list[Order])
    assert_type(await Order.acounts(), dict[State[Order], int])
    assert_type([order async for order in Order.ship.failed.aquery(limit=100)], list[Order])
    assert_type(await Order.ship.failed.apage(), TaskPage[Order])
    assert_type(await Order.ship.failed.aindex_page(), IndexPage)
    assert_type(await Order.ship.failed.acount(), int)
    assert_type([order async for order in Order.ship.adue()], list[Order])
    assert_type([task_id async for task_id in Order.ship.adue_ids()], list[str])
    assert_type(await Order.ship.anext_due(), dict[State[Order], datetime])
    assert_type(await Order.ship.areopen("o-1001", by="ada"), Order)
    assert_type(await Order.ship.aignore("o-1001", reason="cancelled"), Order)
    assert_type(await Order.ship.areopen_many(["o-1001"]), Report)
    assert_type(await Order.group("customer-7").aturn(), str | None)
    Order.ship.arun("o-1001", print_label)  # type: ignore[arg-type,unused-coroutine]
    Order.ship.run("o-1001", stamp)  # type: ignore[arg-type,unused-coroutine]
    Order.ship.astart("o-1001", lock_for=5)  # type: ignore[call-overload]
    Refund.send.does(later)  # type: ignore[arg-type]
    async with Order.ship.astart("o-1001", heartbeat=True, must_match={"amount": 1}) as ctx:
        return await stamp(ctx)  # nothing is swallowed, so a checker misses no return behind the block


async def use_with_asyncio_and_skip() -> int:
    async with Order.ship.astart("o-1001", skip_error=True) as ctx:
        return await stamp(ctx)
    return 0  # reachable: the block's exception is swallowed


Order.create(1)  # type: ignore[arg-type]
Order.ship.failed.query(limit="10")  # type: ignore[arg-type]
Order.ship.start("o-1001", lock_for=5)  # type: ignore[call-overload]
Order.ship.start("o-1001", heartbeat=timedelta(seconds=10))  # type: ignore[call-overload]
Order.ship.run("o-1001", lambda: 1)  # type: ignore[arg-type, misc]
Refund.send.does(deliver)  # type: ignore[arg-type]
Order.ship.does(lambda: 1)  # type: ignore[arg-type, misc]
Step("10")  # type: ignore[arg-type]


class Invoked:
    aws_request_id = "r-1"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def ship(ctx: ExecutionContext[Order], event: dict[str, str]) -> str:
    assert_type(ctx.task, Order)
    return event["order_id"]


def amount_of(result: Invocation[Order]) -> float | None:
    return result.task.amount if result.task else None


def lambda_handlers(context: LambdaContext) -> None:
    handler = handles(
        Order.ship,
        task_id=lambda event: event["order_id"],
        trigger="sqs",
        create_if_missing=lambda event: {"amount": event["amount"]},
        create_first=True,
        replies=Replies(locked="ack"),
        respond=amount_of,
        metrics="Shop",
    )(ship)
    assert_type(handler, Handler)
    assert_type(handles(Order.ship, task_id="order_id")(stamp_for), Handler)
    handles(Refund.send, task_id="order_id")(stamp_for)  # type: ignore[arg-type]
    handler({"order_id": "o-1"}, context)
    handler({"order_id": "o-1"}, Invoked())
    handler({"order_id": "o-1"}, None)
    handler({"order_id": "o-1"}, "context")  # type: ignore[arg-type]
    handles(Order.ship, task_id="order_id", trigger="mqtt")  # type: ignore[arg-type]
    handles(Order.ship, task_id="order_id", respond=lambda order: order.amont)  # type: ignore[attr-defined]
    retry_handler(Order.ship, print_label, since=timedelta(days=1), only=(Order.ship.failed,))(None, None)
    retry_handler(Order.ship, stamp)(None, None)
    sweep = retry_handler([Order, Order.ship], threads=8)
    assert_type(sweep, RetryHandler)
    assert_type(sweep(None, context), dict[str, int])
    assert_type(sweep({}, None)["succeeded"], int)
    delivery = handles(Order.deliver, task_id="order_id")
    assert_type(delivery, StepHandler[Order])
    delivery({"order_id": "o-1"}, context)
    retry_handler(Order.ship, queue_url="https://sqs.us-east-1.amazonaws.com/123456789012/orders")


def the_page_is_an_app(request: Request) -> None:
    def who(asked: Request) -> str | None:
        return asked.headers.get("x-person")

    def authorize(asked: ActionRequest) -> bool:
        assert_type(asked.task_ids, tuple[str, ...])
        return (
            f"{asked.user} {asked.action} {asked.use_case} {asked.step} {asked.signal}" == "ada reopen order ship None"
        )

    assert_type(dashboard(Order, AppTask, user=who, authorize=authorize, actions=True, hide={"amount"}), ASGIApp)
    assert_type(who(request), str | None)
    dashboard(Order, user=who, refresh=10)  # type: ignore[arg-type]  # a timedelta
    dashboard(Order, user="ada")  # type: ignore[arg-type]  # a function


class Observe(Hook):
    @contextmanager
    def on_start(self, run: RunDetails) -> Iterator[None]:
        assert_type(run.attempt, int | None)
        yield

    def on_end(self, run: RunDetails) -> None:
        assert_type(run.outcome, Literal["succeeded", "failed", "ignored", "released", "refused"] | None)
        assert_type(run.duration, timedelta)

    def on_create(self, use_case_id: str, task_id: str) -> dict[str, str]:
        return {use_case_id: task_id}


def hooks_are_instances_and_each_returns_what_removes_it() -> None:
    assert_type(add_hook(Observe()), Callable[[], None])
    add_hook(Observe)  # type: ignore[arg-type]  # an instance
    assert_type(instrument(relation="parent", gauges=[Order]), Callable[[], None])
    instrument(relation="child")  # type: ignore[arg-type]
    instrument(gauges=[Order.ship])  # type: ignore[list-item]  # a use case
