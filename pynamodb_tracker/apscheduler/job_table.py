"""What a job store asks of the table: each method is one request, or the pages of a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pynamodb.connection.table import TableConnection

from pynamodb_tracker.apscheduler.items import (
    DUE,
    JOB,
    NEXT,
    OWNER,
    UNTIL,
    WRITE,
    DueItem,
    JobItem,
    due_key,
    is_job_id,
)
from pynamodb_tracker.dynamodb.backoff import jittered_pause
from pynamodb_tracker.dynamodb.connection import Item, Refused, get_items, missing_table, pages, send, slept_before
from pynamodb_tracker.dynamodb.error_codes import is_missing_table
from pynamodb_tracker.dynamodb.transact_write import REFUSED, transact_write
from pynamodb_tracker.model.overflow import CHUNK
from pynamodb_tracker.model.row import TaskRow

MOST_REMOVED = 50
"""Jobs in one transaction: each has up to two items, and a transaction has up to 100 of them.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""

TRIES = 8
"""How often a change of a job is tried that others change, too."""

_PAGE = 25
"""Due items in one answer to when the next job is due: mostly enough, and they take one read unit together."""
_PAGE_UNTIL = 100
"""Due items in one answer to which jobs are due."""


_ALWAYS: Mapping[str, Any] = {}
"""The condition of a write that is made in any case."""


def tries(until: datetime | None = None) -> Iterator[None]:
    """Yield for each try of a change that others may meet; end early if a time is given, and the next one is later.

    From the second retry on, there is a pause before each: all processes of a deployment may replace a job at once.
    """
    yield
    for retry in range(TRIES - 1):
        if retry and not slept_before(until, jittered_pause(retry)):
            return
        yield


@dataclass(frozen=True, slots=True)
class _Deadline:
    expire_time: datetime


class JobTable:
    """The items of one store. All reads are strongly consistent; temporary failures are retried.

    On the table, it needs the permissions BatchGetItem, ConditionCheckItem, DeleteItem, GetItem, PutItem, Query and
    UpdateItem.
    """

    def __init__(self, model: type[TaskRow], store: str) -> None:
        self._model = model
        self._hash_key = f"apscheduler#{store}"

    @property
    def _connection(self) -> TableConnection:
        return self._model.tracker.connection()

    def job(self, job_id: str) -> JobItem | None:
        """Return a job, or None."""
        if not is_job_id(job_id):
            return None
        request = {"Key": self._key_of(job_id), "ConsistentRead": True}
        item = send(self._connection, "GetItem", request).get("Item")
        return None if item is None else JobItem.load(item)

    def jobs(self, job_ids: Iterable[str]) -> dict[str, JobItem]:
        """Return those of the jobs that there are, by id."""
        keys = [self._key_of(job_id) for job_id in dict.fromkeys(job_ids)]  # DynamoDB refuses a key that is given twice
        found = map(JobItem.load, get_items(self._connection, keys))
        return {job.job_id: job for job in found}

    def every_job(self, *, whole: bool = True) -> Iterator[JobItem]:
        """Yield all jobs in the order of their ids; without their state if they need not be `whole`."""
        of_jobs = TaskRow.use_case_id.startswith(JOB)
        attributes = None if whole else ["use_case_id", NEXT, WRITE]
        return map(JobItem.load, self._query(of_jobs, attributes_to_get=attributes))

    def due_items(self, until: int | None = None) -> Iterator[DueItem]:
        """Yield when jobs are due, in order, up to a time if one is given."""
        key = TaskRow.use_case_id
        if until is None:
            found = self._query(key.startswith(DUE), limit=_PAGE)
        else:
            found = self._query(key.between(DUE, due_key(until + 1)), limit=_PAGE_UNTIL)
        return filter(None, map(DueItem.load, found))

    def add(self, job: JobItem) -> bool:
        """Put a job and its due item; return whether there was none with its id."""
        is_new = {"ConditionExpression": "attribute_not_exists(task_id)"}
        put = self._put(self._key_of(job.job_id), job.dump(), is_new)
        return self._write([put, *self._due_puts(job)])

    def replace(self, before: JobItem, after: JobItem, until: datetime | None = None) -> bool:
        """Put `after` in place of `before`, and move its due item; return whether that was still the job.

        It is tried `until` then, if a time is given.
        """
        writes = [self._put(self._key_of(after.job_id), after.dump(), _unchanged(before))]
        if before.next != after.next:
            writes += [*self._due_deletes(before), *self._due_puts(after)]
        return self._write(writes, until)

    def remove(self, jobs: Sequence[JobItem], until: datetime | None = None) -> bool:
        """Delete up to 50 jobs with their due items; return whether all of them were still as they are given."""
        deletes = [self._delete(self._key_of(job.job_id), _unchanged(job)) for job in jobs]
        return self._write([*deletes, *(delete for job in jobs for delete in self._due_deletes(job))], until)

    def drop(self, due: DueItem) -> None:
        """Delete a due item, unless the job says that it is due at that time."""
        check = {
            **self._of_table(self._key_of(due.job_id)),
            "ConditionExpression": "attribute_not_exists(#next) OR #next <> :time",
            "ExpressionAttributeNames": {"#next": NEXT},
            "ExpressionAttributeValues": {":time": {"N": str(due.time)}},
        }
        self._write([{"ConditionCheck": check}, self._delete(self._key(due_key(due.time, due.job_id)))])

    def claim(self, due: DueItem, owner: str, until: int, *, expired_before: int) -> bool:
        """Claim a due item that nobody has claimed, or whose claim has expired; return whether that worked.

        An owner may claim its own again, but no late copy of the request shortens the claim.
        """
        return self._update(
            due,
            "SET #owner = :owner, #until = :until",
            "attribute_exists(task_id) AND (attribute_not_exists(#owner) OR #until < :expired "
            "OR (#owner = :owner AND #until <= :until))",
            {":owner": {"S": owner}, ":until": {"N": str(until)}, ":expired": {"N": str(expired_before)}},
        )

    def give_back(self, due: DueItem) -> bool:
        """Remove a claim; return whether it was still this one."""
        values: Item = {":owner": {"S": due.owner}, ":until": {"N": str(due.until)}}
        return self._update(due, "REMOVE #owner, #until", "#owner = :owner AND #until = :until", values)

    def _query(self, condition: Any, **options: Any) -> Iterator[Item]:
        table = self._connection
        found = pages(table, table.query, self._hash_key, condition, consistent_read=True, **options)
        return (item for page in found for item in page["Items"])

    def _write(self, writes: list[dict[str, Any]], until: datetime | None = None) -> bool:
        """Apply all writes or none; return whether their conditions held."""
        if len(writes) == 1:
            ((kind, write),) = writes[0].items()
            try:
                send(self._connection, f"{kind}Item", write, until=until)
            except Refused:
                return False
            return True
        unapplied = transact_write(self._connection, writes, lock=None if until is None else _Deadline(until))
        if unapplied is None:
            return True
        if is_missing_table(unapplied.error.cause):
            raise missing_table(self._connection, unapplied.error.cause)
        if any(reason is not None and reason.code == REFUSED for reason in unapplied.error.cancellation_reasons):
            return False
        raise unapplied.error

    def _update(self, due: DueItem, update: str, condition: str, values: Item) -> bool:
        request = {
            "Key": self._key(due_key(due.time, due.job_id)),
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#owner": OWNER, "#until": UNTIL},
            "ExpressionAttributeValues": values,
        }
        try:
            send(self._connection, "UpdateItem", request)
        except Refused:
            return False
        return True

    def _due_puts(self, job: JobItem) -> list[dict[str, Any]]:
        if job.next is None:
            return []
        return [self._put(self._key(due_key(job.next, job.job_id)), {CHUNK: {"BOOL": True}})]

    def _due_deletes(self, job: JobItem) -> list[dict[str, Any]]:
        return [] if job.next is None else [self._delete(self._key(due_key(job.next, job.job_id)))]

    def _put(self, key: Item, attributes: Item, condition: Mapping[str, Any] = _ALWAYS) -> dict[str, Any]:
        return {"Put": {"TableName": self._connection.table_name, "Item": {**key, **attributes}, **condition}}

    def _delete(self, key: Item, condition: Mapping[str, Any] = _ALWAYS) -> dict[str, Any]:
        return {"Delete": {**self._of_table(key), **condition}}

    def _of_table(self, key: Item) -> dict[str, Any]:
        return {"TableName": self._connection.table_name, "Key": key}

    def _key_of(self, job_id: str) -> Item:
        return self._key(JOB + job_id)

    def _key(self, range_key: str) -> Item:
        return {"task_id": {"S": self._hash_key}, "use_case_id": {"S": range_key}}


def _unchanged(job: JobItem) -> dict[str, Any]:
    """Return the condition that nobody has written the job since: no two writes have the same token."""
    condition: dict[str, Any] = {"ExpressionAttributeNames": {"#write": WRITE}}
    if not job.write:  # somebody else has put the item
        return {**condition, "ConditionExpression": "attribute_exists(task_id) AND attribute_not_exists(#write)"}
    values = {":write": {"S": job.write}}
    return {**condition, "ConditionExpression": "#write = :write", "ExpressionAttributeValues": values}
