"""A worker process for races. It prints "ready", waits for a line, and prints a report as its last line."""

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pynamodb_tracker import AsyncWorker, TaskNotStartableError
from tests.support.orders import orders

PATIENCE = 60.0
"""Seconds after which an unstopped worker ends."""


def run_all(order: Any, threads: str = "1") -> dict[str, Any]:
    """Run all due tasks until there are none."""
    ran: list[str] = []
    refused = 0
    while True:
        report = order.confirm.run_all(lambda ctx: ran.append(ctx.task.task_id), threads=int(threads))
        refused += len(report.refused)
        if not report.succeeded:
            return {"ran": ran, "refused": refused}


def arun_all(order: Any, concurrency: str) -> dict[str, Any]:
    """Run all due tasks on an event loop until there are none."""
    ran: list[str] = []

    async def note(ctx: Any) -> None:
        ran.append(ctx.task.task_id)

    async def run() -> int:
        refused = 0
        while True:
            report = await order.confirm.arun_all(note, concurrency=int(concurrency))
            refused += len(report.refused)
            if not report.succeeded:
                return refused

    return {"ran": ran, "refused": asyncio.run(run())}


def run_some(order: Any) -> dict[str, Any]:
    """Run a few random due tasks and look again, until there are none."""
    ran: list[str] = []
    refused = 0
    while todo := [task.task_id for task in order.confirm.due()]:
        for task_id in random.sample(todo, min(8, len(todo))):
            try:
                with order.confirm.start(task_id, detailed_error=False) as ctx:
                    ran.append(ctx.task.task_id)
            except TaskNotStartableError:
                refused += 1
    return {"ran": ran, "refused": refused}


def catch_up(order: Any) -> list[list[str]]:
    """Run both steps of all due tasks until there are none. Report the occurrence for which each task ran."""
    ran: list[list[str]] = []
    while (
        order.confirm.run_all(lambda _: None).succeeded
        or order.ship.run_all(lambda ctx: ran.append([ctx.task.task_id, ctx.occurrence.isoformat()])).succeeded
    ):
        continue
    return ran


def take(order: Any, *task_ids: str) -> list[tuple[str, int, int]]:
    won = []
    for task_id in task_ids:
        try:
            with order.confirm.start(task_id) as ctx:
                won.append((task_id, ctx.attempt, ctx.task.fence))
        except TaskNotStartableError:
            continue
    return won


def hold(order: Any, task_id: str) -> None:
    """Start the task, report it, and stay inside the block."""
    with order.confirm.start(task_id):
        tell("inside")
        time.sleep(PATIENCE)


def do_parts(order: Any, task_id: str) -> None:
    """Run three checkpoints of a task, and print each with its key when it runs."""

    def work(ctx: Any) -> None:
        for name in ("reserve", "charge", "mail"):
            ctx.checkpoint(name, lambda name=name: tell(f"{name} {ctx.key(name)}"))

    order.confirm.run(task_id, work)


def ahold(order: Any, task_id: str) -> None:
    """Start the task on an event loop, report it, and stay inside the block."""

    async def stay() -> None:
        async with order.confirm.astart(task_id):
            tell("inside")
            await asyncio.sleep(PATIENCE)

    asyncio.run(stay())


def aworker(order: Any) -> tuple[int, int]:
    """Run an AsyncWorker until SIGTERM, without a grace time. Report how many tasks succeeded and were released."""

    async def stay(_: Any) -> None:
        await asyncio.sleep(PATIENCE)

    worker = AsyncWorker({order.confirm: stay}, concurrency=8, heartbeat=True, grace=timedelta(0))
    tally = asyncio.run(worker.run())[order.confirm]
    return tally.succeeded, tally.released


def reopen(order: Any, *task_ids: str) -> list[str]:
    """Reopen each task. Report its state or the refusal."""
    return [_ordered(order.confirm.reopen, task_id) for task_id in task_ids]


def ignore(order: Any, *task_ids: str) -> list[str]:
    """Ignore each task. Report its state or the refusal."""
    return [_ordered(order.confirm.ignore, task_id, reason="cancelled") for task_id in task_ids]


def status_keys(order: Any, *task_ids: str) -> list[str]:
    return [order.tracker.status_key(10, task_id) for task_id in task_ids]


def _ordered(order: Callable[..., Any], task_id: str, **options: str) -> str:
    try:
        return str(order(task_id, **options).state)
    except TaskNotStartableError as error:
        return type(error).__name__


def tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the test reads it


def obey(model: Any, command: Callable[..., Any], *arguments: str) -> None:
    model.connect()  # before the race begins
    tell("ready")
    sys.stdin.readline()
    tell(json.dumps(command(model, *arguments)))


def main(settings: dict[str, Any], command: str, *arguments: str) -> None:
    times = {name: timedelta(seconds=settings[name]) for name in ("margin", "lock_for")}
    obey(orders(**settings | times), globals()[command], *arguments)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
