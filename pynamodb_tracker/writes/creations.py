"""Creating a task, pending or already claimed, unless the row exists."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pynamodb.connection.table import TableConnection
from pynamodb.constants import CONDITION_EXPRESSION, EXPRESSION_ATTRIBUTE_NAMES, EXPRESSION_ATTRIBUTE_VALUES
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock, instrumentation
from pynamodb_tracker.dynamodb.connection import Item, Refused, missing_table, send
from pynamodb_tracker.dynamodb.error_codes import is_missing_table
from pynamodb_tracker.dynamodb.limits import check
from pynamodb_tracker.dynamodb.partiql import IF_ABSENT
from pynamodb_tracker.dynamodb.transact_write import transact_write
from pynamodb_tracker.exceptions import TaskAlreadyExistsError, ValueNotStorableError
from pynamodb_tracker.model.changes import Changes, check_row_size, chunks_of_new_row, raise_if_invalid
from pynamodb_tracker.model.references import text_of_new_trace
from pynamodb_tracker.model.row import FORMAT, TaskRow, has_expired, keeps_expired, load, readable
from pynamodb_tracker.model.row_state import unreadable_in
from pynamodb_tracker.model.serialization import serialized
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.participants import creation_participants, first_turn, send_though_busy
from pynamodb_tracker.writes.refusals import describe_cancellation, kept_changing_error
from pynamodb_tracker.writes.transition import StepStatements, get

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import Repeat

T = TypeVar("T", bound=TaskRow)

_TRIES = 4


class NewTask(Generic[T]):
    """A task to create, with checked values in their stored form."""

    def __init__(self, row: T, item: Item, changes: Changes, chunks: Sequence[Item]) -> None:
        self.row = row
        self.item = item
        self.changes = changes
        self.chunks = chunks
        self.over: TaskRow | None = None
        """The expired row to replace, or None if there must be no row."""

    def puts(self, table: TableConnection) -> list[dict[str, Any]]:
        """Return the transaction's actions that create the task. The first one puts the row."""
        in_table = {"TableName": table.table_name}
        refused = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}  # at no charge
        condition = IF_ABSENT if self.over is None else _if_still_expired(self.over)
        row = {**in_table, **condition, **refused, "Item": self.item}
        return [{"Put": row}, *({"Put": {**in_table, "Item": chunk}} for chunk in self.chunks)]

    def replace(self, found: TaskRow | None) -> bool:
        """Replace the row that was found if it has expired. Return whether to put the task again."""
        before, self.over = self.over, None
        if found is None:
            return before is not None  # the expired row is gone
        if has_expired(found) and not keeps_expired.get():
            self.over = found
        return self.over is not None


def create(
    model: type[T],
    task_id: str,
    code: int | None,
    due_time: datetime | timedelta | None,
    attributes: Mapping[str, Any],
    *,
    group: str | None = None,
    trace: Mapping[str, str] | None = None,
    repeat: "Repeat | None" = None,
    urgent: bool = False,
    also: Item | None = None,
) -> T:
    """Create a task, by default pending at the first step and due now. Raises TaskAlreadyExistsError.

    `also` are more of the tracker's attributes in stored form.
    """
    also = {**tracker_attributes(model, task_id, group=group, urgent=urgent, trace=trace), **(also or {})}
    task = build_new_task(model, task_id, code, due_time, attributes, also=also, repeat=repeat)
    for _ in range(_TRIES):
        try:
            put(task)
        except Refused as refused:
            found = load_existing(model, task_id, refused)
            if found is not None and readable(found).creation == task.row.creation:
                # This put was sent twice. In a group, the second one may have another number.
                return task.row if group is None else found
            if task.replace(found):
                continue
            seen = None if found is None else readable(found)
            how = "" if seen is None or seen.cancelled is None else f", and {describe_cancellation(seen)}"
            raise TaskAlreadyExistsError(
                f"cannot create {model.__name__} {task_id!r}: it already exists{how}. It was not changed",
                task_id=task_id,
                task=found,
            ) from None
        else:
            return task.row
    raise kept_changing_error(model, task_id, "create", _TRIES)


def _if_still_expired(row: TaskRow) -> dict[str, Any]:
    stored = row._row_state.stored
    seen = {name: stored[name] for name in ("expire_time", "status", "fence", "creation", "lock") if name in stored}
    return {
        CONDITION_EXPRESSION: " AND ".join(f"#{name} = :{name}" for name in seen),
        EXPRESSION_ATTRIBUTE_NAMES: {f"#{name}": name for name in seen},
        EXPRESSION_ATTRIBUTE_VALUES: {f":{name}": value for name, value in seen.items()},
    }


def build_new_task(
    model: type[T],
    task_id: str,
    code: int | None,
    due_time: datetime | timedelta | None,
    attributes: Mapping[str, Any],
    *,
    also: Item | None = None,
    repeat: "Repeat | None" = None,
    now: datetime | None = None,
) -> NewTask[T]:
    """Build a task from the arguments of `create`. A rule without occurrences is a ValueError."""
    model.tracker.check_own(attributes)
    now = now or clock.now()
    if isinstance(due_time, timedelta):
        due_time = now + due_time
    due, also = now if due_time is None else max(now, due_time), also or {}
    if repeat is not None:
        turn = first_turn(repeat, due)
        if turn is None:
            raise ValueError(f"cannot create {model.__name__} {task_id!r}: {repeat} never occurs at or after {due}")
        due, also = max(now, turn[0]), {**also, **turn[1]}
    item = {**_build_item(model, task_id, code, now, due, is_urgent="urgent" in also), **also}
    changes = {}
    try:
        given = model(**attributes)
        for name, attribute in model.tracker.own_attributes.items():
            value = serialized(given, name, attribute)
            check(model.__name__, name, attribute, value)
            if value is not None:
                changes[name] = attribute, value
                item[attribute.attr_name] = value
    except ValueNotStorableError as error:
        error.name_task(task_id)
        raise
    chunks = chunks_of_new_row(model, task_id, now, item)
    row = load(model, item)
    for name, why in unreadable_in(row).items():
        raise ValueNotStorableError(
            f"{model.__name__}.{name} cannot be stored: it cannot be read again: {why}", task_id=task_id, attribute=name
        ) from why
    check_row_size(row, {})
    if chunks:
        model.data.fill(row, changes["data"][1]["S"])
    return NewTask(row, item, changes, chunks)


def build_claimed_task(
    statements: StepStatements[T],
    task_id: str,
    attributes: Mapping[str, Any],
    *,
    lock_for: timedelta,
    payload: str | None = None,
    trace: Mapping[str, str] | None = None,
) -> NewTask[T]:
    """Build a task that is created in progress. Its `creation` is also its `lock` and its chunks' `lock`."""
    model, codes, now = statements.model, statements.codes, clock.now()
    token, expire = {"S": new_token()}, {"S": clock.stamp(now + lock_for)}
    also: Item = {
        **tracker_attributes(model, task_id, trace=trace),
        "creation": token,
        "lock": token,
        "due_time": expire,
        "lock_expire_time": expire,
        "attempt": {"N": "1"},
        "fence": {"N": "1"},
        "unfinished": {"L": [{"N": "1"}]},
        "saves": {"N": "0"},
        "worker": {"S": this_worker()},
    }
    if payload is not None:
        also[statements.payload.attr_name] = {"S": payload}
    return build_new_task(model, task_id, codes.in_progress, None, attributes, also=also, now=now)


def build_pending_task(statements: StepStatements[T], task: NewTask[T], token: str) -> NewTask[T]:
    """Make a claimed task pending, with a token that blocks late copies of earlier requests."""
    code, now, lock = statements.codes.pending, {"S": clock.stamp(clock.now())}, {"S": token}
    item: Item = {
        **task.item,
        "status": {"N": str(code)},
        "due_time": now,
        "update_time": now,
        "attempt": {"N": "0"},
        "unfinished": {"L": []},
        "creation": lock,
        "lock": lock,
    }
    if "status_key" in item:
        key = statements.model.tracker.status_key(code, task.row.task_id, is_urgent="urgent" in item)
        item["status_key"] = {"S": key}
    return NewTask(task.row, item, task.changes, [{**chunk, "lock": lock} for chunk in task.chunks])


def tracker_attributes(
    model: type[TaskRow],
    task_id: str,
    *,
    group: str | None = None,
    urgent: bool = False,
    trace: Mapping[str, str] | None = None,
    creator: TaskRow | None = None,
    by: str | None = None,
) -> Item:
    """Return a new task's stored group, urgency and trace, by default the trace of its `creator`."""
    stored: Item = {}
    if group is not None:
        stored |= {"group": {"S": group}, "group_number": {"N": "0"}}
    if urgent:
        stored["urgent"] = {"BOOL": True}
    has_trace = trace is not None or creator is not None or instrumentation.hooks
    if has_trace and (text := text_of_new_trace(model, task_id, trace, creator, by)):
        stored["trace"] = {"S": text}
    return stored


def load_existing(model: type[T], task_id: str, refused: Refused) -> T | None:
    """Return the row that refused a put, maybe the call's own."""
    if refused.item is not None:
        return load(model, refused.item)
    return get(model, task_id) if refused.repeated else None


def _build_item(
    model: type[T], task_id: str, code: int | None, now: datetime, due: datetime, *, is_urgent: bool
) -> Item:
    tracker, row_key, created = model.tracker, model.tracker.key(task_id), {"S": clock.stamp(now)}
    code = tracker.steps[0].pending if code is None else code
    key = tracker.status_key(code, task_id, is_urgent=is_urgent)
    item: Item = {
        **row_key,
        "status": {"N": str(code)},
        **({} if key is None else {"status_key": {"S": key}}),
        "due_time": {"S": clock.stamp(due)},
        "create_time": created,
        "update_time": created,
        "creation": {"S": new_token()},
        "attempt": {"N": "0"},
        "fence": {"N": "0"},
        "unfinished": {"L": []},
        "v": {"N": str(FORMAT)},
    }
    if expiry := tracker.expiry_of(code, now):
        item["expire_time"] = {"N": expiry}
    return item


def put(task: NewTask[T], *, until: datetime | None = None) -> None:
    """Put a new task with its overflow chunks. Raise Refused if the row exists."""
    table = task.row.tracker.connection()
    puts = task.puts(table)
    if participants := creation_participants(task.row, task.item):
        unconfirmed = send_though_busy(table, lambda: puts[0], participants, more=puts[1:])
    elif len(puts) > 1:
        unconfirmed = transact_write(table, puts, until=until)
    else:
        try:
            send(table, "PutItem", puts[0]["Put"], until=until)
        except PynamoDBConnectionError as error:
            raise_if_invalid(task.row, task.changes, error)
            raise
        return
    if unconfirmed is not None:
        reasons = unconfirmed.error.cancellation_reasons
        met = reasons[0].raw_item if reasons and reasons[0] else None
        if is_missing_table(unconfirmed.error.cause):
            raise missing_table(table, unconfirmed.error.cause)
        raise Refused(repeated=unconfirmed.in_doubt, item=met) if unconfirmed.refused else unconfirmed.error
