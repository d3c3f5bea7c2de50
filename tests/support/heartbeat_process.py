"""What a worker process with a heartbeat does: it says when it is inside of its block, and stays until a line comes."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from typing import Any

from pynamodb_tracker import LockLostError
from tests.support.orders import orders
from tests.support.processes import Worker, until
from tests.support.worker_process import tell

__all__ = ["BeatingWorker"]

SECONDS = 60.0
"""How long a worker waits for its heartbeat."""


class BeatingWorker(Worker):
    """One process of this module."""

    main = "tests.support.heartbeat_process"


def stay(order: Any, task_id: str) -> bool:
    """Stay in the block until a line comes; report whether the lock was lost at the end of it."""
    with order.confirm.start(task_id, heartbeat=True) as ctx:
        tell("inside")
        sys.stdin.readline()
        ctx.task.note = "of the one that stayed"
        return bool(ctx.lock_lost)


def wake(order: Any, task_id: str) -> dict[str, Any]:
    """Be frozen in the block, and then report, on request, what the block finds out."""
    told: dict[str, Any] = {}
    try:
        with order.confirm.start(task_id, heartbeat=True) as ctx:
            tell("inside")
            sys.stdin.readline()
            told["lock_lost"] = ctx.lock_lost
            ctx.task.note = "of the one that was frozen"
            told["save"] = _refusal(ctx.save)
            told["extend_lock"] = _refusal(ctx.extend_lock)
    except LockLostError as error:
        told["end"] = type(error).__name__
    return told


def go_on(order: Any, task_id: str) -> str:
    """Be frozen in the block, and end it once the lock is no longer over."""
    with order.confirm.start(task_id, heartbeat=True) as ctx:
        tell("inside")
        sys.stdin.readline()
        until(lambda: not ctx.lock_lost, SECONDS)
    return "held again"


def die(order: Any, task_id: str) -> None:
    """Stay in the block until the process is ended."""
    with order.confirm.start(task_id, heartbeat=True):
        tell("inside")
        time.sleep(SECONDS)


def _refusal(do: Any) -> str | None:
    try:
        do()
    except LockLostError as error:
        return type(error).__name__
    return None


def main(settings: dict[str, Any], command: str, task_id: str) -> None:
    """Do what the command says."""
    times = {name: timedelta(seconds=settings[name]) for name in ("margin", "lock_for")}
    tell(json.dumps(globals()[command](orders(**settings | times), task_id)))
