"""Converts tasks to JSON values, for the responses of web services and Lambda functions."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pynamodb.attributes import MapAttribute
from pynamodb.constants import NUMBER

from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.data import LeftOut
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.row_state import raw_value

_TRACKERS = ("attempt", "due_time", "create_time", "update_time")
_IF_ANY = ("blockers", "waits_for", "occurrence", "urgent")


def plain_task(row: TaskRow) -> dict[str, Any]:
    found = {"task_id": row.task_id, "use_case_id": row.use_case_id, "state": str(row.state)}
    found |= {name: _to_plain(getattr(row, name)) for name in _TRACKERS}
    for name in _IF_ANY:
        if (value := getattr(row, name)) is not None:
            found[name] = _to_plain(value)
    for name, attribute in row.tracker.own_attributes.items():
        if isinstance(raw_value(row, name), LeftOut):
            continue
        value = getattr(row, name)
        try:
            found[name] = _to_plain(value)
        except TypeError:  # the user's own type, which its attribute can write
            content = attribute.serialize(value)
            found[name] = json.loads(content) if attribute.attr_type == NUMBER else _to_plain(content)
    return found


def _to_plain(value: Any) -> Any:
    if isinstance(value, MapAttribute):
        value = value.attribute_values
    if isinstance(value, Mapping):
        return {name: _to_plain(each) for name, each in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple):
        return [_to_plain(each) for each in value]
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, str | int | float):
        return strict_json.marked(value)
    raise TypeError(type(value).__name__)
