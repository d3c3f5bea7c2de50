"""The last failures of a task: short entries in the row and, if they do not fit, the complete failures in a log item.

The log item is written after the status change, and not together with it. A crash in between loses a traceback; the
short entry in the row stays.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.constants import BINARY, BOOLEAN, LIST, MAP, STRING

from pynamodb_tracker import strict_json
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model.failure import Failure, cut, from_map, to_map
from pynamodb_tracker.model.overflow import CHUNK, VERSION, life_of
from pynamodb_tracker.model.row_state import read_failure_log, readable_value

log = logging.getLogger("pynamodb_tracker")

MAX_FAILURES = 10
"""How many failures of a task are kept, the newest ones."""

MAX_BYTES = 500
"""How many bytes of failures a row keeps; few, because every write of a task is charged for its whole row."""

MAX_BYTES_IF_LOGGED = 350
"""The same if the log item has all of them, so that failing tasks stay below 1 KB for longer."""

_LOGGED = "logged"
"""Marks the newest entry of a row if the complete failures are in the log item."""

_MESSAGE = 200
_OLDER_MESSAGE = 40
_LEAST_TRACEBACK = 60


class ErrorsAttribute(Attribute[list[Failure]]):
    """The last failures of a task, oldest first, as a list of maps."""

    attr_type = LIST

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Return the failures of a row, an empty list if it has none; the log item is read on first use."""
        if instance is None:
            return self
        if needs_log(instance):
            fill(instance, read_failure_log(instance))
        return instance.attribute_values.get("errors") or []

    def serialize(self, value: Sequence[Failure]) -> list[dict[str, Any]]:
        """Return the stored list of a row that has no log item."""
        return _entries(value, MAX_BYTES) if value else []

    def deserialize(self, value: Sequence[Mapping[str, Any]]) -> list[Failure]:
        """Return the failures; a field that an entry from an older version lacks is empty."""
        return [from_map(entry) for entry in value]


def failures_in_row(instance: Any) -> list[Failure]:
    """Return the failures that are in memory, without a request; none if they cannot be read."""
    failures: list[Failure] = readable_value(instance, "errors") or []
    return failures


def has_log(instance: Any) -> bool:
    """Return whether the row, as it was loaded, refers to a log item."""
    entries = instance._row_state.stored.get("errors", {}).get(LIST, ())
    return any(_LOGGED in entry.get(MAP, ()) for entry in entries)  # a reopen appends its entry after the marked one


def needs_log(instance: Any) -> bool:
    """Return whether the failures in memory are truncated, and the log item has not been read."""
    return (
        not instance._row_state.failures_whole and readable_value(instance, "errors") is not None and has_log(instance)
    )


def fill(instance: Any, item: Item | None) -> None:
    """Give a row the failures of its log item, unless an earlier task of that id has left it; None if there is none."""
    logged: list[Failure] = []
    problem: object = "it is missing"
    create_time: datetime | None = readable_value(instance, "create_time")  # None in a part of a row
    life = life_of(create_time) if create_time is not None else ""
    try:
        if item is not None and item[VERSION][STRING].startswith(life):
            logged, problem = unpacked(item), None
    except Exception as error:  # noqa: BLE001 - another program may have put anything there
        problem = repr(error)
    if problem is not None:
        name = type(instance).__name__
        log.warning(
            "only the newest errors of %s %r are shown, not their log item: %s",
            name,
            instance.task_id,
            problem,
            extra=log_fields(instance.use_case_id, task_id=instance.task_id),
        )
    known = {_key(failure) for failure in logged}
    later = [failure for failure in failures_in_row(instance) if _key(failure) not in known]
    if later:
        logged, later[0] = without_repeated(logged, later[0], count=later[0].count)
    instance.attribute_values["errors"] = [*logged, *later][-MAX_FAILURES:]
    instance._row_state.failures_whole = True


def for_row(failures: Sequence[Failure], *, has_log: bool = False) -> tuple[list[dict[str, Any]], bool]:
    """Return what a row stores, and whether the complete failures have to be in the log item: some do not fit.

    If the row `has_log` already, they have to be there in any case.
    """
    if not has_log:
        entries = _entries(failures, MAX_BYTES)
        if list(failures) == [from_map(entry) for entry in entries]:
            return entries, False
    entries = _entries(failures, MAX_BYTES_IF_LOGGED)
    entries[-1][MAP][_LOGGED] = {BOOLEAN: True}
    return entries, True


def _entries(failures: Sequence[Failure], most: int) -> list[dict[str, Any]]:
    """Return the newest failure with its traceback, and older ones without while there is room in so many bytes."""
    *older, newest = failures[-MAX_FAILURES:]
    entry = to_map(newest, message=_MESSAGE, traceback=0)
    entries, room = [entry], most - _size(entry)
    for each in reversed(older):
        shorter = to_map(each, message=_OLDER_MESSAGE, traceback=0)
        size = _size(shorter)
        if room - size < _LEAST_TRACEBACK:
            break
        entries.insert(0, shorter)
        room -= size
    if newest.traceback:
        left = max(room - len("traceback"), _LEAST_TRACEBACK)
        entry[MAP]["traceback"] = {STRING: cut(newest.traceback, left)}
    return entries


def packed(failures: Sequence[Failure]) -> bytes:
    """Return the newest failures as compressed JSON, for the log item."""
    text = strict_json.dumps([to_map(failure) for failure in failures[-MAX_FAILURES:]], ensure_ascii=False)
    return zlib.compress(text.encode())


def unpacked(item: Item) -> list[Failure]:
    """Return the failures of a log item."""
    return [from_map(entry) for entry in json.loads(zlib.decompress(item[CHUNK][BINARY]))]


def without_repeated(
    failures: Sequence[Failure], postponed: Failure, *, count: int | None = None
) -> tuple[list[Failure], Failure]:
    """Return the failures without the newest one if it is a postponement for the same reason, and that with a count."""
    before = failures[-1] if failures else None
    if before is None or count == 1 or _reason(before) != _reason(postponed):
        return list(failures), postponed
    return list(failures[:-1]), replace(postponed, count=count or before.count + 1)


def _reason(failure: Failure) -> tuple[str, str, str]:
    """Return what two postponements have in common; a row has no more of a message than this."""
    return failure.step, failure.type, cut(failure.message, _MESSAGE)


def _key(failure: Failure) -> tuple[object, ...]:
    """Return what identifies a failure, truncated or not."""
    return failure.time, failure.step, failure.attempt, failure.type, failure.count


def _size(entry: Mapping[str, Any]) -> int:
    return sum([len(name) + 2 + len(next(iter(value.values())).encode()) for name, value in entry[MAP].items()])
