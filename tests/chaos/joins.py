"""Joins: a report is split into parts, and collected once they have succeeded, or its time has come."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pynamodb_tracker import clock
from tests.chaos.attempts import Attempt
from tests.chaos.events import Log
from tests.chaos.interrupts import Interrupts
from tests.chaos.queues import CHILDREN, Queues

PATIENCE = timedelta(seconds=1.5)
"""How long some reports wait for their parts."""


def part_ids(task_id: str) -> list[str]:
    return [f"{task_id}/{number}" for number in range(CHILDREN)]


def is_patient(task_id: str) -> bool:
    """Return whether a report waits until all its parts have succeeded."""
    return not task_id.endswith("0")


def run(
    attempt: Attempt, task_id: str, queues: Queues, interrupts: Interrupts, *, also_from: Sequence[Any] = ()
) -> None:

    def split(ctx: Any) -> None:
        for page in part_ids(task_id):
            ctx.create(queues.part, page, page=page, wait=True)
        if not is_patient(task_id):
            ctx.wait_until(clock.now() + PATIENCE)

    def collect(ctx: Any) -> None:
        until = ctx.task.wait_until
        is_late = until is not None and until - ctx.task.tracker.margin <= clock.now()
        is_late = is_late or any(each.type == "cancelled" for each in ctx.task.errors)  # so it no longer waits
        parts = dict.fromkeys(part_ids(task_id))
        found = parts | {part.task_id: part.state.code for part in queues.part.get_many([*parts])}
        attempt.log.tell(
            "collect", f"report/{task_id}", attempt.number, found=found, is_late=is_late, waits=ctx.task.blockers
        )

    def recall(_: Any) -> None: ...

    work = {"split": split, "collect": collect, "recall": recall}[attempt.step.name]
    attempt.run(task_id, work, interrupts, also_from=also_from)


def cancel(log: Log, number: int, report: Any, task_id: str, go_to: Any) -> None:
    """Cancel a report with its parts, and report the cancelled claims, and the runs that must not begin."""
    who, named = f"{log.worker}/{number}", f"report/{task_id}"
    done = report.cancel(task_id, reason="a person said so", by=who, children=True, go_to=go_to, even_running=True)
    task = done.task
    is_mine = task.cancelled is not None and task.cancelled.by == who
    if done.running and is_mine and task.fence in (task.unfinished or []):
        log.tell("cancelled", named, number, fence=task.fence)
    log.tell("stopped", named, number, children=["/".join(child) for child in done.children])
