"""What processes do that merge what they ask for, and run it: a run counts what it worked on, with its success."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pynamodb.attributes import ListAttribute
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import ExecutionContext, Step, UseCase
from tests.support.orders import table_at
from tests.support.processes import Worker
from tests.support.worker_process import exists, obey

__all__ = ["STOP", "MergingWorker", "feeds"]

STOP = "stop"
"""The task whose existence ends the workers."""


class MergingWorker(Worker):
    """One process of this module."""

    main = "tests.support.merge_process"


def feeds(endpoint: str, table: str, name: str, lock_for: float, margin: float) -> Any:
    """Return a use case with one step, and with the items that are asked for."""
    at: Any = table_at(endpoint, table, timedelta(seconds=margin))

    class Feed(at):  # type: ignore[misc]  # a class of this call
        use_case_id = UseCase(name, max_inline_data=100_000)

        work = Step(10, max_attempts=50, lock_for=timedelta(seconds=lock_for))

        items = ListAttribute[str](default=list)

    return Feed


def append(task: Any, new: Mapping[str, Any]) -> None:
    """Count every merge."""
    task.items = [*task.items, *new["items"]]


def ask(feed: Any, caller: str, number: str, *keys: str) -> dict[str, list[str]]:
    """Ask for so many items of these tasks; report those that were merged, and those that may have been."""
    report: dict[str, list[str]] = {"merged": [], "doubtful": []}
    for each in range(int(number)):
        key = random.choice(keys)
        item = f"{key}:{caller}.{each}"
        due_time = timedelta(seconds=random.choice([0, 0, 0.1]))
        try:
            feed.create_or_merge(key, items=[item], merge=append, due_time=due_time)
        except PynamoDBException:
            report["doubtful"].append(item)
        else:
            report["merged"].append(item)
        time.sleep(random.uniform(0, 0.05))
    return report


def work(feed: Any, dies_at: str) -> str:
    """Run what is due until the test says stop; one attempt in ten fails. Be killed in the middle of that run."""
    runs = 0

    def count(ctx: ExecutionContext[Any]) -> None:
        nonlocal runs
        runs += 1
        ctx.task.data.setdefault("done", []).extend(ctx.task.items)
        time.sleep(random.uniform(0, 0.05))
        if runs == int(dies_at):
            os.kill(os.getpid(), signal.SIGKILL)
        if random.random() < 0.1:
            raise ValueError("to be tried again")

    while not exists(feed, STOP):
        try:
            feed.work.run_all(count)
        except PynamoDBException:
            continue
    return "ended"


def main(settings: dict[str, Any], command: str, *arguments: str) -> None:
    """Do what the command says, once the test says so."""
    random.seed(" ".join([command, *arguments]))
    obey(feeds(**settings), globals()[command], *arguments)
