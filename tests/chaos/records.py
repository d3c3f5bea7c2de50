"""The traces of a block in its task: a record per action, and text that belongs to it."""

import random
from typing import Any

Record = tuple[int, int]
"""The run's fence, and the record's number in the run, from 1."""


def append(task: Any, fence: int, number: int, size: int) -> None:
    """Add a record, and replace the text and the note."""
    task.data.setdefault("log", []).append([fence, number, size])
    task.data["text"] = _text(task.task_id, fence, number, size)
    task.note = _note(fence, number)


def records(task: Any) -> list[Record]:
    return [(fence, number) for fence, number, _ in task.data.get("log", [])]


def is_whole(task: Any) -> bool:
    """Return whether text and note are complete and belong to the last record."""
    log = task.data.get("log", [])
    if not log:
        return task.note is None and "text" not in task.data
    fence, number, size = log[-1]
    same_text: bool = task.data.get("text") == _text(task.task_id, fence, number, size)
    return same_text and task.note == _note(fence, number)


def is_in_its_shard(task: Any) -> bool:
    """Return whether a waiting task's index key matches its status and `urgent`."""
    key = task.tracker.status_key(task.status, task.task_id, is_urgent=bool(task.urgent))
    return bool(key == task.status_key)


def _note(fence: int, number: int) -> str:
    return f"{fence}.{number}"


def _text(task_id: str, fence: int, number: int, size: int) -> str:
    """Return text of that many bytes that no other record has."""
    return random.Random(f"{task_id}/{fence}/{number}").randbytes(size // 2).hex()
