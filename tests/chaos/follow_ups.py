"""Follow-ups: tasks that are created with the success of a run, or because a task is ignored."""

from __future__ import annotations

from typing import Any

from tests.chaos.attempts import Attempt
from tests.chaos.interrupts import Interrupts
from tests.chaos.queues import FOLLOW_UPS

__all__ = ["notice_ids", "run"]


def notice_ids(task_id: str, step: int) -> list[str]:
    """Return the follow-ups of the success of a step of a sale."""
    return [f"{task_id}/{step}/{number}" for number in range(FOLLOW_UPS)]


def run(attempt: Attempt, task_id: str, notice: Any, interrupts: Interrupts) -> None:
    """Create the follow-ups of this step; how this run ends decides what becomes of them."""

    def work(ctx: Any) -> None:
        for each in notice_ids(task_id, attempt.step.number):
            ctx.create(notice, each, made_by=ctx.fence)

    attempt.run(task_id, work, interrupts)
