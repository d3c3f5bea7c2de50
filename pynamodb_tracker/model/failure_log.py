"""The last failures of a task: the newest in the row, cut to fit; all of them beside it where the row has no room."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.constants import LIST, MAP

from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.failure import Failure, from_map, to_map
from pynamodb_tracker.model.overflow import ERRORS, Pointer

__all__ = ["ErrorsAttribute", "PointerAttribute", "fits", "for_row", "in_row", "text_of"]

MAX_FAILURES = 10
"""How many failures of a task are kept, the newest ones."""

MAX_BYTES = 500
"""How many bytes of failures a row keeps: every write of a task costs its whole row, per started KB."""

_POINTER = 150
"""Bytes of a pointer to what lies beside the row, its name included."""

_MESSAGE = 200
_OLDER_MESSAGE = 40
_LEAST_TRACEBACK = 60

log = logging.getLogger("pynamodb_tracker")


class PointerAttribute(Attribute[Pointer]):
    """Where something lies beside the row."""

    attr_type = MAP

    def serialize(self, value: Pointer) -> Any:
        """Return the stored map."""
        return value.stored()[MAP]

    def deserialize(self, value: Mapping[str, Any]) -> Pointer:
        """Return the pointer."""
        return Pointer.loaded(value)


class ErrorsAttribute(Attribute[list[Failure]]):
    """The last failures of a task, oldest first, as a list of maps."""

    attr_type = LIST

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Return the failures of a row, none where it has none; what lies beside it is read when first asked for."""
        if instance is None:
            return self
        pointer = self.unread(instance)
        if pointer is not None:
            try:
                self.fill(instance, instance.tracker.read_beside(instance, ERRORS, pointer))
            except TrackerError as moved:
                log.warning("only the newest errors are shown: %s", moved)
        return in_row(instance)

    def unread(self, instance: Any) -> Pointer | None:
        """Return where the failures beside a row lie; None where there are none, or they are read."""
        pointer: Pointer | None = instance.attribute_values.get("errors_beside")
        return None if vars(instance).get("_errors_whole") else pointer

    def fill(self, instance: Any, text: str) -> None:
        """Give a row the failures that lie beside it."""
        beside = [from_map(entry) for entry in json.loads(text)]
        later = _after(beside[-1], in_row(instance))
        vars(instance).update(_errors_whole=True, _errors_later=len(later))
        instance.attribute_values["errors"] = [*beside, *later][-MAX_FAILURES:]

    def serialize(self, value: Sequence[Failure]) -> list[dict[str, Any]]:
        """Return the stored list of a row that has nothing beside it."""
        return for_row(value, beside=False)

    def deserialize(self, value: Sequence[Mapping[str, Any]]) -> list[Failure]:
        """Return the failures; an entry that lacks a field, from an older version, reads it as empty."""
        return [from_map(entry) for entry in value]


def in_row(instance: Any) -> list[Failure]:
    """Return the failures that are at hand, without a request."""
    failures: list[Failure] = instance.attribute_values.get("errors") or []
    return failures


def for_row(failures: Sequence[Failure], *, beside: bool) -> list[dict[str, Any]]:
    """Return what a row stores: the newest with its traceback, as many older ones as the bounds allow without.

    Where all of them lie `beside` the row, the pointer takes a part of the room.
    """
    most = MAX_BYTES - _POINTER if beside else MAX_BYTES
    newest = [to_map(failure, message=_MESSAGE, traceback=0) for failure in failures[-1:]]
    older = [to_map(failure, message=_OLDER_MESSAGE, traceback=0) for failure in failures[-MAX_FAILURES:-1]]
    room = most - sum(map(_size, newest)) - _LEAST_TRACEBACK
    kept: list[dict[str, Any]] = []
    for entry in reversed(older):
        room -= _size(entry)
        if room < 0:
            break
        kept.insert(0, entry)
    if newest and failures[-1].traceback:
        used = sum(map(_size, kept + newest)) + len("traceback")
        newest = [to_map(failures[-1], message=_MESSAGE, traceback=max(most - used, _LEAST_TRACEBACK))]
    return kept + newest


def fits(instance: Any, failures: Sequence[Failure]) -> bool:
    """Tell whether the row has room for all of these that do not lie beside it already, none of them cut."""
    own = vars(instance)
    pending = failures[-1 - own["_errors_later"] :] if own.get("_errors_whole") else failures
    beside = instance.attribute_values.get("errors_beside") is not None
    kept = ErrorsAttribute().deserialize(for_row(failures, beside=beside))
    return list(pending) == kept[-len(pending) :]


def _after(last: Failure, row: Sequence[Failure]) -> list[Failure]:
    """Return the failures in a row that are later than the last one beside it; all, where the row has cut that off."""
    keys = [(failure.time, failure.step, failure.attempt, failure.type) for failure in row]
    key = (last.time, last.step, last.attempt, last.type)
    return list(row[len(keys) - keys[::-1].index(key) :] if key in keys else row)


def text_of(failures: Sequence[Failure]) -> str:
    """Return all failures that are kept as text, for beside the row."""
    return json.dumps([to_map(failure) for failure in failures[-MAX_FAILURES:]], ensure_ascii=False)


def _size(entry: Mapping[str, Any]) -> int:
    return sum(len(name) + 2 + len(next(iter(value.values())).encode()) for name, value in entry[MAP].items())
