"""Reads what is left of the tasks of the queues."""

from __future__ import annotations

from typing import Any

from tests.chaos.attempts import marks
from tests.chaos.final import Entry, QueueRow
from tests.chaos.queues import Queues

__all__ = ["left_of_queues", "queue_row"]


def left_of_queues(queues: Queues) -> int:
    """Return how many tasks of queues are still to be done; an ignored part, too, since its report waits for it."""
    left: int = queues.part.do.ignored.count()
    for use_case in {step.model for step in queues.steps}:
        states = use_case.counts().items()
        left += sum(number for state, number in states if state.code % 10 != 3 and state.code < 1000)
    return left


def _asks(stored: dict[str, Any]) -> list[str]:
    """Return what is asked for, in a row or in what waits in it."""
    return [ask["S"] for ask in stored.get("asks", {"L": []})["L"]]


def queue_row(queues: Queues, item: dict[str, Any], entry: Entry) -> QueueRow:
    """Return a task as it was left."""
    name, task_id, code = item["use_case_id"]["S"], item["task_id"]["S"], int(item["status"]["N"])
    use_case = getattr(queues, name)
    task = use_case.get_task(task_id)
    again = item.get("again", {"M": {}})["M"].get("attributes", {"M": {}})["M"]
    facts: dict[str, Any] = {
        "waits": task.waits,
        "parent": task.parent,
        "fences": [int(fence["N"]) for fence in item["unfinished"]["L"]],
        "done": task.data.get("done", []),
        "occurrences": task.data.get("occurrences", []),
        "extras": task.data.get("extras", []),
        "text": task.data.get("text", [None])[0],
        "asks": _asks(item),
        "again": _asks(again),
        "made_by": int(item["made_by"]["N"]) if "made_by" in item else None,
    }
    return QueueRow(entry, code, use_case.tracker.use_case.status_key(code, task_id), marks(task), facts)
