"""A worker process with a heartbeat. It reports when it is inside its block, and stays there until it is released.

Its clock is stopped, and the test moves it.
"""

import json
import sys
from datetime import datetime, timedelta
from typing import Any

from pynamodb_tracker import LockLostError
from pynamodb_tracker.testing import StoppedClock, stopped_clock
from tests.support.orders import orders
from tests.support.processes import Worker, until
from tests.support.worker_process import tell

SECONDS = 60.0
"""How long a worker waits for its heartbeat."""


class BeatingWorker(Worker):
    main = "tests.support.heartbeat_process"

    def advance(self, time: timedelta) -> None:
        self.stdin.write(f"{time.total_seconds()}\n")
        self.stdin.flush()


def _follow(clock: StoppedClock) -> None:
    """Move the clock by the seconds in each line, until the worker is released."""
    while (line := sys.stdin.readline().strip()) != "go":
        clock.advance(timedelta(seconds=float(line)))


def stay(order: Any, task_id: str, clock: StoppedClock) -> bool:
    """Stay in the block, and report whether the lock was lost."""
    with order.confirm.start(task_id, heartbeat=True) as ctx:
        tell("inside")
        _follow(clock)
        ctx.task.note = "of the one that stayed"
        return bool(ctx.lock_lost)


def wake(order: Any, task_id: str, clock: StoppedClock) -> dict[str, Any]:
    """Be frozen in the block, and report how its calls are refused afterwards."""
    told: dict[str, Any] = {}
    try:
        with order.confirm.start(task_id, heartbeat=True) as ctx:
            tell("inside")
            _follow(clock)
            told["lock_lost"] = ctx.lock_lost
            ctx.task.note = "of the one that was frozen"
            told["save"] = _refusal(ctx.save)
            told["extend_lock"] = _refusal(ctx.extend_lock)
    except LockLostError as error:
        told["end"] = type(error).__name__
    return told


def go_on(order: Any, task_id: str, clock: StoppedClock) -> str:
    """Be frozen in the block, and end it once the lock is valid again."""
    with order.confirm.start(task_id, heartbeat=True) as ctx:
        tell("inside")
        _follow(clock)
        until(lambda: not ctx.lock_lost, SECONDS)
    return "held again"


def die(order: Any, task_id: str, clock: StoppedClock) -> None:
    """Stay in the block until the process is killed."""
    with order.confirm.start(task_id, heartbeat=True):
        tell("inside")
        _follow(clock)


def _refusal(do: Any) -> str | None:
    try:
        do()
    except LockLostError as error:
        return type(error).__name__
    return None


def main(settings: dict[str, Any], command: str, task_id: str) -> None:
    times = {name: timedelta(seconds=settings[name]) for name in ("margin", "lock_for")}
    with stopped_clock(datetime.fromisoformat(settings.pop("now"))) as clock:
        tell(json.dumps(globals()[command](orders(**settings | times), task_id, clock)))
