"""Processes for a rolling deployment that inserts a required step: two old programs, and one of the new version.

Each old program prints "read" once it has read that the step is required, and works until it gets a line. It reports
when it read this, and when each of its blocks began: {task id: time of day}.
"""

import time
from datetime import timedelta
from typing import Any

from pynamodb_tracker import Step, UseCase, Worker
from tests.support import processes
from tests.support.orders import table_at
from tests.support.pause_process import say_when_it_is_read, stopped, until_stopped, when_stopped
from tests.support.worker_process import obey

FRAUD = 150
Starts = dict[str, float]

starts: Starts = {}


class Program(processes.Worker):
    main = "tests.support.deployment_process"


def orders(endpoint: str, table: str, name: str, *, is_new: bool = False) -> Any:
    """Return the use case as the old or the new program declares it."""
    at: Any = table_at(endpoint, table, timedelta(seconds=0.2))

    class Order(at):  # type: ignore[misc]  # the base is created by this call
        use_case_id = UseCase(name)

        reserve = Step(100)
        ship = Step(200)
        if is_new:
            fraud = Step(FRAUD)

    return Order


def work(order: Any) -> Starts:
    worker = Worker({order.reserve: _reserve}, threads=2, max_poll_interval=timedelta(seconds=0.2))
    when_stopped.append(worker.stop)
    worker.run()
    return starts


def batch(order: Any) -> Starts:
    while not stopped.wait(0.05):
        order.reserve.run_all(_reserve, limit=5)
    return starts


def check(order: Any) -> list[str]:
    """Run the new step for all orders that wait there."""
    return sorted(order.fraud.run_all(lambda _: None, threads=4).succeeded)


def _reserve(ctx: Any) -> None:
    starts[ctx.task.task_id] = time.time()
    time.sleep(0.01)


def main(settings: dict[str, Any], command: str) -> None:
    if command == "check":
        obey(orders(**settings, is_new=True), check)
        return
    say_when_it_is_read(lambda known: known.required)
    obey(orders(**settings), until_stopped({"work": work, "batch": batch}[command]))
