"""Tasks as commands show them: as rows of a table, as JSON, and grouped by error; and those that are damaged."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import typer
from pynamodb import constants as kinds
from pynamodb.attributes import Attribute, JSONAttribute, UTCDateTimeAttribute

from pynamodb_tracker import clock
from pynamodb_tracker.cli import exact_json
from pynamodb_tracker.cli.command import FOUND, name_of, one_line
from pynamodb_tracker.cli.terminal import Cell, age, between, styled, warn
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model.again import Again
from pynamodb_tracker.model.data import DataAttribute
from pynamodb_tracker.model.references import Reference, parse
from pynamodb_tracker.model.repeat import Repeat
from pynamodb_tracker.model.row import Membership, membership_of
from pynamodb_tracker.model.row_state import readable_value, unreadable_in
from pynamodb_tracker.status import Status
from pynamodb_tracker.task.task import Task

# Rows of a table.

WAITING = "waiting"
"""Names the columns of a table of tasks that wait for others."""

COLUMNS: dict[Status | str | None, tuple[str, ...]] = {
    Status.PENDING: ("task", "age", "due", "error"),
    Status.IN_PROGRESS: ("task", "attempt", "age", "lock", "worker"),
    Status.FAILED: ("task", "attempt", "age", "due", "error"),
    Status.IGNORED: ("task", "attempt", "age", "error"),
    Status.SUCCEEDED: ("task", "age"),
    WAITING: ("task", "state", "age", "waits for"),
    None: ("task", "attempt", "age", "due", "error"),
}
"""The columns of a table by the status of its tasks: what people look for depends on it."""


def row_of(status: Status | str | None, task: Task) -> list[Cell]:
    """Return the cells of a task in the columns of that status."""
    now = clock.now()
    cells: dict[str, Cell] = {
        "task": styled(task.task_id, "bold"),
        "attempt": str(task.attempt),
        "age": age(now - task.update_time),
        "due": _due(task, now),
        "lock": lock_of(task),
        "worker": task.worker or "",
        "error": task.last_error or "",
        "state": name_of(task.state),
        "waits for": task.waits_for or "",
    }
    return [cells[title] for title in COLUMNS[status]]


def _due(task: Task, now: datetime) -> Cell:
    """Return when a task may start, or after what."""
    if task.due_time == clock.NEVER:
        return f"after {task.waits_for or 'others'}"
    return between(task.due_time) if task.due_time >= now + timedelta(seconds=1) else "now"


def lock_of(task: Task) -> Cell:
    """Return when the lock of a task in progress expires, or that it has expired."""
    expires: datetime | None = task.lock_expire_time
    if expires is None:
        return ""
    return styled(f"expired {between(expires)}", "red") if is_abandoned(task) else f"expires {between(expires)}"


def is_abandoned(task: Task) -> bool:
    """Return whether a worker left the task behind: its lock has expired, and the clock margin has passed."""
    expires: datetime | None = readable_value(task, "lock_expire_time")
    in_progress = task.state.status is Status.IN_PROGRESS
    return in_progress and expires is not None and expires < clock.now() - task.tracker.margin


# Tasks as JSON, for programs and for files; `load` reads back what `export` writes.


def task_as_json(task: Task, *, with_data: bool = False) -> dict[str, Any]:
    """Return a task for programs; damaged attributes are None, and listed under `unread`."""
    unread = unreadable_in(task)
    attributes = attributes_of(task, unread, with_data=with_data)
    names = ("attempt", "fence", "create_time", "update_time", "due_time", "worker", "lock_expire_time", "expire_time")
    own = {name: readable_value(task, name) for name in (*names, "last_error")}
    own |= relations_as_json(task)
    times = {name: stamp(value) for name, value in own.items() if isinstance(value, datetime)}
    found = {"task_id": task.task_id, "state": name_of(task.state), **own, **times, "attributes": attributes}
    return found | ({"unread": {name: one_line(error) for name, error in unread.items()}} if unread else {})


def relations_as_json(task: Task) -> dict[str, Any]:
    """Return what a task has to do with other tasks and with its rule, as far as it has any of that."""
    names = (
        "group",
        "group_number",
        "starts",
        "waits",
        "waits_for",
        "wait_until",
        "occurrence",
        "occurrence_count",
        "extra_time",
        "asked",
        "trace",
    )
    found = {name: readable_value(task, name) for name in names} | {"waits_for": task.waits_for}
    found |= {"repeat": rule_of(task), "again": asked_again(task)}
    if (occurrence := found["occurrence"]) is not None:
        found["occurrence"] = occurrence.isoformat()  # on the wall clock of the rule
    for name in ("creator", "parent"):
        if (other := _referred(task, name)) is not None:
            found[name] = {"use_case": other.use_case, "task_id": other.task_id}
    return {name: value for name, value in found.items() if value is not None}


def relations_in_words(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the same for people, with a label for each."""
    if (group := readable_value(task, "group")) is not None:
        yield "group", f"{group}, {_MEMBERS[membership_of(task)]}"
    if (repeat := readable_value(task, "repeat")) is not None:
        yield "repeats", str(repeat)
        yield "occurrence", str(readable_value(task, "occurrence"))
    if (extra := readable_value(task, "extra_time")) is not None:
        yield "extra run", f"due {extra}, before its next occurrence"
    again: Again | None = readable_value(task, "again")
    if again is not None:
        if again.due_time != clock.NEVER:
            with_what = ", with " + ", ".join(again.attributes) if again.attributes else ""
            yield "asked again", f"due {stamp(again.due_time)}, after this run{with_what}"
        if again.repeat is not None:
            yield "new rule", f"{again.repeat}, after this run"
    for label, name in (("created by", "creator"), ("child of", "parent")):
        if (other := _referred(task, name)) is not None:
            yield label, f"{other.use_case} {other.task_id}"
    for name, text in (readable_value(task, "trace") or {}).items():
        yield "trace", f"{name}: {text}"


_MEMBERS = {
    Membership.NONE: "",
    Membership.TURN: "has the turn",
    Membership.QUEUE: "waits for its turn",
    Membership.QUEUE_AND_OTHERS: "waits for its turn, and for other tasks",
    Membership.ENDED: "its turn has passed",
}
"""Where a task is in its group, in words."""


def rule_of(task: Task) -> Any:
    """Return the rule by which a task repeats, as JSON has it; None if it does not repeat."""
    repeat: Repeat | None = readable_value(task, "repeat")
    return None if repeat is None else exact_json.loads(repeat.to_json())


def asked_again(task: Task) -> dict[str, Any] | None:
    """Return what was asked for while the task could not take it; None if there is nothing."""
    again: Again | None = readable_value(task, "again")
    if again is None:
        return None
    due = {} if again.due_time == clock.NEVER else {"due_time": stamp(again.due_time)}
    rule = {} if again.repeat is None else {"repeat": exact_json.loads(again.repeat.to_json())}
    return {**due, "attributes": {name: _from_stored(value) for name, value in again.attributes.items()}, **rule}


def _referred(task: Task, name: str) -> Reference | None:
    """Return the task that an attribute refers to; None if it refers to none."""
    text = readable_value(task, name)
    try:
        return None if text is None else parse(text)
    except ValueError:
        return None


def stamp(time: datetime) -> str:
    """Return a time as programs read it, in ISO 8601 and UTC."""
    return time.astimezone(UTC).isoformat()


def attributes_of(task: Task, unread: dict[str, Exception], *, with_data: bool = True) -> dict[str, Any]:
    """Return the user's attributes that have a value, as JSON; those that cannot be read are added to `unread`."""
    found = {}
    for name, attribute in task.tracker.own_attributes.items():
        is_data = isinstance(attribute, DataAttribute)
        if name in unread or (is_data and not with_data):
            continue
        try:
            value = _as_json(task, name, attribute)
        except LockLostError:  # the data was written again after the row was read
            raise
        except Exception as error:  # noqa: BLE001 - any value may be stored
            unread[name] = error
            continue
        if value is not None and (value or not is_data):
            found[name] = value
    return found


def _as_json(task: Task, name: str, attribute: Attribute[Any] | DataAttribute) -> Any:
    """Return the value of an attribute from its stored form, which has all digits of its numbers."""
    value = getattr(task, name)
    if isinstance(attribute, DataAttribute):
        text = task._row_state.data_text or task._row_state.stored.get("data", {}).get(kinds.STRING)
        return value if text is None else exact_json.loads(text)
    if value is None:
        return None
    if isinstance(attribute, UTCDateTimeAttribute):
        return stamp(value)
    stored = task._row_state.stored[attribute.attr_name]
    if isinstance(attribute, JSONAttribute):
        return exact_json.loads(stored[kinds.STRING]) if exact_json.is_text_of(attribute) else value
    return _from_stored(stored)


def _from_stored(stored: dict[str, Any]) -> Any:
    """Return a stored value as JSON: bytes as base64, sets as sorted lists."""
    ((kind, value),) = stored.items()
    match kind:
        case kinds.NUMBER:
            number = Decimal(value)
            if not number.is_finite():
                raise ValueError(f"JSON has no {value}")
            return number
        case kinds.BINARY:
            return base64.b64encode(value).decode()
        case kinds.STRING_SET | kinds.NUMBER_SET | kinds.BINARY_SET:
            return sorted(_from_stored({kind[0]: each}) for each in value)
        case kinds.LIST:
            return [_from_stored(each) for each in value]
        case kinds.MAP:
            return {name: _from_stored(each) for name, each in value.items()}
        case _:
            return None if kind == kinds.NULL else value


# Damaged tasks: those with attributes that are stored otherwise than declared.

_NOT_IN_TABLES = frozenset(
    {
        *("errors", "creation", "unfinished", "saves", "round", "again", "asked", "asked_by", "creator", "parent"),
        *("repeat", "occurrence", "occurrence_count", "extra_time", "trace", "group", "group_number", "starts"),
    }
)
"""Attributes of the tracker's own that no table shows."""


class Damaged:
    """Reports the damaged ones among the tasks that a command reads."""

    def __init__(self, *, own_too: bool) -> None:
        """With `own_too`, damage to the user's own attributes is reported as well."""
        self._own_too = own_too
        self.read = 0
        """How many tasks were read, damaged ones included."""
        self._any = False

    def reported(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Yield all the tasks, and report what cannot be read of them."""
        for task in tasks:
            self.read += 1
            unread = unreadable_in(task)
            if unread and (self._own_too or _is_hidden(task, unread)):
                self.report(task.task_id, unread)
            yield task

    def readable(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Yield the tasks that a table can show, and report the others, too."""
        return (task for task in self.reported(tasks) if not _is_hidden(task, unreadable_in(task)))

    def report(self, task_id: str, unread: Mapping[str, Exception]) -> None:
        """Print what cannot be read of a task."""
        self._any = True
        reasons = ", ".join(f"{name} ({one_line(error)})" for name, error in unread.items())
        warn(f"{task_id}  cannot be read: {reasons}")

    def exit(self) -> None:
        """Exit with 1 if a task was damaged."""
        if self._any:
            raise typer.Exit(FOUND)


def _is_hidden(task: Task, unread: Mapping[str, Exception]) -> bool:
    return not unread.keys().isdisjoint(task.tracker_attributes - _NOT_IN_TABLES)


# Groups of tasks with the same error.

_VARIES = re.compile(
    r"""
      (?P<kept>                                        # what says which error it is
          \butf-\d+\b | \b[a-z]{2}(?:-[a-z]+)+-\d\b      # an encoding; a region of AWS
        | (?:code|errno|error|exit|http|signal|status)[^\w-]{0,3}-?\d+(?!\w|[.:]\d)
        | (?<![\w.:-])[345]\d\d(?!\w|[.:]\d|\ (?:ms|sec|min|bytes|(?:milli)?seconds?|minutes?|hours?|days?)\b)
      )
    | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b  # a UUID
    | \b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?!\d)  # a time
    | (?:-?\d+\ days?,\ )?\b\d+:\d{2}(?::\d{2}(?:\.\d+)?)?\b  # a timedelta, or a time of day
    | \b(?:\d+(?:\.\d+)?\ ?(?:[mnuµ]?s|sec|[mhd]|min|(?:milli|micro)?seconds?|minutes?|hours?|days?|bytes|[kmg]i?b))+\b
    | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b             # an IP address
    | \b0x[0-9a-f]+\b
    | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b  # a hash
    | \b(?=(?:[a-z_-]*\d){3})(?=[\d_-]*[a-z])[0-9a-z_]{12,}\b  # an id that a service has given
    | (?<!\w)\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?!\w)
    | \d{4,}
    """,
    re.VERBOSE | re.IGNORECASE,
)


def error_pattern(error: str, task_id: str) -> str:
    """Return an error with the task's id written as …, and other ids, times, durations and numbers as #."""
    words = " ".join(task_id.split())  # as an error has it, on its one line
    if words:
        error = re.sub(rf"(?<!\w){re.escape(words)}(?!\w)", "…", error)
    kind, colon, message = error.partition(": ")  # the name of a class may have digits, too
    if not colon:
        return error
    return kind + colon + _VARIES.sub(lambda found: found["kept"] or "#", message)


@dataclass(slots=True)
class ErrorGroup:
    """The tasks of a state whose errors have the same pattern; `example` is the id of the newest one."""

    state: str
    tasks: int
    error: str
    newest: datetime
    example: str


class ErrorGroups:
    """Groups of tasks, by their state and the pattern of their errors."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], ErrorGroup] = {}

    def add(self, state: str, task_id: str, error: str, time: datetime) -> None:
        """Count the error of a task."""
        pattern = error_pattern(error, task_id)
        group = self._groups.setdefault((state, pattern), ErrorGroup(state, 0, pattern, time, task_id))
        group.tasks += 1
        if time >= group.newest:
            group.newest, group.example = time, task_id

    def sorted(self) -> list[ErrorGroup]:
        """Return the groups, the largest first."""
        return sorted(self._groups.values(), key=lambda group: (-group.tasks, group.state, group.error))
