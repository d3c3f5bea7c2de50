"""What the library remembers of a loaded row: its stored form, what was read off-row, and what cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pynamodb.attributes import AttributeContainer

from pynamodb_tracker.dynamodb.connection import Item, get_items
from pynamodb_tracker.exceptions import LockLostError, TaskError, TrackerError
from pynamodb_tracker.model.overflow import Pointer, by_key, chunk_keys, log_key, texts_in


class RowState:
    """The state of one row in memory."""

    __slots__ = ("claimed", "closed", "data_text", "failures_whole", "stored")

    def __init__(self, stored: Item, *, closed: bool = False) -> None:
        self.stored = stored
        """The item as it was loaded or last saved; changes are found by comparing with it."""
        self.claimed: tuple[Item, Mapping[str, Any]] | None = None
        """The item and its values as a run has claimed them: a value that is still the same object has not changed."""
        self.data_text: str | None = None
        """The text of `data` that was read from overflow chunks."""
        self.failures_whole = False
        """Whether the log item of the failures was read."""
        self.closed = closed
        """Whether assignments are refused, because nothing would save them."""


class Unreadable:
    """Stands for the value of an attribute whose stored form does not match its declaration."""

    __slots__ = ("_raised", "error")

    def __init__(self, raised: TaskError, error: Exception) -> None:
        self._raised = raised
        self.error = error
        """Why it cannot be read."""

    def exception(self) -> TaskError:
        """Return the error for one access to the attribute."""
        raised = TaskError(str(self._raised), task_id=self._raised.task_id)
        raised.__cause__ = self.error
        return raised

    def __reduce__(self) -> tuple[type[Unreadable], tuple[TaskError, Exception]]:
        """Pickle the reason as text: PynamoDB's own exceptions cannot be pickled."""
        return type(self), (self._raised, ValueError(str(self.error)))

    def __repr__(self) -> str:
        return f"<unreadable: {self.error}>"


class ValuesWithUnreadable(dict[str, Any]):
    """The attribute values of a row, some of which cannot be read: getting one of these raises a TaskError."""

    def __getitem__(self, name: str) -> Any:
        """Return a value; raise for an unreadable one."""
        value = super().__getitem__(name)
        if isinstance(value, Unreadable):
            raise value.exception()
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value or the default; raise for an unreadable one."""
        try:
            return self[name]
        except KeyError:
            return default


class PartialValues(ValuesWithUnreadable):
    """The attribute values of an item that is no whole row: getting one that it lacks raises a TaskError.

    Only the tracker's own attributes raise; the user's may well be absent.
    """

    def __init__(self, values: Mapping[str, Any], described: str, names: frozenset[str]) -> None:
        super().__init__(values)
        self._described, self._names = described, names

    def __missing__(self, name: str) -> Any:
        """Raise for an attribute that every row may have, but not every entry of an index."""
        if name not in self._names:
            raise KeyError(name)
        raise TaskError(
            f"{self._described} was read without {name}: an index has only the attributes that it projects; read the "
            "task with get_task or refresh(), or let the index project them all",
            task_id=self.get("task_id"),
        )


class ReadableValues(ValuesWithUnreadable):
    """The attribute values of a row without the tracker's own ones that cannot be read: these have no value."""

    def __init__(self, values: Mapping[str, Any], damages: Mapping[str, Exception]) -> None:
        super().__init__(values)
        self.damages = damages
        """Why they cannot be read, by attribute."""


def raw_value(row: AttributeContainer, name: str) -> Any:
    """Return the value of an attribute as it is held in memory, without raising; None if there is none."""
    return dict.get(row.attribute_values, name)


def unreadable_in(row: AttributeContainer) -> Mapping[str, Exception]:
    """Return the attributes of a row that cannot be read, and why."""
    values = row.attribute_values
    if not isinstance(values, ValuesWithUnreadable):
        return {}
    known = values.damages if isinstance(values, ReadableValues) else {}
    return {**known, **{name: value.error for name, value in values.items() if isinstance(value, Unreadable)}}


def unreadable_error(model: type, task_id: str, found: Mapping[str, Exception]) -> TaskError:
    """Return the error for attributes whose stored form does not match their declaration."""
    attributes = ", ".join(f"{name} ({error})" for name, error in found.items())
    return TaskError(
        f"{model.__name__} {task_id!r} cannot be read: {attributes}; the stored value does not match the "
        "declaration: declare the attribute as it is stored, or correct the row",
        task_id=task_id,
    )


def mark_unreadable(row: AttributeContainer, name: str, raised: TaskError, error: Exception) -> None:
    """Make every access to an attribute of a row raise that TaskError."""
    if not isinstance(row.attribute_values, ValuesWithUnreadable):
        vars(row)["attribute_values"] = ValuesWithUnreadable(row.attribute_values)
    row.attribute_values[name] = Unreadable(raised, error)


def read_data(row: Any, pointer: Pointer) -> str:
    """Read the text of a row's data from its chunks; a LockLostError if it was written again since the row was read."""
    key, connection = (row.task_id, row.use_case_id), row.tracker.connection()
    found = by_key(get_items(connection, chunk_keys(key, pointer)))
    texts = texts_in(found, {key: pointer})
    if texts:
        return texts[key]
    described = f"the data of {type(row).__name__} {row.task_id!r}"
    now = next(get_items(connection, [row.tracker.key(row.task_id)]), {})
    if pointer.stored() == now.get("data"):
        raise TrackerError(f"{described} is incomplete: at least one of its overflow chunks is missing")
    raise LockLostError(
        f"{described} was written again since this row was read: a run that gets this error has lost its lock; any "
        "other reader reads the task again",
        task_id=row.task_id,
    )


def read_failure_log(row: Any) -> Item | None:
    """Read the log item of a row's failures; None if there is none."""
    return next(get_items(row.tracker.connection(), [log_key((row.task_id, row.use_case_id))]), None)
