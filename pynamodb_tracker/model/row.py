"""A task's row, and the index on its status."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from copy import copy
from datetime import datetime
from enum import Enum
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from pynamodb.attributes import Attribute, TTLAttribute, UnicodeAttribute
from pynamodb.connection.table import TableConnection
from pynamodb.constants import BOOLEAN, LIST, MAP, STRING, STRING_SET
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection
from pynamodb.models import Model

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.exceptions import TaskFormatError
from pynamodb_tracker.model import codecs, strict_json
from pynamodb_tracker.model.cancelled import CancelledAttribute
from pynamodb_tracker.model.codecs import PendingRequest
from pynamodb_tracker.model.data import DataAttribute
from pynamodb_tracker.model.failure_log import ErrorsAttribute
from pynamodb_tracker.model.recent_ends import End, decode_ends, encode_ends
from pynamodb_tracker.model.row_state import (
    PartialValues,
    ReadableValues,
    RowState,
    ValuesWithUnreadable,
    mark_unreadable,
    raw_value,
    unreadable_error,
    unreadable_in,
)
from pynamodb_tracker.model.schema import Schema
from pynamodb_tracker.model.serialization import Coded, IntegerAttribute, TimeAttribute, TokenAttribute, serialized
from pynamodb_tracker.model.signals import ReceivedSignal, decode_signals, encode_signals
from pynamodb_tracker.model.status import Status, end_of
from pynamodb_tracker.model.worker_name import this_worker

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import LastRun, Repeat

FORMAT = 1
LATEST_FORMAT = 1  # transitions refuse rows with a later format
keeps_expired: ContextVar[bool] = ContextVar("pynamodb_tracker_keeps_expired", default=False)
"""Whether expired rows count, so that a repeated event does not rerun a task."""

OF_ROUND = frozenset({"first_failure", "checkpoints", "missed_signals", "skipped_steps", "postpone_count"})
"""Attributes that starting the task over removes."""


class StatusIndex(GlobalSecondaryIndex["TaskRow"]):  # type: ignore[no-untyped-call]  # PynamoDB's hook is untyped
    """Tasks by use case and state, in the order in which they need attention."""

    class Meta:
        """Few attributes, so that a status change costs the same for any size of row."""

        index_name = "status-index"
        projection = IncludeProjection(["status", "attempt", "create_time", "update_time", "last_error"])

    status_key = UnicodeAttribute(hash_key=True)
    due_time = TimeAttribute(range_key=True)


class GroupAttribute(UnicodeAttribute):
    """Called on a class, as in `Order.group("a")`, it opens a group."""

    model: Any = None

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is not None:
            return super().__get__(instance, owner)
        attribute = copy(self)
        attribute.model = owner
        return attribute

    def __call__(self, name: str) -> Any:
        return self.model._open_group(name)  # noqa: SLF001 - Task provides this for the attribute


class TaskRow(Model):
    """The attributes of every task. A use case declares `use_case_id` as a UseCase."""

    task_id = UnicodeAttribute(hash_key=True)
    """Any text of 1 to 1024 bytes, unique within the use case."""
    use_case_id = UnicodeAttribute(range_key=True)
    status = IntegerAttribute()
    status_key = UnicodeAttribute(null=True)
    """Use case, code and shard. None if the task has succeeded and is not indexed."""
    due_time = TimeAttribute()
    """When the task may start, when its claimed lock expires, or when it ended."""
    create_time = TimeAttribute()
    update_time = TimeAttribute()
    """When the status last changed."""
    creation = TokenAttribute()
    """A repeated create recognizes its own row by it."""
    attempt = IntegerAttribute()
    """At the current step, or 0 after a success."""
    fence = IntegerAttribute()
    """How often the task was claimed. It only grows until the task is deleted."""
    lock = TokenAttribute(null=True)
    """The last claim's or command's token. It is never removed."""
    lock_expire_time = TimeAttribute(null=True)
    worker = cast("Attribute[str | None]", UnicodeAttribute(null=True))
    unfinished: Coded[list[int]] = Coded(LIST, codecs.encode_numbers, codecs.decode_numbers, null=False)
    """Fences of claims that never finished. They show whether a finish was applied."""
    release_count = IntegerAttribute(null=True)
    """Releases that used no attempt, since the last success or reopen."""
    postpone_count = IntegerAttribute(null=True)
    first_failure = UnicodeAttribute(null=True)
    """Time, step number and round of the first failure at a step with `give_up_after`."""
    saves = IntegerAttribute(null=True)
    """The current run's saves."""
    data = DataAttribute()
    errors = ErrorsAttribute(null=True)
    last_error = cast("Attribute[str | None]", UnicodeAttribute(null=True))
    cancelled = CancelledAttribute()
    format_version = IntegerAttribute(attr_name="v")
    round = TokenAttribute(null=True)
    """The token from the last start over, if any."""
    checkpoints: Coded[dict[str, str]] = Coded(MAP, codecs.encode_parts, codecs.decode_parts)
    skipped_steps: Coded[list[int]] = Coded(LIST, codecs.encode_numbers, codecs.decode_numbers)
    queued: Coded[PendingRequest | None] = Coded(MAP, PendingRequest.stored, PendingRequest.read)
    request_count = IntegerAttribute(null=True)
    request_tokens: Coded[list[str]] = Coded(LIST, codecs.encode_texts, codecs.decode_texts)
    """Tokens from the last writes by `create_or_merge`, which show whether one was applied."""
    creator = UnicodeAttribute(null=True)
    """A reference to the task whose run created this one."""
    parent = UnicodeAttribute(null=True)
    """A reference to the task that waits for this one's success."""
    blockers = IntegerAttribute(null=True)
    """How many children it waits for, plus one for its turn in the group."""
    awaited_signals: Coded[frozenset[str]] = Coded(STRING_SET, sorted, frozenset)
    signals: Coded[Mapping[str, ReceivedSignal]] = Coded(MAP, encode_signals, decode_signals)
    join_token = TokenAttribute(null=True)
    """The claim that created the children that it waits for, or waited for last."""
    missed_signals: Coded[frozenset[str]] = Coded(STRING_SET, sorted, frozenset)
    """Signals that this round has done without."""
    wait_until = cast("Attribute[datetime | None]", TimeAttribute(null=True))
    """When it starts even without the successes or signals that it waits for."""
    group = GroupAttribute(null=True)
    group_number = IntegerAttribute(null=True)
    """The position in the group. A reopen after its end gives it a new one."""
    turn_due_time = cast("Attribute[datetime | None]", TimeAttribute(null=True))
    """When it may start once it has its turn, while it waits for that."""
    repeat: Coded[Repeat | None] = Coded(STRING, methodcaller("to_json"), codecs.decode_rule)
    occurrence: Coded[datetime | None] = Coded(STRING, datetime.isoformat, clock.parse)
    """The occurrence for which the task is due, in the rule's zone."""
    occurrence_count = IntegerAttribute(null=True)
    extra_time = cast("Attribute[datetime | None]", TimeAttribute(null=True))
    """When the task runs early, before its occurrence."""
    last_run: Coded[LastRun | None] = Coded(STRING, methodcaller("stored"), codecs.decode_last_run)
    recent_ends: Coded[list[End] | None] = Coded(STRING, encode_ends, decode_ends)
    urgent: Coded[bool | None] = Coded(BOOLEAN, bool, bool)
    trace: Coded[dict[str, str] | None] = Coded(STRING, strict_json.dumps, codecs.decode_trace)
    expire_time = cast("Attribute[datetime | None]", TTLAttribute(null=True))

    status_index = StatusIndex()

    tracker: ClassVar[Schema]
    tracker_attributes: ClassVar[frozenset[str]]
    """Only transitions write them."""
    _bound_steps: ClassVar[Mapping[str, Any]] = {}
    _states: ClassVar[Mapping[int, Any]] = {}
    _row_state: RowState = RowState({})

    if TYPE_CHECKING:

        @property
        def state(self) -> object:
            """The task's state, as `Task.state` returns it."""

    @property
    def waits_for(self) -> str | None:
        """What the task waits for, such as "3 tasks, or until 2026-01-31 12:00:00 UTC", or None."""
        waits, awaits = self.blockers, self.awaited_signals
        due_time: datetime | None = self.due_time
        is_pending = self.tracker.status_of(self.status) is Status.PENDING
        if not ((waits or awaits) and due_time and is_pending and due_time > clock.now()):
            return None
        parts = []
        if self.turn_due_time is not None:
            waits -= 1
            parts.append(f"its turn in group {self.group}")
            if not (waits or awaits):
                return parts[0]
        if awaits:
            parts.append(f"{'the signal' if len(awaits) == 1 else 'the signals'} {' and '.join(sorted(awaits))}")
        if waits:
            parts.append(f"{waits} {'task' if waits == 1 else 'tasks'}")
        until = "" if due_time == clock.NEVER else f", or until {clock.in_words(due_time)}"
        return f"{' and for '.join(parts)}{until}"

    def redact(self, text: str) -> str:
        r"""Override this to remove secrets from messages and tracebacks before they are stored in `errors`.

        It gets the whole text, or its beginning and end if that has more than 100,000 characters. If it raises or does
        not return text, the text is withheld.

        Examples:
            >>> def redact(self, text):
            ...     return re.sub(r"\d{16}", "****", text)
        """
        return text

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Self:
        """Return the row in its use case's class, or else in the table's class."""
        model: type[TaskRow] = cls
        if "use_case_id" in data:  # unless the caller asked for only some attributes
            table = cls.tracker.table
            model = table.use_cases.get(data["use_case_id"]["S"], table.owner)  # type: ignore[assignment]
        row = load(model, data)
        if row._states and not data.keys() >= _STORED_IN_EVERY_ROW:  # noqa: SLF001 - a use case's row
            described = f"{model.__name__} {raw_value(row, 'task_id')!r}"
            vars(row)["attribute_values"] = PartialValues(row.attribute_values, described, cls.tracker_attributes)
        return row  # type: ignore[return-value]

    def deserialize(self, attribute_values: Item) -> None:
        """Fill this instance. Accessing an attribute that does not match raises a TaskError."""
        values: dict[str, Any] = {}
        vars(self).update(attribute_values=values, _row_state=RowState(attribute_values, closed=self._row_state.closed))
        plan = self.tracker.loading
        absent = sorted(self.tracker.stored_with_default - attribute_values.keys())
        for stored_name in (*attribute_values, *absent):
            if stored_name not in plan:
                continue
            name, attribute, plain = plan[stored_name]
            stored = attribute_values.get(stored_name)
            try:
                if stored is not None and ("NULL" not in stored or name in self.tracker_attributes):
                    value = attribute.deserialize(attribute.get_value(stored))
                    if plain:
                        values[name] = value
                    else:  # maps and times to live convert the value
                        attribute.__set__(self, value)
                elif attribute.default is not None:
                    self._set_default(name, attribute)
            except Exception as error:  # from a user's attribute
                if self._can_be_read(name, stored, attribute):
                    raise  # for example from a signal handler
                task_id = attribute_values.get("task_id", {}).get("S", "")
                mark_unreadable(self, name, unreadable_error(type(self), task_id, {name: error}), error)
                values = self.attribute_values

    def _can_be_read(self, name: str, stored: dict[str, Any] | None, attribute: Attribute[Any]) -> bool:
        try:
            if stored is not None:
                attribute.__set__(self, attribute.deserialize(attribute.get_value(stored)))
            else:
                self._set_default(name, attribute)
        except Exception:  # noqa: BLE001 - as above
            return False
        return True

    def _set_default(self, name: str, attribute: Attribute[Any]) -> None:
        """Set a default, which counts as loaded, because no block has assigned it."""
        attribute.__set__(self, attribute.default() if callable(attribute.default) else attribute.default)
        if (value := serialized(self, name, attribute)) is not None:
            self._row_state.stored = {**self._row_state.stored, attribute.attr_name: value}

    @classmethod
    def _get_connection(cls) -> TableConnection:
        return cls.tracker.connection()


TaskRow.tracker_attributes = frozenset(TaskRow.get_attributes()) - {"data"}
TaskRow.tracker = Schema(TaskRow, None)
_REQUIRED = tuple(name for name, attribute in TaskRow.get_attributes().items() if not attribute.null)
_STORED_IN_EVERY_ROW = frozenset(TaskRow.get_attributes()[name].attr_name for name in _REQUIRED)

_REQUIRED_WITH = {  # attributes that come together
    "queued": ("request_count",),
    "group": ("group_number",),
    "turn_due_time": ("group", "blockers"),
}

_REQUIRED_IN_PROGRESS = ("lock", "lock_expire_time")
_IN_CLAIMED_ROW = frozenset(_REQUIRED).union(_REQUIRED_IN_PROGRESS, ("status_key",))

T = TypeVar("T", bound=TaskRow)


def load(model: type[T], item: Item) -> T:
    row = model.__new__(model)
    row.deserialize(item)
    return row


class Membership(Enum):
    NONE = "none"
    TURN = "turn"  # it is due, running, or waiting for a retry
    QUEUE = "queue"
    QUEUE_AND_OTHERS = "queue and others"  # it waits for its turn and for other tasks
    ENDED = "ended"


def membership_of(row: TaskRow) -> Membership:
    if row.group is None:
        return Membership.NONE
    if row.turn_due_time is not None:
        return Membership.QUEUE if row.blockers == 1 else Membership.QUEUE_AND_OTHERS
    return Membership.ENDED if row.tracker.ends_at(row.status) else Membership.TURN


def is_beyond_limit(row: TaskRow) -> bool:
    """Return whether a task that has its group's turn is parked forever, although its wait has a limit."""
    has_turn = row.group is not None and row.turn_due_time is None and row.wait_until is not None
    return has_turn and row.due_time == clock.NEVER and row.tracker.status_of(row.status) is Status.PENDING


def has_later_format(row: TaskRow) -> bool:
    return (row.format_version or 0) > LATEST_FORMAT


def has_expired(row: TaskRow) -> bool:
    """Return whether a row is past its time to live. DynamoDB deletes it up to days later."""
    expire_time: datetime | None = readable(row).expire_time
    return expire_time is not None and expire_time <= clock.now()


def may_expire(row: TaskRow) -> bool:
    """Return whether time to live applies to an ended task. A repeating task or a child must stay."""
    return not {"repeat", "parent"} & row._row_state.stored.keys()


def later_format_error(row: TaskRow, operation: str) -> TaskFormatError:
    return TaskFormatError(
        f"cannot {operation} {type(row).__name__} {row.task_id!r}: a later version of pynamodb_tracker wrote it in "
        f"format {row.format_version}, but this version knows formats up to {LATEST_FORMAT}. Install that version",
        task_id=row.task_id,
        task=row,
    )


def unknown_rule_error(row: TaskRow, error: Exception) -> TaskFormatError:  # maybe only this machine cannot read it
    return TaskFormatError(
        f"cannot read {type(row).__name__} {row.task_id!r} on {this_worker()}: repeat ({error}). No attempt was "
        "counted. Install newer time zone data here (pip install tzdata), or the version of pynamodb_tracker that "
        "wrote the rule. If no machine can read it, correct the row",
        task_id=row.task_id,
        task=readable(row),
    )


def readable(row: T) -> T:
    """Return the row, or a copy without unreadable tracker attributes."""
    values = row.attribute_values
    if not isinstance(values, ValuesWithUnreadable) or isinstance(values, ReadableValues):
        return row
    damages = {name: error for name, error in unreadable_in(row).items() if name in row.tracker_attributes}
    left = {name: value for name, value in values.items() if name not in damages}
    view = copy(row)
    vars(view)["attribute_values"] = ReadableValues(left, damages)
    return view


def check_tracker_attributes(row: T) -> T:
    """Return the row if all tracker attributes can be read, or raise TaskError.

    TaskFormatError means that other programs may be able to read it.
    """
    names = row.attribute_values.keys()
    if type(row.attribute_values) is dict and names >= _IN_CLAIMED_ROW and names.isdisjoint(_REQUIRED_WITH):
        return row  # almost every claimed row is complete and readable
    found = damages_of(row)
    if damaged := {name: error for name, error in found.items() if name in row.tracker_attributes}:
        if has_later_format(row):
            raise later_format_error(row, "read")
        if damaged.keys() == {"repeat"}:
            raise unknown_rule_error(row, damaged["repeat"]) from damaged["repeat"]
        raise unreadable_error(type(row), row.task_id, damaged) from next(iter(damaged.values()))
    return row


def damages_of(row: TaskRow) -> dict[str, Exception]:
    found = dict(unreadable_in(row))
    row = readable(row)
    needed, values, status = list(_REQUIRED), row.attribute_values, row.status
    if end_of(status) != "succeeded":  # queries would not find it
        needed.append("status_key")
    for name, others in _REQUIRED_WITH.items():
        if name in values:
            needed += others
    if row.tracker.status_of(status) is Status.IN_PROGRESS:
        needed += _REQUIRED_IN_PROGRESS
    for name in needed:
        if name not in values:
            found.setdefault(name, ValueError("it is missing"))
    return found
