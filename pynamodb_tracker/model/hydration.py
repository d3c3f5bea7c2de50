"""Reads whole tasks by key, strongly consistent, with their overflow chunks and log items."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from pynamodb_tracker.dynamodb.connection import get_items
from pynamodb_tracker.dynamodb.retries import slept_before_retry
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model import failure_log, overflow
from pynamodb_tracker.model.data import LeftOut, unread_data
from pynamodb_tracker.model.row import TaskRow, has_expired, load, readable
from pynamodb_tracker.model.row_state import mark_unreadable

T = TypeVar("T", bound=TaskRow)
_TRIES = 8  # to read a row again because its data was written in the meantime


def rows(model: type[T], task_ids: Iterable[str]) -> dict[str, T]:
    keys = [model.tracker.key(task_id) for task_id in dict.fromkeys(task_ids)]
    found = (load(model, item) for item in get_items(model.tracker.connection(), keys))
    return {row.task_id: row for row in found}


def rows_to_show(model: type[T], task_ids: Iterable[str]) -> dict[str, T]:
    return {task_id: readable(row) for task_id, row in rows(model, task_ids).items()}


def rows_of_table(model: type[T], keys: Iterable[overflow.RowKey]) -> dict[overflow.RowKey, T]:
    distinct = [overflow.item_key(*key) for key in dict.fromkeys(keys)]
    found = get_items(model.tracker.connection(), distinct)
    return {overflow.key_of(item): model.from_raw_data(item) for item in found}


def fill(model: type[T], found: Mapping[str, T]) -> dict[str, T]:
    """Read these rows' data and failures, so that each row is consistent in itself. Leave out rows that are gone."""
    whole, left, before = dict(found), dict(found), dict[overflow.RowKey, overflow.Pointer]()
    for retry in range(_TRIES):
        by_key = {overflow.key_of_row(row): row for row in left.values()}
        wanted = {key: pointer for key, row in by_key.items() if (pointer := unread_data(row)) is not None}
        logs = {key: row for key, row in by_key.items() if failure_log.needs_log(row)}
        keys = [key for row, pointer in wanted.items() for key in overflow.chunk_keys(row, pointer)]
        items = overflow.by_key(get_items(model.tracker.connection(), [*keys, *map(overflow.log_key, logs)]))
        for key, row in logs.items():
            failure_log.fill(row, items.get(overflow.key_of(overflow.log_key(key))))
        texts = overflow.texts_in(items, wanted)
        for (task_id, _), text in texts.items():
            model.data.fill(left[task_id], text)
        missing = wanted.keys() - texts.keys()
        is_last = retry == _TRIES - 1
        # Writers do not change chunks that a row points to. If they mismatch the same pointer twice, they are damaged.
        damaged = {key for key in missing if is_last or before.get(key) == wanted[key]}
        moved = {task_id for task_id, _ in missing - damaged}
        if moved and not slept_before_retry(retry):
            damaged, moved = set(missing), set()
        for task_id, _ in damaged:
            _mark_incomplete(left[task_id])
        if not moved:
            break
        left, before = rows(model, moved), wanted
        whole = {
            task_id: left.get(task_id, row) for task_id, row in whole.items() if task_id in left or task_id not in moved
        }
    return whole


def fill_each(found: Iterable[T]) -> dict[overflow.RowKey, T]:
    """Fill rows of several use cases. Rows of unknown use cases read the rest on first access."""
    by_model: dict[type[T], dict[str, T]] = {}
    for row in found:
        by_model.setdefault(type(row), {})[row.task_id] = row
    filled = (fill(model, rows) if model.tracker.has_use_case else rows for model, rows in by_model.items())
    return {overflow.key_of_row(row): row for rows in filled for row in rows.values()}


def _mark_incomplete(row: TaskRow) -> None:
    expired = has_expired(row)
    why = f"its time to live ended at {row.expire_time}" if expired else "perhaps another program deleted one"
    problem = f"is incomplete: an overflow chunk is missing, damaged, or of another version ({why})"
    raised = TaskError(f"the data of {type(row).__name__} {row.task_id!r} {problem}", task_id=row.task_id)
    mark_unreadable(row, "data", raised, LookupError("an overflow chunk is missing"))


def leave_out_data(found: Iterable[TaskRow]) -> None:
    for row in found:
        row.attribute_values["data"] = LeftOut()
