"""Run a shop for the latency benchmark: its use cases, its functions, and a worker process that notes every run."""

import asyncio
import json
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pynamodb.attributes import NumberAttribute

from pynamodb_tracker import AsyncWorker, Repeat, Signal, Step, Task, UseCase, Worker
from pynamodb_tracker.instrumentation import Hook, RunDetails, add_hook

LOCK_FOR = timedelta(seconds=10)
RETRY_DELAY = timedelta(seconds=2)
EVERY = timedelta(seconds=20)
"""The time between two occurrences of the schedule."""


def step(number: int) -> Step:
    return Step(number, retry_delay=RETRY_DELAY, lock_for=LOCK_FOR, max_attempts=5)


class ShopTask(Task):
    class Meta:
        table_name = "latency"
        region = "us-east-1"


class Order(ShopTask):
    use_case_id = UseCase("order")

    reserve, pay, ship, mail = (step(number) for number in (100, 200, 300, 400))
    paid = Signal()
    number = NumberAttribute()


class Parcel(ShopTask):
    use_case_id = UseCase("parcel")

    pack = step(100)


class Booking(ShopTask):
    use_case_id = UseCase("booking")

    book = step(100)


class Receipt(ShopTask):
    use_case_id = UseCase("receipt")

    file = step(100)


class Report(ShopTask):
    use_case_id = UseCase("report")

    write = step(100)


def waits_for_payment(number: float) -> bool:
    return number % 5 == 0


def has_parcel(number: float) -> bool:
    return number % 4 == 1


def reserve(ctx: Any) -> None:
    if waits_for_payment(ctx.task.number):
        ctx.wait_for(Order.paid, until=timedelta(minutes=5))


def pay(ctx: Any) -> None:
    if has_parcel(ctx.task.number):
        ctx.create(Parcel, f"{ctx.task.task_id}/parcel", wait=True)


def mail(ctx: Any) -> None:
    if not ctx.task.number % 3:
        Receipt.create(f"{ctx.task.task_id}/receipt")


def nothing(_ctx: Any) -> None:
    """Do no more than each step does."""


FUNCTIONS: Mapping[Any, Callable[[Any], None]] = {
    Order.reserve: reserve,
    Order.pay: pay,
    Order.ship: nothing,
    Order.mail: mail,
    Parcel.pack: nothing,
    Booking.book: nothing,
    Receipt.file: nothing,
    Report.write: nothing,
}


def _work_for() -> float:
    """Return the seconds that the step takes, 0.46 for four steps on average. One in twenty fails."""
    if random.random() < 0.05:
        raise ConnectionError("it does not answer")
    return random.uniform(0.03, 0.2)


def on_thread(function: Callable[[Any], None]) -> Callable[[Any], None]:
    def work(ctx: Any) -> None:
        time.sleep(_work_for())
        function(ctx)

    return work


def on_loop(function: Callable[[Any], None]) -> Callable[[Any], Awaitable[None]]:
    async def work(ctx: Any) -> None:
        await asyncio.sleep(_work_for())
        await asyncio.to_thread(function, ctx._blocking)  # the same functions as on threads

    return work


class Notes(Hook):
    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")

    def on_start(self, run: RunDetails) -> None:
        began = run.start_time.timestamp()
        note: dict[str, Any] = {"kind": "start", "at": began, "took_over": run.took_over, "attempt": run.attempt}
        if run.task.occurrence is not None:
            note["occurrence"] = run.task.occurrence.timestamp()
        self._write(run, note)

    def on_end(self, run: RunDetails) -> None:
        self._write(run, {"kind": "end", "at": time.time(), "outcome": run.outcome, "attempt": run.attempt})

    def _write(self, run: RunDetails, note: dict[str, Any]) -> None:
        self._file.write(json.dumps({**note, "step": f"{run.use_case_id}.{run.step}", "task": run.task_id}) + "\n")


def main() -> None:
    """Run a worker with default settings: its kind, the endpoint, and the file for its notes are the arguments."""
    kind, endpoint, path = sys.argv[1:]
    ShopTask.Meta.host = endpoint  # type: ignore[attr-defined]  # PynamoDB reads it
    logging.getLogger("pynamodb_tracker").setLevel(logging.ERROR)  # one attempt in twenty fails
    add_hook(Notes(Path(path)))
    Report.create_or_merge("report", repeat=Repeat.every(EVERY))
    if kind == "threads":
        Worker({of: on_thread(function) for of, function in FUNCTIONS.items()}, threads=8).run()
    else:
        functions = {of: on_loop(function) for of, function in FUNCTIONS.items()}
        asyncio.run(AsyncWorker(functions, concurrency=50).run())


if __name__ == "__main__":
    main()
