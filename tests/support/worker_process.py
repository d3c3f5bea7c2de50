"""What a worker process of a race does: it says "ready", waits for a line, and reports on its last line what it did."""

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
"""Seconds after which a worker that was not stopped ends by itself."""


def run_all(order: Any, threads: str = "1") -> dict[str, Any]:
    """Run whatever there is to do, until there is nothing."""
    ran: list[str] = []
    refused = 0
    while True:
        report = order.confirm.run_all(lambda ctx: ran.append(ctx.task.task_id), threads=int(threads))
        refused += len(report.refused)
        if not report.succeeded:
            return {"ran": ran, "refused": refused}


def arun_all(order: Any, concurrency: str) -> dict[str, Any]:
    """Run whatever there is to do on an event loop, until there is nothing."""
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
    """Run a few tasks of what there is to do, drawn by lot, and look again, until there is nothing."""
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
    """Run both steps of what there is to do, until there is nothing; report for which occurrence each task ran."""
    ran: list[list[str]] = []
    while (
        order.confirm.run_all(lambda _: None).succeeded
        or order.ship.run_all(lambda ctx: ran.append([ctx.task.task_id, ctx.occurrence.isoformat()])).succeeded
    ):
        continue
    return ran


def take(order: Any, *task_ids: str) -> list[tuple[str, int, int]]:
    """Run each task at once if it can be had; report the attempt and the fence of each that was won."""
    won = []
    for task_id in task_ids:
        try:
            with order.confirm.start(task_id) as ctx:
                won.append((task_id, ctx.attempt, ctx.task.fence))
        except TaskNotStartableError:
            continue
    return won


def hold(order: Any, task_id: str) -> None:
    """Start the task, say so, and stay inside of the block."""
    with order.confirm.start(task_id):
        tell("inside")
        time.sleep(PATIENCE)


def do_parts(order: Any, task_id: str) -> None:
    """Run three parts of a task, and say which of them is run, with its key."""

    def work(ctx: Any) -> None:
        for name in ("reserve", "charge", "mail"):
            ctx.checkpoint(name, lambda name=name: tell(f"{name} {ctx.key(name)}"))

    order.confirm.run(task_id, work)


def ahold(order: Any, task_id: str) -> None:
    """Start the task on an event loop, say so, and stay inside of the block."""

    async def stay() -> None:
        async with order.confirm.astart(task_id):
            tell("inside")
            await asyncio.sleep(PATIENCE)

    asyncio.run(stay())


def aworker(order: Any) -> tuple[int, int]:
    """Be an AsyncWorker until SIGTERM, without a grace time; report how many tasks succeeded, and were released."""

    async def stay(_: Any) -> None:
        await asyncio.sleep(PATIENCE)

    worker = AsyncWorker({order.confirm: stay}, concurrency=8, heartbeat=True, grace=timedelta(0))
    tally = asyncio.run(worker.run())[order.confirm]
    return tally.succeeded, tally.released


def reopen(order: Any, *task_ids: str) -> list[str]:
    """Reopen each task; report how each was left, or refused."""
    return [_ordered(order.confirm.reopen, task_id) for task_id in task_ids]


def ignore(order: Any, *task_ids: str) -> list[str]:
    """Set each task aside; report how each was left, or refused."""
    return [_ordered(order.confirm.ignore, task_id, reason="cancelled") for task_id in task_ids]


def status_keys(order: Any, *task_ids: str) -> list[str]:
    """Report under which key of the index each task is."""
    return [order.tracker.use_case.status_key(10, task_id) for task_id in task_ids]


def _ordered(order: Callable[..., Any], task_id: str, **options: str) -> str:
    try:
        return str(order(task_id, **options).state)
    except TaskNotStartableError as error:
        return type(error).__name__


def tell(line: str) -> None:
    """Say something to the test."""
    print(line, flush=True)  # noqa: T201 - the test reads it


def obey(model: Any, command: Callable[..., Any], *arguments: str) -> None:
    """Do what the command says, once the test says so, and tell what it reports."""
    model.connect()  # before the race begins
    tell("ready")
    sys.stdin.readline()
    tell(json.dumps(command(model, *arguments)))


def main(settings: dict[str, Any], command: str, *arguments: str) -> None:
    """Do what the command says, once the test says so."""
    times = {name: timedelta(seconds=settings[name]) for name in ("margin", "lock_for")}
    order = orders(**settings | times)
    obey(order, globals()[command], *arguments)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
