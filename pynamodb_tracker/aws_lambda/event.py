"""The content of events and their records: which task each is about, or why that cannot be read."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

from pynamodb_tracker.arguments import check_task_id, shown
from pynamodb_tracker.exceptions import TrackerError

log = logging.getLogger("pynamodb_tracker")

TaskId = str | Callable[[Any], str]
"""Where a payload has the task id: a path of keys with dots between them, or a function that returns it."""


class UnreadableEventError(TrackerError, ValueError):
    """An event or a record is not what the handler expects; delivering it again would not help."""


@dataclass(frozen=True, slots=True)
class Record:
    """The part of an event that is about one task."""

    content: Any
    """What the trigger delivered, unchanged."""
    name: str = ""
    """The id by which a batch reports it as failed: a message id, or a sequence number."""
    group: str | None = None
    """The message group within which messages are processed in order."""


def read_task_id(where: TaskId, payload: object) -> str:
    """Return the task id that a payload has there; UnreadableEventError if it has none."""
    found = call_on(payload, "task_id", where) if callable(where) else _value_at(where, payload)
    try:
        return check_task_id(found)
    except (TypeError, ValueError) as error:
        raise UnreadableEventError(f"a task id is text of 1 to 1024 bytes, not {shape_of(found)}") from error


def call_on(value: object, name: str, function: Callable[[Any], Any]) -> Any:
    """Call the user's function `name` with a value; UnreadableEventError if it raises."""
    try:
        return function(value)
    except UnreadableEventError:
        raise
    except Exception as error:  # its message may contain a value
        log.debug("%s raised", name, exc_info=True)
        raise UnreadableEventError(
            f"{name} raised {type(error).__name__} for {shape_of(value)}; its message is logged at level DEBUG"
        ) from error


def _value_at(path: str, payload: object) -> object:
    found = payload
    for key in path.split("."):
        if not (isinstance(found, Mapping) and key in found):
            raise UnreadableEventError(f"there is no key {key!r}, of the path {path!r}, in {shape_of(found)}")
        found = found[key]
    return found


def shape_of(value: object) -> str:
    """Describe a payload for the log: its shape only, because its values may be confidential."""
    if isinstance(value, Mapping):
        return f"an object with {shown(sorted(map(str, value)))}" if value else "an empty object"
    size = f" of length {len(value)}" if isinstance(value, Sized) else ""
    return f"a {type(value).__name__}{size}"


def whole_record(record: Any) -> Any:
    """Return the record itself as the payload."""
    return record


def message_body(record: Mapping[str, Any]) -> Any:
    """Return the body of an SQS message, read as JSON."""
    return json.loads(record["body"])


def kinesis_data(record: Mapping[str, Any]) -> Any:
    """Return the data of a Kinesis record, read as JSON."""
    return json.loads(base64.b64decode(record["kinesis"]["data"], validate=True))
