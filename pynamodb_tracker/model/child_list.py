"""The list of a task's children: an item beside its row, which names the tasks that it waits for.

Only the number in the row decides when the task is due. The list is for people, and for `cancel`. It belongs to one
round of the task. A task is a child as long as its `parent` names that round.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from pynamodb.constants import BINARY, STRING

from pynamodb_tracker import strict_json
from pynamodb_tracker.dynamodb.connection import Item, get_items
from pynamodb_tracker.model.hydration import rows_of_table
from pynamodb_tracker.model.overflow import CHUNK, VERSION, RowKey, by_key, key_beside, key_of
from pynamodb_tracker.model.references import reference_to
from pynamodb_tracker.model.row import TaskRow, readable

_MOST_BYTES = 4096
"""Bytes of the names, compressed."""

_LONGEST_TEXT = 5_000_000
"""Characters that this many bytes may decompress to. A longer text is not a list."""

Keys = Sequence[RowKey]


class Children(NamedTuple):
    """The children that a task still waits for."""

    tasks: Sequence[TaskRow]
    """In the order of the list."""
    unlisted: int
    """How many more there are, for which the list has no room."""


def list_key(row: RowKey) -> Item:
    """Return the stored key of a task's list."""
    return key_beside(row, "children")


def as_item(row: RowKey, of_round: str, token: str, children: Keys) -> Item:
    """Return the stored list. If there is no room for all children, the last ones are left out."""
    names = _packed(children)
    while len(names) > _MOST_BYTES:
        children = children[: len(children) * _MOST_BYTES // len(names)]  # fewer by one at least
        names = _packed(children)
    return {**list_key(row), VERSION: {STRING: of_round}, "lock": {STRING: token}, CHUNK: {BINARY: names}}


def keys_in(item: Item) -> list[RowKey]:
    """Return the keys in a stored list, or none if it cannot be read."""
    try:
        names = zlib.decompressobj().decompress(item[CHUNK][BINARY], _LONGEST_TEXT)
        return [(str(task_id), str(use_case)) for task_id, use_case in json.loads(names)]
    except (LookupError, RecursionError, TypeError, ValueError, zlib.error):
        return []


def awaited_tasks(row: TaskRow) -> int:
    """Return how many children a task waits for. Its turn in a group does not count."""
    return max((row.blockers or 0) - (row.turn_due_time is not None), 0)


def children_of(parents: Sequence[TaskRow], *, most: int | None = None) -> dict[RowKey, Children]:
    """Return the children that tasks of one table wait for, by the key of the parent. Strongly consistent.

    It reads the lists of parents that wait for children, and then the rows of at most `most` children.
    """
    waiting = {(row.task_id, row.use_case_id): row for row in parents if awaited_tasks(row)}
    if not waiting:
        return {}
    model = type(next(iter(waiting.values())))
    lists = by_key(get_items(model.tracker.connection(), [list_key(key) for key in waiting]))
    named = {key: keys_in(lists.get(key_of(list_key(key)), {})) for key in waiting}
    wanted = list(dict.fromkeys(child for keys in named.values() for child in keys))[:most]
    found = {key: readable(row) for key, row in rows_of_table(model, wanted).items()}
    children = {}
    for key, row in waiting.items():
        tasks = [found[child] for child in named[key] if child in found]
        tasks = [task for task in tasks if task.parent == reference_to(row)]
        children[key] = Children(tasks, max(awaited_tasks(row) - len(tasks), 0))
    return children


def _packed(children: Keys) -> bytes:
    return zlib.compress(strict_json.dumps(children, separators=(",", ":"), ensure_ascii=False).encode())
