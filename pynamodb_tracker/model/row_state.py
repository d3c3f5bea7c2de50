"""A loaded row's state: its stored form, data from outside the row, and unreadable attributes."""

from collections.abc import Mapping
from typing import Any, Self

from pynamodb.attributes import AttributeContainer

from pynamodb_tracker.dynamodb.connection import Item, get_items
from pynamodb_tracker.exceptions import LockLostError, TaskError, TrackerError
from pynamodb_tracker.model.overflow import Pointer, by_key, chunk_keys, key_of_row, texts_in


class RowState:
    __slots__ = ("claimed", "closed", "data_text", "failures_whole", "stored")

    def __init__(self, stored: Item, *, closed: bool = False) -> None:
        self.stored = stored  # as loaded or last saved. Changes are found by comparing with it.
        self.claimed: tuple[Item, Mapping[str, Any]] | None = None
        """The item and its values when a run claimed it. If a value is still the same object, it has not changed."""
        self.data_text: str | None = None  # the text of `data`, from overflow chunks
        self.failures_whole = False
        self.closed = closed  # whether assignments are refused, because nothing would save them


class Unreadable:
    __slots__ = ("_raised", "error")

    def __init__(self, raised: TaskError, error: Exception) -> None:
        self._raised = raised
        self.error = error

    def exception(self) -> TaskError:
        raised = TaskError(str(self._raised), task_id=self._raised.task_id)
        raised.__cause__ = self.error
        return raised

    def __reduce__(self) -> tuple[type[Self], tuple[TaskError, Exception]]:
        """Pickle the reason as text, because PynamoDB's own exceptions cannot be pickled."""
        return type(self), (self._raised, ValueError(str(self.error)))


class ValuesWithUnreadable(dict[str, Any]):
    """Getting an unreadable value raises a TaskError."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, Unreadable):
            raise value.exception()
        return value

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


class PartialValues(ValuesWithUnreadable):
    """Getting a missing tracker attribute from a partial row raises a TaskError."""

    def __init__(self, values: Mapping[str, Any], described: str, names: frozenset[str]) -> None:
        super().__init__(values)
        self._described, self._names = described, names

    def __missing__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        raise TaskError(
            f"{self._described} was read without {name}, which its index does not project: read the task with get_task "
            "or refresh(), or let the index project all attributes",
            task_id=self.get("task_id"),
        )


class ReadableValues(ValuesWithUnreadable):
    def __init__(self, values: Mapping[str, Any], damages: Mapping[str, Exception]) -> None:
        super().__init__(values)
        self.damages = damages


def raw_value(row: AttributeContainer, name: str) -> Any:
    """Return an attribute's value in memory, or None, without raising."""
    return dict.get(row.attribute_values, name)


def unreadable_in(row: AttributeContainer) -> Mapping[str, Exception]:
    values = row.attribute_values
    if not isinstance(values, ValuesWithUnreadable):
        return {}
    known = values.damages if isinstance(values, ReadableValues) else {}
    return {**known, **{name: value.error for name, value in values.items() if isinstance(value, Unreadable)}}


def unreadable_error(model: type, task_id: str, found: Mapping[str, Exception]) -> TaskError:
    attributes = ", ".join(f"{name} ({error})" for name, error in found.items())
    problem = f"cannot be read: {attributes}. Declare the attribute as it is stored, or correct the row"
    return TaskError(f"{model.__name__} {task_id!r} {problem}", task_id=task_id)


def mark_unreadable(row: AttributeContainer, name: str, raised: TaskError, error: Exception) -> None:
    if not isinstance(row.attribute_values, ValuesWithUnreadable):
        vars(row)["attribute_values"] = ValuesWithUnreadable(row.attribute_values)
    row.attribute_values[name] = Unreadable(raised, error)


def read_data(row: Any, pointer: Pointer) -> str:
    """Read a row's data from its chunks, or raise LockLostError if it was written again."""
    key, connection = key_of_row(row), row.tracker.connection()
    texts = texts_in(by_key(get_items(connection, chunk_keys(key, pointer))), {key: pointer})
    if texts:
        return texts[key]
    described = f"the data of {type(row).__name__} {row.task_id!r}"
    now = next(get_items(connection, [row.tracker.key(row.task_id)]), {})
    if pointer.stored() == now.get("data"):
        raise TrackerError(f"{described} is incomplete: an overflow chunk is missing")
    problem = "was written again since this row was read: read it again. A run with this error has lost its lock"
    raise LockLostError(f"{described} {problem}", task_id=row.task_id)
