"""A join: a task waits for the children that its run has created, and the last of them makes it due.

The parent's row counts them in `blockers`. A child's success or deletion lowers the count in its transaction and
removes the child's reference to this wait, so that it counts only once.

An item beside the parent's row lists them for people and for `cancel`. Only the number decides when the parent is due.
"""

import json
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeVar

from pynamodb.connection.table import TableConnection
from pynamodb.constants import BINARY, BOOLEAN, STRING
from pynamodb.expressions.condition import Condition

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, get_items, send
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.hydration import rows_of_table
from pynamodb_tracker.model.overflow import CHUNK, VERSION, RowKey, by_key, item_key, key_beside, key_of, key_of_row
from pynamodb_tracker.model.references import join_of, parse
from pynamodb_tracker.model.row import TaskRow, readable
from pynamodb_tracker.model.status import end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import PreparedWrite, fill, guard, parameter
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Action, NewlyDue, Participant
from pynamodb_tracker.writes.refusals import check_format
from pynamodb_tracker.writes.transition import Transition, load_checked

T = TypeVar("T", bound=TaskRow)

_CUT = "cut"  # in a list that lacks children

_MOST_BYTES = 4096
"""Bytes, compressed."""
_LONGEST_TEXT = 5_000_000
"""Characters, decompressed. A longer text is not a list."""


@guard
def waits_for_more() -> Condition:
    """Require a task that waits for several tasks. The last one has to make it due."""
    return TaskRow.blockers > 1


@guard
def waits_for_one() -> Condition:
    return TaskRow.blockers <= 1


@guard
def same_join() -> Condition:
    """Require the wait that the child belongs to, not a later one."""
    return TaskRow.join_token == parameter(TaskRow.join_token, "seen_join")


def build_adoption(table: TableConnection) -> PreparedWrite:
    condition = when.all_of([when.seen("parent"), when.known_format()])
    return PreparedWrite(table, condition=condition, actions=[fill(TaskRow.parent, "parent")])


def build_count(table: TableConnection) -> PreparedWrite:
    """Count a child, except the last one."""
    guards = [same_join(), waits_for_more(), when.known_format()]
    return PreparedWrite(table, condition=when.all_of(guards), actions=[TaskRow.blockers.set(TaskRow.blockers - 1)])


def build_last_count(table: TableConnection, *, parked: bool, awaits: bool = False) -> PreparedWrite:
    """Count the last child. A `parked` parent becomes due, unless it `awaits` signals."""
    guards = [same_join(), waits_for_one(), when.seen("awaited_signals", is_there=awaits), when.seen("status")]
    actions = [fill(TaskRow.due_time, "due")] if parked and not awaits else []
    actions += [TaskRow.blockers.remove()] if awaits else [TaskRow.blockers.remove(), TaskRow.wait_until.remove()]
    return PreparedWrite(table, condition=when.all_of([*guards, when.known_format()]), actions=actions)


class ChildCount(Participant):
    """Lowers the parent's count with a child's success or deletion."""

    def __init__(self, child: TaskRow) -> None:
        self._owner: Any = child.tracker.table.owner
        self._table = child.tracker.connection()
        self._last: list[NewlyDue] = []
        self._parent = child.parent
        try:
            self._reference = parse(child.parent)
        except ValueError as error:
            raise TaskError(
                f"the success of {type(child).__name__} {child.task_id!r} cannot be counted, because its parent is "
                f"damaged: {error}. Correct or remove its attribute `parent`",
                task_id=child.task_id,
                task=child,
            ) from error
        self._key = item_key(self._reference.task_id, self._reference.use_case)

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Self | None:
        """Count a child's last success, unless it ends as cancelled."""
        return cls(row) if end_of(run.next_code) == "succeeded" else None

    @classmethod
    def for_deletion(cls, row: TaskRow) -> Self | None:
        return cls(row)

    def change(self, success: Transition) -> None:
        """Remove the reference, unless the parent's next run has changed it."""
        success.add(when.seen("parent"), seen={"seen_parent": self._parent}, parent=None)

    def actions(self) -> Sequence[Action]:
        """Return the write that counts this child, if the parent still waits for it."""
        item = send(self._table, "GetItem", {"Key": self._key, "ConsistentRead": True}).get("Item")
        row: TaskRow | None = load_checked(self._owner, item) if item else None  # maybe of an undeclared use case
        self._last = []
        if row is None or row.join_token != self._reference.round or "blockers" not in row._row_state.stored:
            return []
        check_format(row, "count a task that has ended for")
        parked = row.due_time in {clock.NEVER, row.wait_until}
        write = build_count(self._table)
        due = max(clock.now(), row.update_time)
        if row.blockers <= 1:
            awaits = "awaited_signals" in row._row_state.stored
            write = build_last_count(self._table, parked=parked, awaits=awaits)
            model = self._owner.tracker.table.use_cases.get(self._reference.use_case)
            if parked and not awaits and model is not None:
                self._last = [NewlyDue(model, row.task_id, row.status, row.creation, due)]
        values = {
            "seen_join": self._reference.round,
            "seen_status": str(row.status),
            "seen_awaited_signals": sorted(row.awaited_signals or ()),
            "due": clock.stamp(due),
        }
        return [write.as_action("Update", self._key, values)]

    def made_due(self) -> list[NewlyDue]:
        """Return the parent, if this was its last child."""
        return self._last


class Children(NamedTuple):
    """The children that a task still waits for."""

    tasks: Sequence[TaskRow]
    """In the list's order."""
    unlisted: int
    """How many did not fit into the list."""
    is_cut: bool = False
    """Whether the list may lack children of a cancelled task, which does not count them any more."""


def list_key(row: RowKey) -> Item:
    return key_beside(row, "children")


def build_list(row: RowKey, token: str, children: Sequence[RowKey]) -> Item:
    """Return the stored list, without the last children if it has not enough room."""
    names, cut = _pack(children), Item()
    while len(names) > _MOST_BYTES:
        children = children[: len(children) * _MOST_BYTES // len(names)]  # at least one less
        names, cut = _pack(children), {_CUT: {BOOLEAN: True}}
    return {**list_key(row), VERSION: {STRING: token}, "lock": {STRING: token}, CHUNK: {BINARY: names}, **cut}


def _keys_in(item: Item) -> list[RowKey]:
    try:
        names = zlib.decompressobj().decompress(item[CHUNK][BINARY], _LONGEST_TEXT)
        return [(str(task_id), str(use_case)) for task_id, use_case in json.loads(names)]
    except (LookupError, RecursionError, TypeError, ValueError, zlib.error):
        return []


def awaited_tasks(row: TaskRow) -> int:
    """Return how many children a task waits for."""
    return max((row.blockers or 0) - (row.turn_due_time is not None), 0)


def _has_waited(row: TaskRow) -> bool:
    """Return whether a task waited for its children when it was cancelled."""
    return row.cancelled is not None and row.cancelled.join is not None and row.cancelled.join == row.join_token


def read_children(parents: Sequence[TaskRow], *, most: int | None = None) -> dict[RowKey, Children]:
    """Read at most `most` children for which tasks of one table wait, or waited until they were cancelled.

    Return them by parent key.
    """
    waiting = {key_of_row(row): row for row in parents if awaited_tasks(row) or _has_waited(row)}
    if not waiting:
        return {}
    model = type(next(iter(waiting.values())))
    lists = by_key(get_items(model.tracker.connection(), [list_key(key) for key in waiting]))
    items = {key: lists.get(key_of(list_key(key)), {}) for key in waiting}
    named = {key: _keys_in(item) for key, item in items.items()}
    wanted = list(dict.fromkeys(child for keys in named.values() for child in keys))[:most]
    found = {key: readable(row) for key, row in rows_of_table(model, wanted).items()}
    children = {}
    for key, row in waiting.items():
        tasks = [found[child] for child in named[key] if child in found]
        tasks = [task for task in tasks if task.parent == join_of(row)]
        awaited = awaited_tasks(row)
        is_cut = not awaited and (not named[key] or _CUT in items[key])
        children[key] = Children(tasks, max(awaited - len(tasks), 0), is_cut)
    return children


def _pack(children: Sequence[RowKey]) -> bytes:
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
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Self | None:  # noqa: ARG003 - it knows the task
        """Take part if the run has created children."""
        follow_ups = run.additions.get("follow_ups")
        child_list: Self | None = None if follow_ups is None else follow_ups.child_list
        if child_list is not None:
            child_list.token = run.claim.token
        return child_list

    def add(self, child: TaskRow) -> None:
        self._children.append(key_of_row(child))

    def actions(self) -> Sequence[Action]:
        """Return the put."""
        item = build_list(key_of_row(self._task), self.token, self._children)
        return [{"Put": {"TableName": self._task.tracker.connection().table_name, "Item": item}}]
