"""Groups: their tasks run one at a time, in order, and note that in the shared data."""

import random
import time
from typing import Any

from tests.chaos.attempts import Attempt
from tests.chaos.interrupts import Interrupts

GROUP_FOR = 5.0
"""Seconds for which all tasks enter the same groups."""


def group_now(draw: random.Random) -> str:
    """Return the group to enter. There are only a few at a time."""
    return f"van-{int(time.monotonic() / GROUP_FOR)}-{draw.choice((0, 0, 0, 1))}"


def run(attempt: Attempt, task_id: str, interrupts: Interrupts) -> None:
    """Add this run to the group's data."""

    def work(ctx: Any) -> None:
        ctx.group.data.setdefault("log", []).append([task_id, attempt.step.number, ctx.task.fence])

    attempt.run(task_id, work, interrupts)
