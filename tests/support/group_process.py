"""What processes do that create tasks in groups, run them, set them aside and reopen them.

Each step appends to the data of its group which task it has run, with its number in the group.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import ExecutionContext, GiveUp, Step, TrackerError, UseCase
from tests.support.orders import table_at
from tests.support.processes import Worker
from tests.support.worker_process import exists, obey

__all__ = ["STOP", "STOP_STEERING", "GroupWorker", "orders"]

STOP, STOP_STEERING = "stop", "stop steering"
"""The tasks whose existence ends the workers, and the person."""


class GroupWorker(Worker):
    """One process of this module."""

    main = "tests.support.group_process"


def orders(endpoint: str, table: str, name: str, lock_for: float, margin: float) -> Any:
    """Return a use case with two steps."""
    at: Any = table_at(endpoint, table, timedelta(seconds=margin))

    class Order(at):  # type: ignore[misc]  # a class of this call
        use_case_id = UseCase(name)

        pay = Step(10, max_attempts=3, lock_for=timedelta(seconds=lock_for))
        ship = Step(20, max_attempts=3, lock_for=timedelta(seconds=lock_for))

    return Order


def create(order: Any, creator: str, number: str, *groups: str) -> dict[str, list[str]]:
    """Create so many tasks in these groups; report those that were created, and those that may have been."""
    report: dict[str, list[str]] = {"created": [], "doubtful": []}
    for each in range(int(number)):
        task_id, group = f"{creator}-{each:02d}", random.choice(groups)
        try:
            order.create(task_id, group=group)
        except PynamoDBException:
            report["doubtful"].append(task_id)
        else:
            report["created"].append(task_id)
        time.sleep(random.uniform(0, 0.05))
    return report


def steer(order: Any, creators: str, number: str) -> dict[str, int]:
    """Ignore, reopen and delete tasks until the test says stop; report how often that was done."""
    done = {"ignored": 0, "reopened": 0, "deleted": 0}
    while not exists(order, STOP_STEERING):
        time.sleep(random.uniform(0, 0.15))
        with suppress(PynamoDBException, TrackerError):
            task = order.get_task(f"{random.randrange(int(creators))}-{random.randrange(int(number)):02d}")
            step = order.pay if task.status < order.ship.pending.code else order.ship
            lot = random.random()
            if lot < 0.5 and task.state == step.ignored:
                step.reopen(task.task_id)
                done["reopened"] += 1
            elif lot < 0.2:
                done["deleted"] += 1  # before: a request that gets no answer may delete it as well
                order.delete_task(task.task_id)
            elif lot < 0.4:
                step.ignore(task.task_id, reason="a person's wish", even_running=True, even_in_group=True)
                done["ignored"] += 1
    return done


def work(order: Any, dies_at: str) -> str:
    """Run what is due until the test says stop; some attempts fail, or give up. Be killed in the middle of that run."""
    runs = 0

    def note(ctx: ExecutionContext[Any]) -> None:
        nonlocal runs
        runs += 1
        entry = [ctx.task.task_id, ctx.task.group_number, ctx.task.status // 10]
        ctx.group.data.setdefault("done", []).append(entry)
        time.sleep(random.uniform(0, 0.03))
        if runs == int(dies_at):
            os.kill(os.getpid(), signal.SIGKILL)
        lot = random.random()
        if lot < 0.05:
            raise GiveUp
        if lot < 0.15:
            raise ValueError("to be tried again")

    while not exists(order, STOP):
        for step in (order.pay, order.ship):
            with suppress(PynamoDBException):
                step.run_all(note)
    return "ended"


def main(settings: dict[str, Any], command: str, *arguments: str) -> None:
    """Do what the command says, once the test says so."""
    random.seed(" ".join([command, *arguments]))
    obey(orders(**settings), globals()[command], *arguments)
