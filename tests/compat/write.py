"""Write the golden rows of this version to stdout: `python -m tests.compat.write`, with TRACKER_TEST_ENDPOINT set.

Each file in rows/ is the output of the release in its name. Nobody edits it after that release. Run the script in a
checkout at /app, because tracebacks name the path.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler

from pynamodb_tracker import GiveUp, Repeat, RetryLater
from pynamodb_tracker.apscheduler import DynamoDBJobStore, JSONSerializer
from pynamodb_tracker.testing import stopped_clock
from tests.compat.declared import AppTask, Nightly, Order, Parcel, Payout, Piece, Receipt, Sale
from tests.support.rows import all_rows

WRITTEN = datetime(2026, 11, 1, tzinfo=UTC)


def done(step: Any, task_id: str, **changes: Any) -> None:
    """Let a run succeed."""
    with step.start(task_id) as ctx:
        for name, value in changes.items():
            setattr(ctx.task, name, value)


def failed(step: Any, task_id: str, error: Exception) -> None:
    """Let a run fail."""
    with suppress(type(error)), step.start(task_id):
        raise error


ORDERS = ("new", "confirmed", "shipped", "delivered", "failed", "ignored", "set-aside", "running", "large", "log")


def write_states() -> None:
    """Write a task in each state, and large values."""
    for name in ORDERS:
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


def write_queues() -> None:
    """Write tasks that merge, repeat, follow another one, wait for children, or have a group."""
    Order.create_or_merge("merged", amount=1)
    Order.confirm.start("merged").__enter__()
    Order.create_or_merge("merged", amount=2)  # asks for another run after this one
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


def write_features() -> None:
    """Write tasks with signals, checkpoints, branches and two rules, and postponed, cancelled and paused ones."""
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


def write_job() -> None:
    """Write a job of APScheduler."""
    scheduler = BackgroundScheduler(timezone="UTC")
    store = DynamoDBJobStore(AppTask, serializer=JSONSerializer(allow=["tests.compat.declared"]))
    scheduler.add_jobstore(store)
    scheduler.start(paused=True)
    due = datetime(2100, 1, 1, tzinfo=UTC)
    scheduler.add_job("tests.compat.declared:remind", "date", run_date=due, id="remind", args=["o-1"])
    scheduler.shutdown()


def binary(value: object) -> object:
    """Store what is binary as text."""
    assert isinstance(value, bytes)
    return {"hex": value.hex()}


if __name__ == "__main__":
    if not __file__.startswith("/app/"):
        sys.exit("put the checkout at /app: tracebacks in the rows name its path")
    if AppTask.exists():
        AppTask.delete_table()
    AppTask.create_table(wait=True)
    with stopped_clock(WRITTEN):
        write_states()
        write_queues()
        write_job()
        write_features()
    for item in sorted(all_rows(AppTask), key=lambda item: (item["task_id"]["S"], item["use_case_id"]["S"])):
        sys.stdout.write(json.dumps(item, sort_keys=True, default=binary) + "\n")
