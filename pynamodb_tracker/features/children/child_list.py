"""The list of a task's children: an item beside its row, for people and for `cancel`.

Only the number in the row decides when the task is due.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from pynamodb.constants import BINARY, STRING

from pynamodb_tracker.dynamodb.connection import Item, get_items
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.hydration import rows_of_table
from pynamodb_tracker.model.overflow import CHUNK, VERSION, RowKey, by_key, key_beside, key_of
from pynamodb_tracker.model.references import join_of
from pynamodb_tracker.model.row import TaskRow, readable
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Action, Participant

_MOST_BYTES = 4096
"""Bytes, compressed."""
_LONGEST_TEXT = 5_000_000
"""Characters, decompressed. A longer text is not a list."""

Keys = Sequence[RowKey]


class Children(NamedTuple):
    """The children that a task still waits for."""

    tasks: Sequence[TaskRow]
    """In the list's order."""
    unlisted: int
    """How many did not fit into the list."""


def list_key(row: RowKey) -> Item:
    """Return the stored key of a task's list."""
    return key_beside(row, "children")


def build_list(row: RowKey, token: str, children: Keys) -> Item:
    """Return the stored list, without the last children if it has not enough room."""
    names = _pack(children)
    while len(names) > _MOST_BYTES:
        children = children[: len(children) * _MOST_BYTES // len(names)]  # at least one less
        names = _pack(children)
    return {**list_key(row), VERSION: {STRING: token}, "lock": {STRING: token}, CHUNK: {BINARY: names}}


def _keys_in(item: Item) -> list[RowKey]:
    try:
        names = zlib.decompressobj().decompress(item[CHUNK][BINARY], _LONGEST_TEXT)
        return [(str(task_id), str(use_case)) for task_id, use_case in json.loads(names)]
    except (LookupError, RecursionError, TypeError, ValueError, zlib.error):
        return []


def awaited_tasks(row: TaskRow) -> int:
    """Return how many children a task waits for."""
    return max((row.blockers or 0) - (row.turn_due_time is not None), 0)


def read_children(parents: Sequence[TaskRow], *, most: int | None = None) -> dict[RowKey, Children]:
    """Read at most `most` children that tasks of one table wait for, and return them by parent key."""
    waiting = {(row.task_id, row.use_case_id): row for row in parents if awaited_tasks(row)}
    if not waiting:
        return {}
    model = type(next(iter(waiting.values())))
    lists = by_key(get_items(model.tracker.connection(), [list_key(key) for key in waiting]))
    named = {key: _keys_in(lists.get(key_of(list_key(key)), {})) for key in waiting}
    wanted = list(dict.fromkeys(child for keys in named.values() for child in keys))[:most]
    found = {key: readable(row) for key, row in rows_of_table(model, wanted).items()}
    children = {}
    for key, row in waiting.items():
        tasks = [found[child] for child in named[key] if child in found]
        tasks = [task for task in tasks if task.parent == join_of(row)]
        children[key] = Children(tasks, max(awaited_tasks(row) - len(tasks), 0))
    return children


def _pack(children: Keys) -> bytes:
    return zlib.compress(strict_json.dumps(children, separators=(",", ":"), ensure_ascii=False).encode())


class ChildList(Participant):
    """Puts the list together with the success that begins the wait, if that has room."""

    is_needed = False

    def __init__(self, task: TaskRow) -> None:
        self._task = task
        self.token = ""
        """The claim's token."""
        self._children: list[RowKey] = []

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> ChildList | None:  # noqa: ARG003 - it knows the task
        """Take part if the run has created children."""
        follow_ups = run.additions.get("follow_ups")
        child_list: ChildList | None = None if follow_ups is None else follow_ups.child_list
        if child_list is not None:
            child_list.token = run.claim.token
        return child_list

    def add(self, child: TaskRow) -> None:
        """Add a child of this run."""
        self._children.append((child.task_id, child.use_case_id))

    def actions(self) -> Sequence[Action]:
        """Return the put."""
        key = self._task.task_id, self._task.use_case_id
        item = build_list(key, self.token, self._children)
        return [{"Put": {"TableName": self._task.tracker.connection().table_name, "Item": item}}]
