"""An event of Lambda's and its records: what each is about, or why it cannot be told."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

from pynamodb_tracker.arguments import check_task_id, shown
from pynamodb_tracker.exceptions import TrackerError

__all__ = [
    "Record",
    "TaskId",
    "UnreadableEventError",
    "decoded_data",
    "described",
    "json_body",
    "read_task_id",
    "whole",
]

log = logging.getLogger("pynamodb_tracker")

TaskId = str | Callable[[Any], str]
"""Where a payload has the task id: a path of keys with dots between them, or a function that returns it."""


class UnreadableEventError(TrackerError, ValueError):
    """An event or a record is not what the handler expects; the same one again would be no better."""


@dataclass(frozen=True, slots=True)
class Record:
    """A part of an event that is about one task."""

    content: Any
    """What the trigger delivered, as it came."""
    name: str = ""
    """What the trigger calls it in its answer: a message id, or a sequence number."""
    group: str | None = None
    """The message group within which the order is kept."""


def read_task_id(where: TaskId, payload: object) -> str:
    """Return the task id that a payload has in that place; UnreadableEventError where it has none."""
    found = by_function("task_id", where, payload) if callable(where) else _at(where, payload)
    try:
        return check_task_id(found)
    except (TypeError, ValueError) as error:
        raise UnreadableEventError(f"a task id is text of 1 to 1024 bytes, and this is {described(found)}") from error


def by_function(name: str, function: Callable[[Any], Any], given: object) -> Any:
    """Return what a function of the user's makes of what it is given; UnreadableEventError where it raises."""
    try:
        return function(given)
    except UnreadableEventError:
        raise
    except Exception as error:  # its message may show a value
        log.debug("%s raised", name, exc_info=True)
        raise UnreadableEventError(
            f"{name} raised {type(error).__name__} for {described(given)}; its message is in the log at the level DEBUG"
        ) from error


def _at(path: str, payload: object) -> object:
    """Return what lies at a path of keys."""
    found = payload
    for key in path.split("."):
        if not (isinstance(found, Mapping) and key in found):
            raise UnreadableEventError(f"there is no {key!r} of {path!r} in {described(found)}")
        found = found[key]
    return found


def described(value: object) -> str:
    """Return what a log may tell of a payload: its shape, for its values may be nobody's business."""
    if isinstance(value, Mapping):
        return f"an object with {shown(sorted(map(str, value)))}" if value else "an empty object"
    size = f" of length {len(value)}" if isinstance(value, Sized) else ""
    return f"a {type(value).__name__}{size}"


def whole(record: Any) -> Any:
    """Return the record itself."""
    return record


def json_body(record: Mapping[str, Any]) -> Any:
    """Return the body of a message, which is JSON."""
    return json.loads(record["body"])


def decoded_data(record: Mapping[str, Any]) -> Any:
    """Return the data of a record of Kinesis, which is JSON."""
    return json.loads(base64.b64decode(record["kinesis"]["data"], validate=True))
