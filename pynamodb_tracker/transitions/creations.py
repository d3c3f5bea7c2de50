"""Creating a task, and deleting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pynamodb.connection.table import TableConnection
from pynamodb.constants import NUMBER, STRING
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock, instrumentation
from pynamodb_tracker.dynamodb.connection import Item, Refused, missing_table, send
from pynamodb_tracker.dynamodb.error_codes import is_missing_table
from pynamodb_tracker.dynamodb.limits import check
from pynamodb_tracker.dynamodb.transact_write import transact_write
from pynamodb_tracker.exceptions import (
    TaskAlreadyExistsError,
    TaskLockedError,
    TaskNotFoundError,
    ValueNotStorableError,
)
from pynamodb_tracker.model.changes import Changes, check_row_size, raise_if_invalid
from pynamodb_tracker.model.row import FORMAT, PLAIN_FORMAT, Membership, TaskRow, load, membership_of
from pynamodb_tracker.model.row_state import readable_value, unreadable_in
from pynamodb_tracker.model.serialization import serialized
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.company import send_with_company
from pynamodb_tracker.transitions.conditions import seen_values
from pynamodb_tracker.transitions.finishes import company_of_end
from pynamodb_tracker.transitions.lock import new_token
from pynamodb_tracker.transitions.overflow_retention import clear_orphans
from pynamodb_tracker.transitions.overflow_writes import chunks_of_new_row
from pynamodb_tracker.transitions.prepared import PreparedWrite
from pynamodb_tracker.transitions.refusals import check_format, check_life, holder, is_same_life
from pynamodb_tracker.transitions.statements import get

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import Repeat

T = TypeVar("T", bound=TaskRow)

_TRIES = 4

ONE_OF_BOTH = (
    "a task of a group does not repeat: let one that repeats, without a group, create a task of the group at each "
    "occurrence, by ctx.create(..., group=...)"
)
"""Why a task has either a group or a rule: it would hand on its turn at the end of each round."""


class NewTask(Generic[T]):
    """A task that can be created: its values were checked, and are in their stored form."""

    __slots__ = ("changes", "chunks", "item", "row")  # no dataclass: building one takes time at every cold start

    def __init__(self, row: T, item: Item, changes: Changes, chunks: Sequence[Item]) -> None:
        self.row = row
        """The task as it will be, if the item is put."""
        self.item = item
        self.changes = changes
        """The user's attributes that have a value, defaults included."""
        self.chunks = chunks
        """The overflow chunks of its `data`, which are put together with the item."""

    def puts(self, table: TableConnection) -> list[dict[str, Any]]:
        """Return the actions of a transaction that creates it; the first one puts the row if there is none."""
        request = table.get_operation_kwargs("", "", condition=TaskRow.task_id.does_not_exist())
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"  # without a charge
        del request["Key"]
        chunks = ({"Put": {"TableName": table.table_name, "Item": chunk}} for chunk in self.chunks)
        return [{"Put": {**request, "Item": self.item}}, *chunks]


def create(
    model: type[T],
    task_id: str,
    code: int | None,
    due_time: datetime | timedelta | None,
    attributes: Mapping[str, Any],
    *,
    group: str | None = None,
    trace: Mapping[str, str] | None = None,
    repeat: Repeat | None = None,
) -> T:
    """Put the row of a new task, pending at its first step unless a `code` is given, and return it.

    In a `group`, it waits for its turn. Raises TaskAlreadyExistsError if the task exists; it is not changed.
    """
    also = tracked(model, task_id, group=group, trace=trace)
    task = new_task(model, task_id, code, due_time, attributes, also=also, repeat=repeat)
    try:
        put(task)
    except Refused as refused:
        found = existing(model, task_id, refused)
        creation = None if found is None else readable_value(found, "creation")
        if found is None or creation != task.row.creation:
            raise TaskAlreadyExistsError(
                f"cannot create {model.__name__} {task_id!r}: it exists, and is left as it is",
                task_id=task_id,
                task=found,
            ) from None
        if group is not None:
            return found  # this call's own, which was sent twice; perhaps with another number the second time
    return task.row


def new_task(
    model: type[T],
    task_id: str,
    code: int | None,
    due_time: datetime | timedelta | None,
    attributes: Mapping[str, Any],
    *,
    also: Item | None = None,
    repeat: Repeat | None = None,
    now: datetime | None = None,
) -> NewTask[T]:
    """Check the values of a task that is new `now`; `also` are further attributes of the tracker's own, as stored.

    A task that repeats is due at the first occurrence at or after its due time. Raises a TypeError for an attribute
    that is not declared; a ValueNotStorableError names the one that cannot be stored; a ValueError, a rule without a
    further occurrence.
    """
    model.tracker.check_own(attributes)
    now = now or clock.now()
    if repeat is not None:
        due_time, also = _first_due_time(model, task_id, repeat, _due(now, due_time), also)
    given = _given(model, task_id, attributes)
    item = {**_item(model, task_id, code, now, due_time), **(also or {})}
    changes = {}
    for name, attribute in model.tracker.own_attributes.items():
        try:
            value = serialized(given, name, attribute)
            check(model.__name__, name, attribute, value)
        except ValueNotStorableError as error:
            error.task_id = task_id
            raise
        if value is not None:
            changes[name] = attribute, value
            item[attribute.attr_name] = value
    chunks = chunks_of_new_row(model, task_id, now, item)
    row = load(model, item)
    for name, why in unreadable_in(row).items():
        raise ValueNotStorableError(
            f"{model.__name__}.{name} cannot be stored: it does not read back: {why}", task_id=task_id, attribute=name
        ) from why
    check_row_size(row, {})
    if chunks:
        model.data.fill(row, changes["data"][1]["S"])
    return NewTask(row, item, changes, chunks)


def tracked(
    model: type[TaskRow],
    task_id: str,
    *,
    group: str | None = None,
    trace: Mapping[str, str] | None = None,
    creator: TaskRow | None = None,
    by: str | None = None,
) -> Item:
    """Return the stored form of the tracker's own attributes that a caller or a hook gives to a new task.

    Without a `trace`, it has that of its `creator`. `by` is the run that creates it.
    """
    stored: Item = {}
    if group is not None:
        stored |= {"group": {"S": group}, "group_number": {"N": "0"}, "v": {"N": str(FORMAT)}}
    if trace is not None or creator is not None or instrumentation.hooks:
        from pynamodb_tracker.model.references import text_of_new_trace  # noqa: PLC0415 - few cold starts need it

        if text := text_of_new_trace(model, task_id, trace, creator, by):
            stored["trace"] = {"S": text}
    return stored


def existing(model: type[T], task_id: str, refused: Refused) -> T | None:
    """Return the row that exists already; it may be this call's own, because the network itself repeats requests."""
    if refused.item is not None:
        return load(model, refused.item)
    return get(model, task_id) if refused.repeated else None


def _given(model: type[T], task_id: str, attributes: Mapping[str, Any]) -> T:
    try:
        return model(**attributes)
    except ValueNotStorableError as error:
        error.task_id = task_id
        raise


def _first_due_time(
    model: type[T], task_id: str, repeat: Repeat, at: datetime, also: Item | None
) -> tuple[datetime, Item]:
    """Return when a new task is due that repeats, and its further attributes with what it has of that."""
    from pynamodb_tracker.transitions.repeats import as_item, first_turn  # noqa: PLC0415 - few tasks repeat

    turn = first_turn(repeat, at)
    if turn is None:
        raise ValueError(f"cannot create {model.__name__} {task_id!r}: {repeat} has no occurrence at or after {at}")
    return turn.due, {**(also or {}), **as_item(turn)}


def _due(now: datetime, due_time: datetime | timedelta | None) -> datetime:
    """Return when a new task is due: never before it is created."""
    if isinstance(due_time, timedelta):
        due_time = now + due_time
    return now if due_time is None else max(now, due_time)


def _item(model: type[T], task_id: str, code: int | None, now: datetime, due_time: datetime | timedelta | None) -> Item:
    use_case, created = model.tracker.use_case, {"S": clock.stamp(now)}
    code = model.tracker.steps[0].pending if code is None else code
    item: Item = {
        **model.tracker.key(task_id),
        "status": {"N": str(code)},
        **({"status_key": {"S": use_case.status_key(code, task_id)}} if model.tracker.is_indexed(code) else {}),
        "due_time": {"S": clock.stamp(_due(now, due_time))},
        "create_time": created,
        "update_time": created,
        "creation": {"S": new_token()},
        "attempt": {"N": "0"},
        "fence": {"N": "0"},
        "unfinished": {"L": []},
        "v": {"N": str(PLAIN_FORMAT)},
    }
    if expiry := model.tracker.expiry_of(code, now):
        item["expire_time"] = {"N": expiry}
    return item


def put(task: NewTask[T], *, until: datetime | None = None) -> None:
    """Put the row of a new task together with its overflow chunks; raise Refused if there is one."""
    try:
        _put(task, until)
    except PynamoDBConnectionError as error:
        raise_if_invalid(task.row, task.changes, error)
        raise


def _put(task: NewTask[T], until: datetime | None) -> None:
    """Put the row if there is none, together with its overflow chunks."""
    table = task.row.tracker.connection()
    puts = task.puts(table)
    if "group" in task.item:
        from pynamodb_tracker.transitions.group_members import NewMember  # noqa: PLC0415 - few cold starts need it
        from pynamodb_tracker.transitions.groups import Groups, enter  # noqa: PLC0415 - as above

        groups = Groups()
        groups.of(type(task.row), task.row.group).entrants.append(NewMember(task.row, task.item))
        unapplied = enter(table, lambda: puts[0], groups, puts[1:])
    elif len(puts) == 1:
        send(table, "PutItem", puts[0]["Put"], until=until)
        return
    else:
        unapplied = transact_write(table, puts, until=until)
    if unapplied is not None:
        reasons = unapplied.error.cancellation_reasons
        met = reasons[0].raw_item if reasons and reasons[0] else None
        if is_missing_table(unapplied.error.cause):
            raise missing_table(table, unapplied.error.cause)
        raise Refused(repeated=unapplied.unheard, item=met) if unapplied.refused else unapplied.error


def delete(model: type[T], task_id: str, *, repeated: bool = False) -> None:
    """Delete a task that no worker holds; TaskLockedError or TaskNotFoundError otherwise.

    If it is `repeated`, an earlier request of the same command may have deleted it already.
    """
    meant: T | None = None
    for _ in range(_TRIES):
        row, now = get(model, task_id), clock.now()
        if row is not None and not repeated:
            check_life(row, meant, "delete")
        if row is None or (meant is not None and not is_same_life(row, meant)):
            clear_orphans(model, task_id)
            if repeated:
                return  # the SDK repeated a request whose answer got lost, after it had deleted the row
            raise TaskNotFoundError(
                f"cannot delete {model.__name__} {task_id!r}: there is no such task", task_id=task_id
            )
        check_format(row, "delete")
        meant = row
        held = any(row.status == codes.in_progress for codes in model.tracker.steps)
        if held and row.lock_expire_time >= now - model.tracker.margin:
            raise TaskLockedError(
                f"cannot delete {model.__name__} {task_id!r}: it is {row.tracker.name_of(row.status)}, {holder(row)}",
                task_id=task_id,
                task=row,
            )
        try:
            _delete(model, row, now, held=held)
        except Refused as refused:
            repeated = refused.repeated
        else:
            clear_orphans(model, task_id)
            return
    raise TaskLockedError(
        f"cannot delete {model.__name__} {task_id!r}: it changed {_TRIES} times meanwhile; try again", task_id=task_id
    )


class SeenDeletes(Generic[T]):
    """Deletes tasks as a consistent scan has just seen them, without reading them again."""

    def __init__(self, model: type[T]) -> None:
        self._model = model
        self._writes: dict[bool, PreparedWrite] = {}
        """By whether the row has a lock."""

    def delete(self, task_id: str, seen: Item | None) -> None:
        """Delete a task as `delete` does; `seen` is what `to_delete` has of its row."""
        repeated = False
        try:
            if seen is not None and self._delete(task_id, seen):
                return
        except Refused as refused:
            repeated = refused.repeated
        delete(self._model, task_id, repeated=repeated)

    def _delete(self, task_id: str, seen: Item) -> bool:
        """Delete a row that nothing is beside, and that no other row is about; False if it has to be read first.

        Overflow chunks are written by who has claimed the task, or with a command, and each of them writes a lock.
        """
        tracker, has_lock = self._model.tracker, "lock" in seen
        values = {f"seen_{name}": seen.get(name, {}).get(kind) for name, kind in _SEEN.items()}
        values["seen_creation"] = seen.get("creation", {}).get(STRING, "")
        is_whole = all(value is not None for name, value in values.items() if has_lock or name != "seen_lock")
        in_progress = {str(codes.in_progress) for codes in tracker.steps}
        if not is_whole or values["seen_status"] in in_progress or not seen.keys().isdisjoint({"group", "parent"}):
            return False
        if has_lock not in self._writes:
            self._writes[has_lock] = deletion_as_seen(self._model, has_lock=has_lock)
        send(tracker.connection(), "DeleteItem", self._writes[has_lock].request(tracker.key(task_id), values))
        return True


_SEEN = {"status": NUMBER, "fence": NUMBER, "attempt": NUMBER, "create_time": STRING, "lock": STRING}
"""The attributes by which a delete knows that the row is as it was seen, and their types."""


def deletion(model: type[T], *, held: bool, membership: Membership = Membership.NONE) -> PreparedWrite:
    """Return the delete of exactly the row that was read: a late copy must not delete a task created since."""
    guards = [*_as_read(membership), *([when.lock_expired()] if held else [])]
    return PreparedWrite(model.tracker.connection(), condition=when.all_of(guards))


def deletion_as_seen(model: type[T], *, has_lock: bool) -> PreparedWrite:
    """Return the delete of a row that has no overflow chunks, unless a claim or a command was about it since."""
    guards = [*_as_read(Membership.NONE), when.lock_seen(is_there=has_lock)]
    return PreparedWrite(model.tracker.connection(), condition=when.all_of(guards))


def _as_read(membership: Membership) -> list[when.Guard]:
    return [when.as_read(), when.membership_seen(membership), when.known_format()]


def _delete(model: type[T], row: T, now: datetime, *, held: bool) -> None:
    """Delete the row as it was read; a task that another one waits for counts with that."""
    values = {
        **seen_values(row),
        "now_minus_margin": clock.stamp(now - model.tracker.margin),
    }
    table, membership = model.tracker.connection(), membership_of(row)
    request = deletion(model, held=held, membership=membership).request(model.tracker.key(row.task_id), values)
    own = {"Delete": {"TableName": table.table_name, **request}}
    company = company_of_end(row)
    if readable_value(row, "parent") is not None:
        from pynamodb_tracker.transitions.joins import Parent  # noqa: PLC0415 - few tasks have a parent

        company.append(Parent(row))
    if not send_with_company(table, own, company, None):
        send(table, "DeleteItem", request)
