"""Merged requests: one run counts each, even if others arrive in the meantime."""

import random
import time
from datetime import timedelta
from typing import Any

from pynamodb.exceptions import UpdateError

from tests.chaos.attempts import Attempt, report_crash
from tests.chaos.events import Log
from tests.chaos.interrupts import Interrupts
from tests.chaos.pipeline import URGENT

DOUBT = "it may have been merged"
"""The library's note on an error that leaves open whether a request was merged."""
KEY_FOR = 5.0
"""Seconds for which all ask for the same keys."""


def key_now(draw: random.Random) -> str:
    """Return the key to ask for. There are only a few at a time."""
    return f"key-{int(time.monotonic() / KEY_FOR)}-{draw.choice((0, 0, 0, 1))}"


def union(task: Any, new: Any) -> None:
    """Merge the new request with the pending ones."""
    task.asks = [*(task.asks or []), *new["asks"]]


def ask(log: Log, number: int, index: Any, key: str, draw: random.Random) -> None:
    """Ask for something that nobody else asks for."""
    name = f"{log.worker}/{number}"
    due = draw.choice((None, None, timedelta(seconds=draw.uniform(0, 1))))
    later = due is not None and draw.random() < 0.3
    log.tell("ask", f"index/{key}", number, ask=name)
    try:
        urgent = draw.random() < URGENT
        merged = index.create_or_merge(key, asks=[name], merge=union, due_time=due, debounce=later, urgent=urgent)
    except UpdateError as error:
        if not any(DOUBT in note for note in getattr(error, "__notes__", ())):
            report_crash(log, error, f"index/{key}", number)
    except Exception as error:  # noqa: BLE001 - the checker judges it
        report_crash(log, error, f"index/{key}", number)
    else:
        log.tell("asked", f"index/{key}", number, ask=name, effect=merged.effect)


def work_off(attempt: Attempt, task_id: str, interrupts: Interrupts) -> None:
    """Do everything that was requested before this run. The last step leaves nothing of it."""

    def work(ctx: Any) -> None:
        if attempt.step.name == "write":
            done = ctx.task.data.setdefault("done", [])
            done += ctx.task.asks or []
            ctx.task.asks = []

    attempt.run(task_id, work, interrupts)
