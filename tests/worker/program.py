"""A program with a worker, as users write one: its options are its argument, and it prints what it runs."""

import json
import logging
import os
import signal
import sys
import time
from datetime import timedelta
from typing import Any

from pynamodb_tracker import ExecutionContext, Worker
from tests.worker.shop import Order, Parcel

PATIENCE = 120.0
"""Seconds for which a function hangs that nobody ends."""


def print_line(line: str) -> None:
    """Print a line for the test, in one piece although several processes print."""
    os.write(1, f"{line}\n".encode())


def work(ctx: ExecutionContext[Any]) -> None:
    print_line(f"{ctx.task.task_id} {os.getpid()}")
    if ctx.task.task_id.startswith("hang"):
        time.sleep(PATIENCE)
    elif ctx.task.task_id.startswith("hold"):
        while Parcel.sort.pending.count() == 0:
            time.sleep(0.02)
    elif ctx.task.task_id.startswith("nap"):
        time.sleep(0.6)
    elif ctx.task.task_id.startswith("poison"):
        time.sleep(0.4)  # others begin in this process
        os.kill(os.getpid(), signal.SIGKILL)
    elif ctx.task.task_id.startswith("exit"):
        raise SystemExit(7)
    elif ctx.task.task_id.startswith("stop"):
        worker.stop()


worker = Worker({Order.confirm: work})
"""Each process has one, through which a function stops the one that runs."""


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    options: dict[str, Any] = json.loads(sys.argv[1])
    until_idle = options.pop("until_idle", False)
    options |= {name: timedelta(seconds=options[name]) for name in ("grace", "max_poll_interval") if name in options}
    global worker  # noqa: PLW0603 - as programs of one module have it
    Order.confirm.does(work)
    worker = Worker([Order], **options)
    tallies = worker.run(until_idle=until_idle)
    print_line(f"ended {tallies[Order.confirm]}")


if __name__ == "__main__":
    main()
