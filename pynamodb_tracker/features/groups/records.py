"""A group's items: its row, and a place per task that waits for its turn."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pynamodb.constants import NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.exceptions import TrackerError, ValueNotStorableError
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.data import bounded_json
from pynamodb_tracker.model.overflow import GROUP_OF, group_range_key, item_key

MAX_DATA_BYTES = 350_000
"""Bytes as JSON."""
_DIGITS = 10


class GroupRow(NamedTuple):
    turn: str | None
    """The task that has the turn."""
    last: int
    """The last number so far."""
    data: str
    """The group's data as JSON."""
    version: int
    """How often the row was written."""


class Place(NamedTuple):
    number: int
    task_id: str
    turn_due_time: datetime
    """When the task may start once it has its turn."""
    status: int
    """Its state's code, which does not change while it waits."""
    creation: str
    """Its creation token."""


def row_key(use_case: str, name: str) -> Item:
    return item_key(name, group_range_key(use_case))


def place_key(use_case: str, name: str, number: int) -> Item:
    """Return a place's stored key. Places sort by number."""
    return item_key(name, f"{_places(use_case)}{number:0{_DIGITS}d}")


def last_range_key(use_case: str) -> str:
    """Return the highest possible range key."""
    return _places(use_case) + "9" * _DIGITS


def _places(use_case: str) -> str:
    return f"{group_range_key(use_case)}##"


def parse(use_case: str, name: str, items: Iterable[Item]) -> tuple[GroupRow | None, list[Place]]:
    """Return a group's row and its places in order, without other use cases' items."""
    row, places, own, prefix = None, [], group_range_key(use_case), _places(use_case)
    try:
        for item in items:
            key = item["use_case_id"][STRING]
            if key == own:
                turn, data = item.get("turn", {STRING: None})[STRING], item.get("data", {STRING: "{}"})[STRING]
                row = GroupRow(turn, int(item["last"][NUMBER]), data, int(item["version"][NUMBER]))
            elif key.startswith(prefix):
                due_time, code = clock.parse(item["turn_due_time"][STRING]), int(item["code"][NUMBER])
                member, creation = item["member"][STRING], item["creation"][STRING]
                places.append(Place(int(key.removeprefix(prefix)), member, due_time, code, creation))
    except (KeyError, ValueError) as error:
        raise TrackerError(
            f"cannot read the group {name!r} of use case {use_case!r}. Another program has changed it: {error!r}"
        ) from error
    return row, places


def stored_place(use_case: str, name: str, place: Place) -> Item:
    return {
        **place_key(use_case, name, place.number),
        GROUP_OF: {STRING: use_case},
        "member": {STRING: place.task_id},
        "turn_due_time": {STRING: clock.stamp(place.turn_due_time)},
        "code": {NUMBER: str(place.status)},
        "creation": {STRING: place.creation},
    }


def is_waiting_at(item: Mapping[str, Any], name: str, number: int) -> bool:
    """Return whether the task in this row still waits at this place."""
    place = item.get("group"), item.get("group_number")
    return "turn_due_time" in item and place == ({STRING: name}, {NUMBER: str(number)})


def data_in(text: str, name: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise TrackerError(f"the data of group {name!r} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise TrackerError(f"the data of group {name!r} cannot be read: it must be a dictionary, not {shown(data)}")
    return data


def data_text(data: object, name: str, task_id: str) -> str:
    """Return a group's data as JSON. Raises ValueNotStorableError."""
    described, advice = f"the data of group {name!r}", "keep large values in an object store, or in a task"
    if not isinstance(data, dict):
        problem = f"{described} cannot be stored: it must be a dictionary, not {shown(data)}"
        raise ValueNotStorableError(problem, task_id=task_id, attribute="group.data")
    return bounded_json(data, "it", described, MAX_DATA_BYTES, advice, task_id=task_id, attribute="group.data")
