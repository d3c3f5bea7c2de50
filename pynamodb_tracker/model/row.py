"""The row of a task, and its index: the stored attributes, how a row is loaded, and what of it has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from pynamodb.attributes import Attribute, ListAttribute, MapAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.connection.table import TableConnection
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection
from pynamodb.models import Model

from pynamodb_tracker.model.attributes import FencesAttribute, IntegerAttribute, TimeAttribute
from pynamodb_tracker.model.data import DataAttribute
from pynamodb_tracker.model.failure_log import ErrorsAttribute, PointerAttribute
from pynamodb_tracker.model.schema import Schema
from pynamodb_tracker.model.serialization import Stored, rewritten, same, serialized

__all__ = [
    "Changes",
    "StatusIndex",
    "TaskRow",
    "changes_of",
    "close",
    "load",
    "saved",
    "stored_row",
]

Changes = Mapping[str, tuple[Attribute[Any], dict[str, Any] | None]]
"""The user's attributes that changed, by name, each with its stored form; None means to remove it."""


class StatusIndex(GlobalSecondaryIndex["TaskRow"]):  # type: ignore[no-untyped-call]  # PynamoDB's hook is untyped
    """Tasks by use case and state, in the order in which they need attention."""

    class Meta:
        """Small entries: what a status change costs must not depend on the size of the row."""

        index_name = "status-index"
        projection = IncludeProjection(["status", "attempt", "create_time", "update_time", "last_error"])

    status_key = UnicodeAttribute(hash_key=True)
    due_time = TimeAttribute(range_key=True)


class TaskRow(Model):
    """The attributes of every task; `use_case_id` is claimed by a class with a UseCase of its own."""

    task_id = UnicodeAttribute(hash_key=True)
    """Unique within its use case: any text of 1 to 1024 bytes."""
    use_case_id = UnicodeAttribute(range_key=True)
    """The stored name of the use case."""
    status = IntegerAttribute()
    """The code of the state; `state` tells it in words."""
    status_key = UnicodeAttribute()
    """The index's hash key: use case, code and shard."""
    due_time = TimeAttribute()
    """When the row next needs attention: may start from; lock ends, as claimed; or when it ended."""
    create_time = TimeAttribute()
    """When the task was created."""
    update_time = TimeAttribute()
    """When the status last changed."""
    creation = UnicodeAttribute(null=True)
    """The token of the create that made the row: a create that is repeated knows its own."""
    attempt = IntegerAttribute()
    """Attempts of the current step so far; 0 after a success."""
    fence = IntegerAttribute()
    """Claims of this task ever; it only grows."""
    lock = UnicodeAttribute(null=True)
    """The token of the last claim, or of the last order of a person; never removed."""
    lock_expire_time = TimeAttribute(null=True)
    """When the last claim's lock ends, extensions included."""
    worker = UnicodeAttribute(null=True)
    """Who claimed last: host:pid, or the id of a request to Lambda."""
    unfinished = FencesAttribute(null=True)
    """Fences of claims that never finished: how a finish finds out whether it landed."""
    saves = IntegerAttribute(null=True)
    """Number of saves of the current run, so that a late copy of one puts nothing old back."""
    data = DataAttribute()
    """The user's dictionary."""
    errors = ErrorsAttribute(null=True)
    """The last failures, oldest first, bounded in number and size; those that the row has no room for are read."""
    errors_beside = PointerAttribute(null=True)
    """Where the last failures lie whole, once the row had no room for them."""
    last_error = UnicodeAttribute(null=True)
    """The last failure on one line, for the index."""
    expire_time = TTLAttribute(null=True)
    """When the table may delete the finished task, where the use case says `keep_for`."""

    status_index = StatusIndex()

    tracker: ClassVar[Schema]
    """What the class declares, for the library; the one name that it takes from the user's for itself."""
    tracker_attributes: ClassVar[frozenset[str]]
    """The names of the attributes that only transitions write."""
    _bound_steps: ClassVar[Mapping[str, Any]] = {}
    """The steps of a use case, by name, bound to it."""
    _states: ClassVar[Mapping[int, Any]] = {}
    """The states of a use case, by code."""
    _loading: ClassVar[tuple[tuple[str, str, Attribute[Any], bool], ...] | None] = None

    if TYPE_CHECKING:

        @property
        def state(self) -> object:
            """The state of the task, as `Task.state` returns it."""

    def redact(self, text: str) -> str:
        """Return a text as it may be kept in `errors`: override it to take secrets out of messages and tracebacks.

        It gets the whole text. Where it raises or returns no text, nothing of that text is kept.
        """
        return text

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Self:
        """Return the row as an instance of the class that claims its use case, or else of the table's class."""
        if "use_case_id" not in data:  # a part of a row, which was asked for
            return load(cls, data)
        table = cls.tracker.table
        model = table.use_cases.get(data["use_case_id"]["S"], table.owner)
        return load(model, data)  # type: ignore[return-value]  # the row decides

    def deserialize(self, attribute_values: Stored) -> None:
        """Fill this instance from a stored row in one pass, and remember that row: `changes` compares with it."""
        values: dict[str, Any] = {}
        vars(self).update(
            attribute_values=values,
            _stored=attribute_values,
            _data_text=None,
            _errors_whole=False,
        )
        for name, stored_name, attribute, plain in self._loading_plan():
            stored = attribute_values.get(stored_name)
            if stored is not None and "NULL" not in stored:
                value = attribute.deserialize(attribute.get_value(stored))
                if plain:
                    values[name] = value
                else:  # maps and times-to-live turn what they are given into their own kind
                    attribute.__set__(self, value)
            elif attribute.default is not None:
                attribute.__set__(self, attribute.default() if callable(attribute.default) else attribute.default)
                if (value := serialized(self, name, attribute)) is not None:  # loaded, not assigned by anybody
                    vars(self)["_stored"] = {**stored_row(self), stored_name: value}

    @classmethod
    def _loading_plan(cls) -> tuple[tuple[str, str, Attribute[Any], bool], ...]:
        if "_loading" not in vars(cls):
            cls._loading = tuple(
                (name, attribute.attr_name, attribute, type(attribute).__set__ is Attribute.__set__)
                for name, attribute in cls.get_attributes().items()
            )
        return cls._loading or ()

    @classmethod
    def _get_connection(cls) -> TableConnection:
        """Return the connection of the table: one for all its use cases, and with it one client."""
        return cls.tracker.connection()


TaskRow.tracker_attributes = frozenset(TaskRow.get_attributes()) - {"data"}

T = TypeVar("T", bound=TaskRow)


def load(model: type[T], data: Stored) -> T:
    """Return the stored row as an instance of this class."""
    row = model.__new__(model)
    row.deserialize(data)
    return row


def stored_row(row: TaskRow) -> Stored:
    """Return the row as it was loaded or last saved."""
    stored: Stored = vars(row)["_stored"]
    return stored


def changes_of(row: TaskRow) -> Changes:
    """Return what of the user's attributes differs from the stored row; a ValueNotStorableError names the attribute."""
    before = stored_row(row)
    changed: dict[str, tuple[Attribute[Any], dict[str, Any] | None]] = {}
    for name, attribute in row.tracker.own_attributes():
        old = before.get(attribute.attr_name)
        if isinstance(attribute, DataAttribute):
            if not attribute.is_untouched(row):
                new = serialized(row, name, attribute)  # once: large data takes most of the time of a run
                if not _same_data(row, attribute, old, new):
                    changed[name] = (cast("Attribute[Any]", attribute), new)
            continue
        new = serialized(row, name, attribute, complete=False)
        if not (same(old, new) or (old is not None and same(rewritten(row, name, attribute, old), new))):
            if isinstance(attribute, ListAttribute | MapAttribute):
                new = serialized(row, name, attribute)
            changed[name] = (attribute, new)
    return changed


def _same_data(
    row: TaskRow, attribute: DataAttribute, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> bool:
    """Tell whether the dictionary is what is stored; one that was assigned over an unread one is a change."""
    if old is None or "NULL" in old or new is None:
        return (old is None or "NULL" in old) and new is None
    text = attribute.text_of(row, old)
    return text is not None and (text == new["S"] or attribute.is_rewritten(row, text, new["S"]))


def saved(row: TaskRow, changes: Changes, sent: Changes) -> None:
    """Count these changes, stored as they were sent, as what the row holds: the next `changes_of` starts from them."""
    stored = {**stored_row(row), **{attribute.attr_name: value for attribute, value in sent.values()}}
    vars(row)["_stored"] = {name: value for name, value in stored.items() if value is not None}
    if "data" in changes:
        _, value = changes["data"]
        vars(row)["_data_text"] = value and value["S"]


def close(row: TaskRow) -> None:
    """Refuse every assignment from now on: nothing would save it."""
    vars(row)["_closed"] = True
