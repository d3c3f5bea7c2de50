"""Rows with attributes that are stored otherwise than declared: they strand no task, and are no silent gaps."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model import TaskRow, load
from pynamodb_tracker.stored import Stored

__all__ = ["checked", "load_leniently"]

T = TypeVar("T", bound=TaskRow)

log = logging.getLogger("pynamodb_tracker")


def load_leniently(model: type[T], data: Stored) -> T:
    """Return the stored row; with the tracker's own attributes alone, where one of the user's cannot be read.

    What the tracker decides never depends on the user's attributes; whoever hands a row on to the user calls `checked`.
    """
    try:
        return load(model, data)
    except Exception:  # noqa: BLE001 - whatever an attribute, the user's own ones included, makes of a value
        own = dict(model.tracker.own_attributes())
        names = {attribute.attr_name for attribute in own.values()}
        trackers = {name: value for name, value in data.items() if name not in names}
        row = load(model, trackers)
        unread: dict[str, Exception] = {}
        for name, attribute in own.items():
            try:
                load(model, {**trackers, attribute.attr_name: data.get(attribute.attr_name, {"NULL": True})})
            except Exception as error:  # noqa: BLE001 - as above
                unread[name] = error
        vars(row).update(_stored=data, _unread=unread)
        log.warning("%s %r cannot be read whole: %s", model.__name__, row.task_id, unread)
        return row


def checked(row: T) -> T:
    """Return a row that could be read whole; a TaskError for one that could not."""
    unread: Mapping[str, Exception] | None = vars(row).get("_unread")
    if unread is not None:
        told = ", ".join(f"{name} ({error})" for name, error in unread.items())
        raise TaskError(
            f"{type(row).__name__} {row.task_id!r} cannot be read: {told} is stored otherwise than the class declares: "
            "declare it as it was, or mend the row",
            task_id=row.task_id,
        ) from next(iter(unread.values()), None)
    return row
