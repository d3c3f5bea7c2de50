"""Claim and finish by `Model.update`, as users of PynamoDB write it."""

from datetime import UTC, datetime
from typing import Any

from pynamodb.attributes import JSONAttribute, ListAttribute, NumberAttribute, UnicodeAttribute, UTCDateTimeAttribute
from pynamodb.expressions.update import Action
from pynamodb.models import Model

from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.writes.lock import new_token
from tests.benchmarks.orders import LOCK_FOR, MARGIN, Change, OrderTable, claimed


class Row(Model):
    class Meta:
        table_name = OrderTable.Meta.table_name
        region = "us-east-1"

    task_id = UnicodeAttribute(hash_key=True)
    use_case_id = UnicodeAttribute(range_key=True)
    status = NumberAttribute()
    status_key = UnicodeAttribute()
    due_time = UTCDateTimeAttribute()
    create_time = UTCDateTimeAttribute()
    update_time = UTCDateTimeAttribute()
    attempt = NumberAttribute()
    fence = NumberAttribute()
    lock = UnicodeAttribute(null=True)
    lock_expire_time = UTCDateTimeAttribute(null=True)
    worker = UnicodeAttribute(null=True)
    unfinished: ListAttribute[Any] = ListAttribute(of=NumberAttribute)
    saves = NumberAttribute(null=True)
    release_count = NumberAttribute(null=True)
    v = NumberAttribute(null=True)
    data = JSONAttribute(null=True)
    last_error = UnicodeAttribute(null=True)
    expire_time = NumberAttribute(null=True)


class ByModel:
    """Expressions rendered for each request, and the whole row read back by both."""

    def __init__(self) -> None:
        Row._connection = None  # a client of its own, that no stub of an earlier measurement answers
        self.client: Any = Row._get_connection().connection.client

    def claimed(self, task_id: str, data: dict[str, Any]) -> dict[str, Any]:
        return claimed(task_id, data)

    def run(self, task_id: str, change: Change | None = None) -> None:
        row, token = Row(task_id, "order"), new_token()
        self._claim(row, token)
        now = datetime.now(UTC)
        actions: list[Action] = [
            Row.status.set(20),
            Row.status_key.set("order#20#0"),
            Row.due_time.set(now),
            Row.update_time.set(now),
            Row.attempt.set(0),
            Row.unfinished.set(row.unfinished[:-1]),
            Row.last_error.remove(),
            Row.release_count.remove(),
        ]
        if change is not None:
            change(row.data)
            actions.append(Row.data.set(row.data))
        row.update(actions, condition=(Row.lock == token) & (Row.status == 11))

    def _claim(self, row: Row, token: str) -> None:
        now = datetime.now(UTC)
        waiting = Row.status.is_in(10, 12) & (Row.due_time <= now + MARGIN)
        abandoned = (Row.status == 11) & (Row.lock_expire_time < now - MARGIN)
        later_token = Row.lock.does_not_exist() | (Row.lock < token)
        known_format = Row.v <= 1
        row.update(
            [
                Row.status.set(11),
                Row.status_key.set("order#11#0"),
                Row.due_time.set(now + LOCK_FOR),
                Row.update_time.set(now),
                Row.attempt.set(Row.attempt + 1),
                Row.lock_expire_time.set(now + LOCK_FOR),
                Row.lock.set(token),
                Row.worker.set(this_worker()),
                Row.fence.set(Row.fence + 1),
                Row.unfinished[99].set(Row.fence + 1),
                Row.saves.set(0),
                Row.expire_time.remove(),
            ],
            condition=(waiting | abandoned) & (Row.attempt < 3) & later_token & known_format,
        )
