"""Follow-ups: tasks created with a success, or because a task is ignored."""

from typing import Any

from tests.chaos.attempts import Attempt
from tests.chaos.interrupts import Interrupts
from tests.chaos.queues import FOLLOW_UPS

MANY = 110


def notice_ids(task_id: str, step: int) -> list[str]:
    """Return the follow-ups of a sale's success."""
    return [f"{task_id}/{step}/{number}" for number in range(MANY if has_many(task_id) else FOLLOW_UPS)]


def has_many(task_id: str) -> bool:
    """Return whether a sale has too many follow-ups for a transaction, so that some precede its success."""
    return task_id.endswith(("03", "23", "53", "83"))


def run(attempt: Attempt, task_id: str, notice: Any, interrupts: Interrupts) -> None:
    """Create this step's follow-ups. The end of this run decides about them."""

    def work(ctx: Any) -> None:
        for each in notice_ids(task_id, attempt.step.number):
            ctx.create(notice, each, made_by=ctx.task.fence)

    attempt.run(task_id, work, interrupts)
