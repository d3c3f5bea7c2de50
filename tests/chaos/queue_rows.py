"""Reads the queues' tasks at the end."""

from collections.abc import Iterable
from typing import Any

from tests.chaos.attempts import marks
from tests.chaos.final import Entry, GroupLeft, QueueRow
from tests.chaos.queues import Queues


def left_of_queues(queues: Queues) -> bool:
    """Return whether a queue task still has to be done. An ignored part counts, because its report waits for it."""
    states = [state for step in queues.steps for state in (step.pending, step.in_progress, step.failed)]
    return any(state.count() for state in (*states, queues.part.do.ignored))


def groups_of(queues: Queues, rows: Iterable[QueueRow]) -> dict[str, GroupLeft]:
    found = {}
    for name in sorted({row.facts["group"] for row in rows} - {None}):
        group = queues.member.group(name)
        log = [(task_id, step, fence) for task_id, step, fence in group.data.get("log", [])]
        found[name] = GroupLeft(group.turn, group.waiting(), log)
    return found


def _asks(stored: dict[str, Any]) -> list[str]:
    return [ask["S"] for ask in stored.get("asks", {"L": []})["L"]]


def queue_row(queues: Queues, item: dict[str, Any], entry: Entry) -> QueueRow:
    name, task_id, code = item["use_case_id"]["S"], item["task_id"]["S"], int(item["status"]["N"])
    use_case = getattr(queues, name)
    task = use_case.get_task(task_id)
    again = item.get("queued", {"M": {}})["M"].get("attributes", {"M": {}})["M"]
    facts: dict[str, Any] = {
        "waits": task.blockers,
        "parent": task.parent,
        "fences": [int(fence["N"]) for fence in item["unfinished"]["L"]],
        "done": task.data.get("done", []),
        "occurrences": task.data.get("occurrences", []),
        "extras": task.data.get("extras", []),
        "text": task.data.get("text", [None])[0],
        "signals": {name: signal.value for name, signal in (task.signals or {}).items()},
        "awaits": sorted(task.awaited_signals or ()),
        "decided": task.data.get("decided"),
        "group": item.get("group", {}).get("S"),
        "group_number": int(item["group_number"]["N"]) if "group_number" in item else None,
        "asks": _asks(item),
        "again": _asks(again),
        "made_by": int(item["made_by"]["N"]) if "made_by" in item else None,
    }
    return QueueRow(
        entry, code, use_case.tracker.status_key(code, task_id, is_urgent=bool(task.urgent)), marks(task), facts
    )
