"""Finds a block's changes to a row, and checks them before sending."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar, cast

from pynamodb.attributes import Attribute, ListAttribute, MapAttribute
from pynamodb.constants import STRING
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.dynamodb.limits import MAX_ITEM_BYTES, check, item_size, value_size
from pynamodb_tracker.exceptions import ValueNotStorableError
from pynamodb_tracker.model.data import EMPTY_DATA, DataAttribute
from pynamodb_tracker.model.overflow import MAX_BYTES, chunk_items, free_slot, split, version_of
from pynamodb_tracker.model.row import TaskRow, load
from pynamodb_tracker.model.row_state import ValuesWithUnreadable, unreadable_in
from pynamodb_tracker.model.serialization import rewrite_value, same, serialized

T = TypeVar("T", bound=TaskRow)

Changes = Mapping[str, tuple[Attribute[Any], dict[str, Any] | None]]
"""The user's changed attributes by name, each with its stored form. None removes the attribute."""


class Outgoing(NamedTuple):
    """The block's changes, and their form in the request."""

    changes: Changes
    sent: Changes
    """The same, with a pointer instead of large data."""


_UNCHANGING = frozenset({bool, bytes, datetime, Decimal, float, int, str})

MAX_AT_ONCE = 3_800_000
"""Bytes in the transaction that creates a task. DynamoDB allows 4 MB:
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""

_TRACKER_BYTES = 3000  # for the keys, times and short failures that a transition adds

_ASSIGNMENT_BYTES = 19
"""In most regions, AWS also limits an UpdateItem's assigned values to an item's size, with 19 more bytes each.
This is measured, not documented."""


def changes_of(row: TaskRow) -> Changes:
    """Return the user's attributes that differ from the stored row."""
    before, values = row._row_state.stored, row.attribute_values
    item, claimed = row._row_state.claimed or ({}, {})
    unreadable = unreadable_in(row) if isinstance(values, ValuesWithUnreadable) else ()
    changed: dict[str, tuple[Attribute[Any], dict[str, Any] | None]] = {}
    for name, attribute in row.tracker.own_attributes.items():
        old = before.get(attribute.attr_name)
        if isinstance(attribute, DataAttribute):
            if not attribute.is_untouched(row):
                new = serialized(row, name, attribute)  # only once, because it is slow
                if new is None and old is not None:
                    new = EMPTY_DATA
                if not attribute.is_same(row, old, new):
                    changed[name] = (cast("Attribute[Any]", attribute), new)
            continue
        value = dict.get(values, name)
        if name in unreadable or (old is None and value is None):
            continue
        if type(value) in _UNCHANGING and value is claimed.get(name) and old is item.get(attribute.attr_name):
            continue
        new = serialized(row, name, attribute, loaded=before, complete=False)
        if not (same(old, new) or (old is not None and same(rewrite_value(row, name, attribute, old), new))):
            if isinstance(attribute, ListAttribute | MapAttribute):
                new = serialized(row, name, attribute, loaded=before)
            changed[name] = (attribute, new)
    return changed


def mark_saved(row: TaskRow, changes: Changes, sent: Changes) -> None:
    state = row._row_state
    state.stored = dict(state.stored)
    for attribute, value in sent.values():
        if value is None:
            state.stored.pop(attribute.attr_name, None)
        else:
            state.stored[attribute.attr_name] = value
    if "data" in changes:
        _, value = changes["data"]
        state.data_text = None if value is None else value[STRING]


def read_again(row: TaskRow, names: Iterable[str]) -> None:
    """Reset attributes to their stored values."""
    stored = load(type(row), row._row_state.stored).attribute_values
    values = type(stored)(row.attribute_values)
    for name in names:
        values.pop(name, None)
        if name in stored:
            values[name] = dict.get(stored, name)  # without raising
    vars(row)["attribute_values"] = values


def as_stored(row: T) -> T:
    copy = load(type(row), row._row_state.stored)
    values = row.attribute_values
    copy.attribute_values.update({name: values[name] for name in row.tracker_attributes if name in values})
    return copy


def storable_changes(row: TaskRow, result: tuple[Attribute[Any], str | None] | None = None) -> tuple[Changes, bool]:
    """Return the block's changes in stored form, and whether `data` needs overflow chunks.

    `result` contains the attribute for the step's result, and its text or None.
    """
    needs_chunks = False
    try:
        changes = changes_of(row)
        if result is not None:
            attribute, text = result
            if text is not None or attribute.attr_name in row._row_state.stored:
                changes = {**changes, attribute.attr_name: (attribute, None if text is None else {STRING: text})}
        in_row: dict[str, dict[str, Any] | None] = {}
        for name, (attribute, value) in changes.items():
            if not isinstance(attribute, DataAttribute):
                check(type(row).__name__, name, attribute, value)
            elif needs_chunks := belongs_in_chunks(type(row), row.task_id, value):
                continue
            in_row[attribute.attr_name] = value
        if changes:
            check_row_size(row, in_row)
    except ValueNotStorableError as error:
        error.name_task(row.task_id)
        raise
    return changes, needs_chunks


def belongs_in_chunks(model: type[TaskRow], task_id: str, data: Mapping[str, Any] | None) -> bool:
    size = 0 if data is None else len(data[STRING].encode())
    if size > MAX_BYTES:
        problem = f"has {size:,} bytes as JSON, but at most {MAX_BYTES:,} are stored"
        advice = "put it into an object store, and keep its key in data"
        message = f"data of {model.__name__} {task_id!r} {problem}: {advice}"
        raise ValueNotStorableError(message, task_id=task_id, attribute="data", size=size)
    return size > model.tracker.use_case.max_inline_data


def chunks_of_new_row(model: type[TaskRow], task_id: str, create_time: datetime, item: Item) -> list[Item]:
    """Replace large `data` of a new row by a pointer. Return the chunks to put in the same transaction."""
    value = item.get("data")
    if value is None or not belongs_in_chunks(model, task_id, value):
        return []
    pointer, chunks = split(value[STRING], free_slot(None), version_of(create_time, 0, 0))
    size = sum(map(len, chunks))
    if size > MAX_AT_ONCE:
        problem = f"cannot be created with data of {size:,} bytes, compressed, because a create takes {MAX_AT_ONCE:,}"
        message = f"{model.__name__} {task_id!r} {problem}: let a run save it, which takes {MAX_BYTES:,}"
        raise ValueNotStorableError(message, task_id=task_id, attribute="data", size=size)
    item["data"] = pointer.stored()
    end = {"expire_time": item["expire_time"]} if "expire_time" in item else {}
    key, token = (task_id, model.tracker.use_case.name), item["creation"][STRING]
    return [{**chunk, **end} for chunk in chunk_items(key, token, pointer, chunks)]


def check_row_size(row: TaskRow, new: dict[str, dict[str, Any] | None]) -> None:
    assigned: Item = {name: value for name, value in new.items() if value is not None}
    item = {name: value for name, value in row._row_state.stored.items() if name not in new} | assigned
    total = item_size(item) + _TRACKER_BYTES
    if total <= MAX_ITEM_BYTES < total + _ASSIGNMENT_BYTES * len(assigned):
        total = max(total, item_size(assigned) + _ASSIGNMENT_BYTES * len(assigned) + _TRACKER_BYTES)
    if total > MAX_ITEM_BYTES:
        sizes = {name: value_size(value) for name, value in item.items()}
        largest = max(sizes, key=sizes.__getitem__)
        size = sizes[largest]
        advice = f"put {largest}, which takes {size:,}, into an object store, and keep its key"
        problem = f"would take {total:,} bytes, but a row holds {MAX_ITEM_BYTES:,}: {advice}"
        message = f"{type(row).__name__} {row.task_id!r} {problem}"
        raise ValueNotStorableError(message, task_id=row.task_id, attribute=largest, size=size)


def raise_if_invalid(row: TaskRow, changes: Changes, error: PynamoDBConnectionError) -> None:
    if changes and is_invalid(error):
        names = ", ".join(f"{name} ({value_size(value):,} bytes)" for name, (_, value) in changes.items() if value)
        described = f"new values of {type(row).__name__} {row.task_id!r}, {names}"
        message = f"DynamoDB refused {described}: {error.cause_response_message}"
        raise ValueNotStorableError(message, task_id=row.task_id, attribute=next(iter(changes))) from error
