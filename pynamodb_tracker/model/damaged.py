"""Rows with attributes that are stored otherwise than declared: they strand no task, and are no silent gaps."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.row import TaskRow, load
from pynamodb_tracker.model.serialization import Stored

__all__ = ["checked", "decidable", "load_leniently"]

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")


def load_leniently(model: type[T], data: Stored) -> T:
    """Return the stored row; where an attribute cannot be read, without it.

    Whoever hands a row on to the user calls `checked`, and whoever decides by it `decidable`.
    """
    try:
        return load(model, data)
    except Exception:  # noqa: BLE001 - whatever an attribute, the user's own ones included, makes of a value
        unread, left = dict[str, Exception](), dict(data)
        for name, attribute in model.get_attributes().items():
            stored_name = attribute.attr_name
            try:
                load(model, {stored_name: data.get(stored_name, {"NULL": True})})
            except Exception as error:  # noqa: BLE001 - as above
                unread[name] = error
                left.pop(stored_name, None)
        row = load(model, left)
        vars(row).update(_stored=data, _unread=unread)
        log.warning("%s %r cannot be read whole: %s", model.__name__, row.task_id, unread)
        return row


def checked(row: T) -> T:
    """Return a row that could be read whole; a TaskError for one that could not."""
    return _checked(row, _unread(row))


def decidable(row: T) -> T:
    """Return a row that has the attributes of the tracker's own, all readable; a TaskError for one that has not."""
    known, unread = row.get_attributes(), _unread(row)
    own = {name: unread[name] for name in unread if name in row.tracker_attributes}
    for name in row.tracker_attributes - own.keys():
        if not known[name].null and row.attribute_values.get(name) is None:
            own[name] = ValueError("it is missing")
    return _checked(row, own)


def _unread(row: TaskRow) -> Mapping[str, Exception]:
    unread: Mapping[str, Exception] = vars(row).get("_unread") or {}
    return unread


def _checked(row: T, unread: Mapping[str, Exception]) -> T:
    if unread:
        told = ", ".join(f"{name} ({error})" for name, error in unread.items())
        raise TaskError(
            f"{type(row).__name__} {row.task_id!r} cannot be read: {told} is stored otherwise than the class declares: "
            "declare it as it was, or mend the row",
            task_id=row.task_id,
        ) from next(iter(unread.values()))
    return row
