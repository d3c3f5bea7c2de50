"""What is stored of a group, under its name: its row, and a place for each of its tasks that waits for its turn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pynamodb.constants import NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.arguments import shown
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.exceptions import TrackerError, ValueNotStorableError
from pynamodb_tracker.model.data import to_json
from pynamodb_tracker.model.overflow import GROUP_OF, item_key

MAX_DATA_BYTES = 350_000
"""Bytes of a group's data as JSON: it has to fit into one item, with which every end in the group writes it."""

_PREFIX = "#group#"
_DIGITS = 10


class GroupRow(NamedTuple):
    """The row of a group when it was read."""

    turn: str | None
    """The task that has the turn: it is due, or runs, or has failed and is tried again. None if there is none."""
    last: int
    """The number of the task that entered last."""
    data: str
    """The group's data as JSON."""
    version: int
    """How often the row was written: nothing is written that was decided by an older one."""


class Place(NamedTuple):
    """The place of a task that waits for its turn."""

    number: int
    """Its number in the order of the group."""
    task_id: str
    turn_due_time: datetime
    """When the task may start once it has its turn."""
    status: int
    """The code of its state, which it keeps while it waits."""
    creation: str
    """The token of its creation."""


def row_key(use_case: str, name: str) -> Item:
    """Return the stored key of a group's row."""
    return item_key(name, range_key(use_case))


def place_key(use_case: str, name: str, number: int) -> Item:
    """Return the stored key of a place; places sort by their numbers."""
    return item_key(name, f"{_places(use_case)}{number:0{_DIGITS}d}")


def range_key(use_case: str) -> str:
    """Return the range key of the groups of a use case; of no task, because no use case has a `#` in its name."""
    return f"{_PREFIX}{use_case}"


def last_range_key(use_case: str) -> str:
    """Return the last range key that a place can have."""
    return _places(use_case) + "9" * _DIGITS


def _places(use_case: str) -> str:
    return f"{_PREFIX}{use_case}##"


def parse(use_case: str, name: str, items: Iterable[Item]) -> tuple[GroupRow | None, list[Place]]:
    """Return the row of a group, and its places in order.

    Items of other groups may lie between them: of a use case whose name continues this one's with a `!`, for example.
    """
    row, places, own, prefix = None, [], range_key(use_case), _places(use_case)
    try:
        for item in items:
            key = item["use_case_id"][STRING]
            if key == own:
                row = _row(item)
            elif key.startswith(prefix):
                places.append(_place(key.removeprefix(prefix), item))
    except (KeyError, ValueError) as error:
        raise TrackerError(
            f"cannot read the group {name!r} of use case {use_case!r}: another program has changed it: {error!r}"
        ) from error
    return row, places


def _row(item: Item) -> GroupRow:
    turn, data = item.get("turn"), item.get("data")
    return GroupRow(
        None if turn is None else turn[STRING],
        int(item["last"][NUMBER]),
        "{}" if data is None else data[STRING],
        int(item["version"][NUMBER]),
    )


def _place(number: str, item: Item) -> Place:
    return Place(
        int(number),
        item["member"][STRING],
        clock.parse(item["turn_due_time"][STRING]),
        int(item["code"][NUMBER]),
        item["creation"][STRING],
    )


def stored_place(use_case: str, name: str, place: Place) -> Item:
    """Return the stored form of a place."""
    return {
        **place_key(use_case, name, place.number),
        GROUP_OF: {STRING: use_case},
        "member": {STRING: place.task_id},
        "turn_due_time": {STRING: clock.stamp(place.turn_due_time)},
        "code": {NUMBER: str(place.status)},
        "creation": {STRING: place.creation},
    }


def is_waiting_at(item: Mapping[str, Any], name: str, number: int) -> bool:
    """Return whether a stored row is that of a task that waits at this place: it has not ended, or entered again."""
    return (
        "turn_due_time" in item
        and item.get("group") == {STRING: name}
        and item.get("group_number") == {NUMBER: str(number)}
    )


def data_in(text: str, name: str) -> dict[str, Any]:
    """Return the data of a group from its stored text."""
    try:
        return _dictionary(json.loads(text))
    except (TypeError, ValueError) as error:
        raise TrackerError(f"the data of group {name!r} cannot be read: {error}") from error


def _dictionary(data: object) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise TypeError(f"it is a dictionary, not {shown(data)}")
    return data


def data_text(data: object, name: str, task_id: str) -> str:
    """Return the data of a group as JSON; a ValueNotStorableError if it cannot be stored."""
    try:
        text = to_json(_dictionary(data), "it")
    except (TypeError, ValueError) as error:
        raise ValueNotStorableError(
            f"the data of group {name!r} cannot be stored: {error}", task_id=task_id, attribute="group.data"
        ) from error
    size = len(text.encode())
    if size > MAX_DATA_BYTES:
        raise ValueNotStorableError(
            f"the data of group {name!r} has {size:,} bytes as JSON, and at most {MAX_DATA_BYTES:,} are stored: keep "
            "what is large in an object store, or in a task",
            task_id=task_id,
            attribute="group.data",
            size=size,
        )
    return text
