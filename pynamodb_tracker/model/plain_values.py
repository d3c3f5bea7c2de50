"""Values as JSON has them, for the response of a web service or a Lambda function."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pynamodb.attributes import MapAttribute
from pynamodb.constants import NUMBER

from pynamodb_tracker import strict_json
from pynamodb_tracker.model.data import LeftOut
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.row_state import raw_value

_TRACKERS = ("attempt", "due_time", "create_time", "update_time")
"""What a caller may know of the tracker's own attributes: not who works on a task, and not what went wrong."""

_IF_ANY = ("blockers", "waits_for", "occurrence")
"""The same of a task that waits for others, or repeats."""


def plain_task(row: TaskRow) -> dict[str, Any]:
    """Return a task as JSON has it; `data` is left out if the row was read without it."""
    found = {"task_id": row.task_id, "use_case_id": row.use_case_id, "state": str(row.state)}
    found |= {name: _plain(getattr(row, name)) for name in _TRACKERS}
    for name in _IF_ANY:
        if (value := getattr(row, name)) is not None:
            found[name] = _plain(value)
    for name in row.tracker.own_attributes:
        if not isinstance(raw_value(row, name), LeftOut):
            found[name] = _plain_attribute(row, name)
    return found


def _plain_attribute(row: TaskRow, name: str) -> Any:
    value, attribute = getattr(row, name), row.tracker.own_attributes[name]
    try:
        return _plain(value)
    except TypeError:  # a value of the user's own type: its attribute knows how to write it
        content = attribute.serialize(value)
        return json.loads(content) if attribute.attr_type == NUMBER else _plain(content)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; TypeError for one of a user's own type."""
    if isinstance(value, MapAttribute):
        value = value.attribute_values
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, str | int | float):
        return strict_json.marked(value)
    raise TypeError(type(value).__name__)
