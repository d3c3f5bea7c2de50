"""Keeps a history of tasks, with one item per transition, from the table's stream."""

import os
from datetime import UTC, datetime, timedelta
from pkgutil import resolve_name
from typing import Any

from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.models import Model

from pynamodb_tracker import Task

__all__ = ["Transition", "handler"]

_TASKS: type[Task] = resolve_name(os.environ["PYNAMODB_TRACKER_APP"])
"""Your own table or use case, as `module:Class`, which knows the state names."""

_KEEP_FOR = timedelta(days=int(os.environ["KEEP_DAYS"]))


class Transition(Model):
    """A task's new state, and when it changed."""

    class Meta:
        """Lambda sets the region in the environment."""

        table_name = os.environ["HISTORY_TABLE"]

    task = UnicodeAttribute(hash_key=True)
    """The use case and the task id, as in `order/o-1`."""
    sequence = UnicodeAttribute(range_key=True)
    """The position in the stream. A record that is delivered again overwrites its own item."""
    state = UnicodeAttribute()
    """The new state, such as `ship failed`, or `deleted` or `expired`."""
    time = UnicodeAttribute()
    due_time = UnicodeAttribute()
    attempt = NumberAttribute()
    fence = NumberAttribute()
    worker = UnicodeAttribute(null=True)
    last_error = UnicodeAttribute(null=True)
    expire_time = TTLAttribute()


def handler(event: dict[str, Any], _context: object) -> None:
    """Store a batch of transitions. If that fails, Lambda delivers the batch again, which adds no duplicates."""
    with Transition.batch_write() as batch:
        for record in event["Records"]:
            if _is_transition(record["dynamodb"]):
                batch.save(_transition(record))


def _is_transition(change: dict[str, Any]) -> bool:
    """Return whether a change is a transition, and not a save, a heartbeat, or an item with large data."""
    if "#" in change["Keys"]["use_case_id"]["S"]:
        return False
    before, after = change.get("OldImage"), change.get("NewImage")
    if before is None or after is None:
        return True
    return any(before[name] != after[name] for name in ("update_time", "due_time"))


def _transition(record: dict[str, Any]) -> Transition:
    change = record["dynamodb"]
    task = _TASKS.from_raw_data(change.get("NewImage") or change["OldImage"])
    reported = datetime.fromtimestamp(change["ApproximateCreationDateTime"], UTC)
    state, time = str(task.state), task.update_time
    if record["eventName"] == "REMOVE":
        is_expired = record.get("userIdentity", {}).get("principalId") == "dynamodb.amazonaws.com"
        state, time = "expired" if is_expired else "deleted", reported
    return Transition(
        f"{task.use_case_id}/{task.task_id}",
        change["SequenceNumber"].zfill(40),  # padded to the maximum of 40 digits, so that text sorts like numbers
        state=state,
        time=time.isoformat(timespec="microseconds"),
        due_time=task.due_time.isoformat(timespec="microseconds"),
        attempt=task.attempt,
        fence=task.fence,
        worker=task.worker,
        last_error=task.last_error,
        expire_time=reported + _KEEP_FOR,
    )
