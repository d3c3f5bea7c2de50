"""Errors that are one: their messages differ in ids, times and long numbers alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

__all__ = ["Group", "Groups", "pattern"]

_VARIES = re.compile(
    r"""
      \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b  # a UUID
    | \b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?  # a time
    | \b0x[0-9a-f]+\b
    | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b  # a hash
    | \d{4,}  # shorter ones may be codes, such as HTTP's
    """,
    re.VERBOSE | re.IGNORECASE,
)


def pattern(error: str, task_id: str) -> str:
    """Return an error without what differs from task to task."""
    words = " ".join(task_id.split())  # as an error has them, on its one line
    return _VARIES.sub("#", re.sub(rf"(?<!\w){re.escape(words)}(?!\w)", "…", error) if words else error)


@dataclass(slots=True)
class Group:
    """The tasks with one error."""

    error: str
    tasks: int
    newest: datetime
    example: str
    """The id of the task that has it since the shortest time."""


class Groups:
    """Groups of errors, each under a key of its own."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], Group] = {}

    def add(self, key: str, task_id: str, error: str, time: datetime) -> None:
        """Count the error of a task."""
        shape = pattern(error, task_id)
        group = self._groups.get((key, shape))
        if group is None:
            self._groups[key, shape] = Group(shape, 1, time, task_id)
            return
        group.tasks += 1
        if time >= group.newest:
            group.newest, group.example = time, task_id

    def sorted(self) -> list[tuple[str, Group]]:
        """Return the groups with their keys, the commonest first."""
        found = [(key, group) for (key, _), group in self._groups.items()]
        return sorted(found, key=lambda each: (-each[1].tasks, each[0], each[1].error))
