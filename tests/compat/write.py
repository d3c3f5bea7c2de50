"""Write the golden rows of this version to stdout: `python -m tests.compat.write`, with TRACKER_TEST_ENDPOINT set.

The files in rows/ are such outputs, each of the version that it is named after. They are never edited. What a later
version adds has a file of its own. Run it in a checkout at /app, because tracebacks name the path.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pynamodb_tracker
from pynamodb_tracker import GiveUp, Task
from pynamodb_tracker.testing import stopped_clock
from tests.compat.declared import AppTask, Nightly, Order, Parcel, Piece, Receipt

WRITTEN = datetime(2026, 11, 1, tzinfo=timezone.utc)  # noqa: UP017 - as the versions had it


def done(step: Any, task_id: str, **changes: Any) -> None:
    """Let a run succeed."""
    with step.start(task_id) as ctx:
        for name, value in changes.items():
            setattr(ctx.task, name, value)


def failed(step: Any, task_id: str, error: Exception) -> None:
    """Let a run fail."""
    with suppress(type(error)), step.start(task_id):
        raise error


def first_format() -> None:
    """Write a task in each state, and what is stored off-row."""
    for name in (
        "new",
        "confirmed",
        "shipped",
        "delivered",
        "failed",
        "ignored",
        "set-aside",
        "running",
        "large",
        "log",
    ):
        Order.create(name, amount=4200, data={"customer": name})
    for name in ("confirmed", "shipped", "delivered"):
        done(Order.confirm, name)
    for name in ("shipped", "delivered"):
        done(Order.ship, name, tracking_no=f"T-{name}")
    done(Order.deliver, "delivered")
    failed(Order.confirm, "failed", ConnectionError("the bank does not answer"))
    failed(Order.confirm, "ignored", GiveUp("no such account"))
    Order.confirm.ignore("set-aside", reason="cancelled by phone")
    done(Order.confirm, "large", data={"lines": [f"line {number}" * 9 for number in range(3000)]})
    for attempt in range(3):
        failed(Order.confirm, "log", ValueError(f"{attempt}: " + "".join(chr(33 + n * n % 90) for n in range(9000))))
    for number in range(4):
        Parcel.create(f"p-{number}")
    Receipt.create("kept")
    done(Receipt.send, "kept")
    Order.confirm.start("running").__enter__()  # and its worker dies


def second_format() -> None:
    """Write what merges, repeats, follows, waits and has a group."""
    from pynamodb_tracker import Repeat  # noqa: PLC0415 - the first versions had none

    create: Any = Order.create_or_merge
    create("merged", amount=1)
    Order.confirm.start("merged").__enter__()
    create("merged", amount=2)  # is a request: a run follows the one that is under way
    Nightly.create_or_merge("nightly", repeat=Repeat.cron("0 2 * * *", tz="Europe/Berlin"))
    Nightly.create_or_merge("hourly", repeat=Repeat.every(timedelta(hours=1)))
    done(Nightly.report, "hourly")
    Order.create("parent")
    with Order.confirm.start("parent") as ctx:
        ctx.create(Piece, "parent/1", wait=True)
        ctx.create(Piece, "parent/2", wait=True)
        ctx.create(Receipt, "parent/receipt")
    done(Piece.make, "parent/1")
    for name in ("g-1", "g-2", "g-3"):
        Piece.create(name, group="customer-7")
    Order.create("answered")
    with Order.confirm.start("answered", must_match={"amount": 1}) as ctx:
        ctx.store_result({"paid": True})
    job()


def since_0_9() -> None:
    """Write what awaits answers, is postponed, done in parts, cancelled, limited or paused, branches, has two rules."""
    from pynamodb_tracker import Repeat, RetryLater  # noqa: PLC0415 - the first versions had none
    from tests.compat.declared_since_0_9 import Payout, Sale  # noqa: PLC0415 - the same

    for name in ("awaits", "paid", "early", "postponed", "parts", "aside", "ended", "cancelled"):
        Sale.create(name)
    for name in ("awaits", "paid"):
        with Sale.check.start(name) as ctx:
            ctx.wait_for(Sale.paid, until=timedelta(days=30))
    for name in ("paid", "early"):
        Sale.paid.send(name, {"amount": 5})
    failed(Sale.check, "postponed", RetryLater(timedelta(minutes=5), "the bank is down", use_attempt=False))
    with suppress(ConnectionError), Sale.check.start("parts") as ctx:
        ctx.checkpoint("charge", lambda: {"receipt": 17})
        raise ConnectionError("the printer does not answer")
    with Sale.check.start("aside") as ctx:
        ctx.go_to(Sale.refund)
    with Sale.check.start("ended") as ctx:
        ctx.end_task()
    Sale.cancel("cancelled", reason="by phone", by="ada")
    Payout.create("paid out")
    Payout.pay.run_all(lambda _: None)
    Sale.ship.pause(until=None, reason="stocktaking", by="ada")
    Nightly.create_or_merge("changed", repeat=Repeat.every(timedelta(hours=1)))
    Nightly.report.start("changed").__enter__()
    Nightly.create_or_merge("changed", repeat=Repeat.every(timedelta(hours=2)))  # is its rule after that run


def job() -> None:
    """Write a job of APScheduler."""
    from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

    from pynamodb_tracker.apscheduler import DynamoDBJobStore, JSONSerializer  # noqa: PLC0415 - the same

    scheduler = BackgroundScheduler(timezone="UTC")
    store = DynamoDBJobStore(AppTask, serializer=JSONSerializer(allow=["tests.compat.declared"]))
    scheduler.add_jobstore(store)
    scheduler.start(paused=True)
    due = datetime(2100, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - as above
    scheduler.add_job("tests.compat.declared:remind", "date", run_date=due, id="remind", args=["o-1"])
    scheduler.shutdown()


def items() -> list[dict[str, Any]]:
    """Return the whole table, in the form of DynamoDB."""
    client = AppTask._get_connection().connection.client
    found = client.scan(TableName=AppTask.Meta.table_name, ConsistentRead=True)["Items"]
    return sorted(found, key=lambda item: (item["task_id"]["S"], item["use_case_id"]["S"]))


def binary(value: object) -> object:
    """Store what is binary as text."""
    assert isinstance(value, bytes)
    return {"hex": value.hex()}


if __name__ == "__main__":
    if not __file__.startswith("/app/"):
        sys.exit("put the checkout at /app: what is written here names its path, for ever")
    if AppTask.exists():
        AppTask.delete_table()
    AppTask.create_table(wait=True)
    with stopped_clock(WRITTEN):
        first_format()
        if hasattr(Task, "create_or_merge"):
            second_format()
        if hasattr(pynamodb_tracker, "Signal"):
            since_0_9()
    for item in items():
        sys.stdout.write(json.dumps(item, sort_keys=True, default=binary) + "\n")
