"""How long what lies beside a row stays there: as long as the row does.

Each piece has the token of the claim or the order that last wrote it, and these only grow. So the late copy of an end,
or that of a worker that was frozen, gives no end to pieces of a task that was reopened since.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeVar

from pynamodb.constants import NUMBER
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.operand import Path

from pynamodb_tracker.dynamodb.transact_write import write_together
from pynamodb_tracker.dynamodb.transport import Refused, insistently, send
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.model.overflow import DATA, PIECE, items, keys_in, pointer_in
from pynamodb_tracker.model.row import TaskRow, stored_row
from pynamodb_tracker.model.serialization import Stored
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.prepared import PreparedWrite, fill
from pynamodb_tracker.transitions.statements import StepWrites, get

__all__ = ["clear_orphans", "expire", "expire_again", "keep"]

T = TypeVar("T", bound=TaskRow)

_MOST_DELETES = 99
"""In a transaction, beside the check of the row."""

log = logging.getLogger("pynamodb_tracker")


def expire(writes: StepWrites[T], task: T) -> None:
    """Let what lies beside the row of a task that has ended go with it, once that is on record.

    It costs a query, and a write of each piece, so only where a use case says `keep_for`. That the task has ended
    stands by then: where the pieces cannot be told, that is logged, and they stay.
    """
    if writes.model.tracker.use_case.keep_for is None:
        return
    keep_until = writes.keep_until(task.status, task.update_time)
    if keep_until is None:
        return
    try:
        _set_end(writes.model, task.task_id, task.lock, keep_until)
    except PynamoDBException as error:
        log.warning("what lies beside %s %r stays after its end: %s", writes.model.__name__, task.task_id, error)


def keep(model: type[T], row: T, token: str, order: str) -> None:
    """Let what lies beside the row of an ended task stay, before an order with that token makes it live again.

    TaskNotFoundError where its data has gone already.
    """
    _set_end(model, row.task_id, token, None)
    pointer = pointer_in(stored_row(row))
    if pointer is None:
        return
    keys = keys_in((row.task_id, row.use_case_id), DATA, pointer)
    if len(list(items(model.tracker.connection(), keys))) < len(keys):
        raise TaskNotFoundError(
            f"cannot {order} {model.__name__} {row.task_id!r}: its time to live was over at {row.expire_time}, and its "
            "data is gone",
            task_id=row.task_id,
            task=row,
        )


def expire_again(model: type[T], task_id: str) -> None:
    """Undo a `keep` whose order was refused, unless the task is live by now."""
    try:
        row = get(model, task_id)
        if row is None or row.expire_time is None:
            return
        table, stored = model.tracker.connection(), stored_row(row)
        as_seen = (TaskRow.lock == row.lock) & TaskRow.expire_time.exists()
        check = table.get_operation_kwargs("", "", condition=as_seen)
        there = {"ConditionCheck": {**check, "Key": model.tracker.key(task_id)}}
        for key in _keys_beside(model, task_id):
            actions = [Path("expire_time").set({NUMBER: stored["expire_time"][NUMBER]})]
            update = table.get_operation_kwargs("", "", condition=Path(PIECE).exists(), actions=actions)
            unapplied = write_together(table, [there, {"Update": {**update, "Key": key}}])
            if unapplied and not unapplied.refused:
                raise unapplied.error
    except PynamoDBException as error:
        log.warning("what lies beside %s %r stays after its end: %s", model.__name__, task_id, error)


def clear_orphans(model: type[TaskRow], task_id: str) -> None:
    """Delete what lies beside a row that was deleted; nothing while there is a row, of a task created since, say."""
    table = model.tracker.connection()
    request = table.get_operation_kwargs("", "", condition=TaskRow.task_id.does_not_exist())
    gone = {"ConditionCheck": {**request, "Key": model.tracker.key(task_id)}}
    keys = list(_keys_beside(model, task_id))
    for at in range(0, len(keys), _MOST_DELETES):
        deletes = [{"Delete": {"TableName": table.table_name, "Key": key}} for key in keys[at : at + _MOST_DELETES]]
        unapplied = write_together(table, [gone, *deletes])
        if unapplied and unapplied.refused:
            return
        if unapplied:
            raise unapplied.error


def _set_end(model: type[TaskRow], task_id: str, token: str, expire_time: str | None) -> None:
    """Set the end of all that lies beside a row, or remove it, except where a later order has written."""
    table = model.tracker.connection()
    end = TaskRow.expire_time.remove() if expire_time is None else fill(TaskRow.expire_time, "expire")
    write = PreparedWrite(table, condition=when.no_later_order(), actions=[end, fill(TaskRow.lock, "token")])
    for key in _keys_beside(model, task_id):
        try:
            send(table, "UpdateItem", write.request(key, {"token": token, "expire": expire_time}))
        except Refused:
            continue


def _keys_beside(model: type[TaskRow], task_id: str) -> Iterator[Stored]:
    start: Any = None
    while True:
        read = partial(
            model.tracker.connection().query,
            task_id,
            range_key_condition=TaskRow.use_case_id.startswith(model.tracker.use_case.prefix),
            filter_condition=Path(PIECE).exists(),  # users may have further records of a task there
            attributes_to_get=["task_id", "use_case_id"],
            exclusive_start_key=start,
            consistent_read=True,
        )
        page = insistently(read)
        yield from ({name: key[name] for name in ("task_id", "use_case_id")} for key in page["Items"])
        start = page.get("LastEvaluatedKey")
        if not start:
            return
