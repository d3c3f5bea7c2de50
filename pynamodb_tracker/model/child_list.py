"""The list of a task's children: an item beside its row, which names the tasks that it waits for.

The row only has their number, which decides when it is due. The list decides nothing: it shows people the children, and
`cancel` finds them by it. It is that of one round of the task, and a child is one as long as its `parent` names that.
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
from pynamodb_tracker.model.overflow import CHUNK, VERSION, RowKey, key_beside
from pynamodb_tracker.model.references import reference_to
from pynamodb_tracker.model.row import TaskRow, readable

_MOST_BYTES = 4096
"""Bytes of the names, compressed."""

_LONGEST_TEXT = 5_000_000
"""Characters that this many bytes can be decompressed to; a longer text is no list."""

Keys = Sequence[RowKey]


class Children(NamedTuple):
    """The tasks that a task waits for, as far as its list names them."""

    tasks: Sequence[TaskRow]
    """Those that it still waits for, in the order of the list."""
    unlisted: int
    """For how many more it waits: the list has no room for them."""


def list_key(row: RowKey) -> Item:
    """Return the stored key of the list of a task."""
    return key_beside(row, "children")


def as_item(row: RowKey, of_round: str, token: str, children: Keys) -> Item:
    """Return the stored list; the last children are left out if there is no room for all."""
    names = _packed(children)
    while len(names) > _MOST_BYTES:
        children = children[: len(children) * _MOST_BYTES // len(names)]  # fewer by one at least
        names = _packed(children)
    return {
        **list_key(row),
        VERSION: {STRING: of_round},
        "lock": {STRING: token},
        CHUNK: {BINARY: names},
    }


def keys_in(item: Item) -> list[RowKey]:
    """Return the keys that a stored list has; none if it cannot be read."""
    try:
        names = zlib.decompressobj().decompress(item[CHUNK][BINARY], _LONGEST_TEXT)
        return [(str(task_id), str(use_case)) for task_id, use_case in json.loads(names)]
    except (LookupError, RecursionError, TypeError, ValueError, zlib.error):
        return []


def awaited_tasks(row: TaskRow) -> int:
    """Return for how many children a task waits; its turn in a group is none of them."""
    waits = row.blockers or 0
    return max(waits - (row.turn_due_time is not None), 0)


def children_of(parents: Sequence[TaskRow], *, most: int | None = None) -> dict[RowKey, Children]:
    """Return the children that tasks of one table wait for, by key of the task; strongly consistent.

    It reads the lists, and then the rows of at most as many children. Nothing is read for a task that waits for none.
    """
    waiting = {(row.task_id, row.use_case_id): row for row in parents if awaited_tasks(row)}
    if not waiting:
        return {}
    model = type(next(iter(waiting.values())))
    lists = {_owner(item): item for item in get_items(model.tracker.connection(), [list_key(key) for key in waiting])}
    named = {key: keys_in(lists.get(key, {})) for key in waiting}
    wanted = list(dict.fromkeys(child for keys in named.values() for child in keys))[:most]
    found = {key: readable(row) for key, row in rows_of_table(model, wanted).items()}
    children = {}
    for key, row in waiting.items():
        reference = reference_to(row)
        tasks = [found[child] for child in named[key] if child in found]
        tasks = [task for task in tasks if task.parent == reference]
        children[key] = Children(tasks, max(awaited_tasks(row) - len(tasks), 0))
    return children


def _owner(item: Item) -> RowKey:
    """Return the key of the task whose list this is."""
    return item["task_id"][STRING], item["use_case_id"][STRING].partition("#")[0]


def _packed(children: Keys) -> bytes:
    return zlib.compress(strict_json.dumps(children, separators=(",", ":"), ensure_ascii=False).encode())
