"""A block that forks. Its child acts as if it owned the task, and must not record anything."""

import os
import signal
from typing import Any

from tests.chaos.events import Log
from tests.chaos.records import append

KINDS = ("exit", "return", "save", "extend", "transaction")
"""A child calls sys.exit, or leaves the block, immediately or after trying to write."""
PATIENCE = 5
"""Seconds after which a hanging child is killed."""
NUMBER = 99
"""The record number that only children use."""
SIZE = 50


def fork(log: Log, ctx: Any, task_id: str, run: int, kind: str) -> bool:
    """Fork, wait for the child, and return False; in the child, do what it does, and return True."""
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            log.tell("child", task_id, run, what=kind, wrote=False, why="it hung")
        return False
    signal.alarm(PATIENCE)
    if kind == "exit":
        raise SystemExit(0)
    if kind != "return":
        _try_to_write(log, ctx, task_id, run, kind)
    return True


def _try_to_write(log: Log, ctx: Any, task_id: str, run: int, kind: str) -> None:
    append(ctx.task, ctx.task.fence, NUMBER, SIZE)
    try:
        if kind == "save":
            ctx.save()
        elif kind == "extend":
            ctx.extend_lock()
        else:
            with ctx.transaction():
                pass
    except Exception as error:  # noqa: BLE001 - nothing was written
        log.tell("child", task_id, run, what=kind, wrote=False, why=type(error).__name__)
    else:
        log.tell("child", task_id, run, what=kind, wrote=True)
