"""The items of a job store, one for each job and one more for each time at which a job is due; and their requests.

| hash key `task_id` | range key `use_case_id`                 | attributes                        |
|--------------------|-----------------------------------------|-----------------------------------|
| apscheduler#STORE  | #aps#job#JOB_ID                         | `state`, `next`, `write`, `piece` |
| apscheduler#STORE  | #aps#due#MICROSECONDS#JOB_ID, 18 digits | `owner`, `until`, `piece`         |

The job is the truth; its due item exists as long as the job has a `next` time, and is claimed by the scheduler that
runs it. Each write puts another token into `write`, and replaces the job only if nobody has written it since. `piece`
hides the items from `scan`, `query` and `count` of tasks, and without a `status_key` no index has them. No range key of
a task begins with "#", because no use case has an empty name.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from pynamodb.connection.table import TableConnection

from pynamodb_tracker.arguments import check_key
from pynamodb_tracker.dynamodb.connection import Item, Refused, get_items, missing_table, pages, send
from pynamodb_tracker.dynamodb.error_codes import is_missing_table
from pynamodb_tracker.dynamodb.partiql import IF_ABSENT
from pynamodb_tracker.dynamodb.retries import slept_before_retry
from pynamodb_tracker.dynamodb.transact_write import REFUSED, transact_write
from pynamodb_tracker.model.overflow import CHUNK
from pynamodb_tracker.model.row import TaskRow

JOB, DUE = "#aps#job#", "#aps#due#"
STATE, NEXT, WRITE, OWNER, UNTIL = "state", "next", "write", "owner", "until"

_LONGEST_JOB_ID = 990
"""Bytes; a range key has up to 1024 of them: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html"""

MOST_REMOVED = 50
"""Jobs in one transaction: each has up to two items, and a transaction has up to 100 of them.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""

TRIES = 8
"""How often a change of a job is tried that others change, too."""

_PAGE = 25
"""Due items in one response to when the next job is due: mostly enough, and they take one read unit together."""
_PAGE_UNTIL = 100
"""Due items in one response to which jobs are due."""

_ALWAYS: Mapping[str, Any] = {}
"""The condition of a write that is made in any case."""

_DIGITS = 18
_EPOCH = datetime(1, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(time: datetime) -> int:
    """Return a time as it is stored: whole microseconds since the year 1, which keep any datetime exactly."""
    return (time.astimezone(UTC) - _EPOCH) // _MICROSECOND


def time_of(stored: int) -> datetime:
    """Return the time, in UTC."""
    return _EPOCH + stored * _MICROSECOND


_LATEST = micros(datetime.max.replace(tzinfo=UTC))
_LATEST_CLAIM = micros(datetime(9999, 1, 1, tzinfo=UTC))
"""No claim ends later: there is always a time at which it has expired."""


def _check_job_id(job_id: str) -> str:
    """Return the id of a job; ValueError if it does not fit into a key of the table."""
    if len(check_key("job id", job_id).encode()) > _LONGEST_JOB_ID:
        raise ValueError(f"a job id has at most {_LONGEST_JOB_ID} bytes: {job_id[:40]!r}")
    return job_id


def _due_key(time: int, job_id: str = "") -> str:
    """Return the range key of a due item; without a job, one before all due items of that time."""
    return f"{DUE}{time:0{_DIGITS}}{'#' if job_id else ''}{job_id}"


@dataclass(frozen=True, slots=True)
class JobItem:
    """A job as it is stored."""

    job_id: str
    state: bytes
    """The job, serialized."""
    next: int | None
    """When it runs next; None while it is paused."""
    write: str
    """The token of the write that put it."""

    @classmethod
    def new(cls, job_id: str, state: bytes, next_run_time: datetime | None) -> Self:
        """Return an item for the next write."""
        time = None if next_run_time is None else micros(next_run_time)
        return cls(_check_job_id(job_id), state, time, secrets.token_hex(8))

    @classmethod
    def load(cls, item: Item) -> Self:
        """Return the job of an item; what somebody else has damaged reads as empty, so that it fails to load."""
        return cls(
            job_id=item["use_case_id"]["S"].removeprefix(JOB),
            state=bytes(item.get(STATE, {}).get("B", b"")),
            next=_whole(item.get(NEXT, {}).get("N", "")),
            write=item.get(WRITE, {}).get("S", ""),
        )

    def dump(self) -> Item:
        """Return its attributes, without the key."""
        time: Item = {} if self.next is None else {NEXT: {"N": str(self.next)}}
        return {STATE: {"B": self.state}, WRITE: {"S": self.write}, CHUNK: {"BOOL": True}, **time}


@dataclass(frozen=True, slots=True)
class DueItem:
    """A time at which a job is due, and who has claimed it."""

    job_id: str
    time: int
    owner: str | None = None
    until: int = 0
    """When the claim expires, by the clock of its owner."""

    @classmethod
    def load(cls, item: Item) -> Self | None:
        """Return what an item says; None for one whose key is no due time, which this package has not written."""
        key = item["use_case_id"]["S"].removeprefix(DUE)
        time = _whole(key[:_DIGITS])
        if time is None:
            return None
        return cls(
            key[_DIGITS + 1 :],
            time,
            item.get(OWNER, {}).get("S"),
            _whole(item.get(UNTIL, {}).get("N", ""), _LATEST_CLAIM) or 0,
        )


def _whole(text: str, most: int = _LATEST) -> int | None:
    """Return a number of microseconds; None for what is no time, or too late a one."""
    return int(text) if text.isdecimal() and int(text) <= most else None


def tries(until: datetime | None = None) -> Iterator[None]:
    """Yield for each try of a change that others may meet; end early if a time is given, and the next one is later.

    From the second retry on, there is a pause before each: all processes of a deployment may replace a job at once.
    """
    yield
    for retry in range(TRIES - 1):
        if retry and not slept_before_retry(retry, until):
            return
        yield


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
        """Return a job, or None; what fits into no key is the id of a job in another store."""
        try:
            _check_job_id(job_id)
        except ValueError:
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
            found = self._query(key.between(DUE, _due_key(until + 1)), limit=_PAGE_UNTIL)
        return filter(None, map(DueItem.load, found))

    def add(self, job: JobItem) -> bool:
        """Put a job and its due item; return whether there was none with its id."""
        put = self._put(self._key_of(job.job_id), job.dump(), IF_ABSENT)
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
        self._write([{"ConditionCheck": check}, self._delete(self._key(_due_key(due.time, due.job_id)))])

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
        unapplied = transact_write(self._connection, writes, until=until)
        if unapplied is None:
            return True
        if is_missing_table(unapplied.error.cause):
            raise missing_table(self._connection, unapplied.error.cause)
        if any(reason is not None and reason.code == REFUSED for reason in unapplied.error.cancellation_reasons):
            return False
        raise unapplied.error

    def _update(self, due: DueItem, update: str, condition: str, values: Item) -> bool:
        request = {
            **self._of_table(self._key(_due_key(due.time, due.job_id))),
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#owner": OWNER, "#until": UNTIL},
            "ExpressionAttributeValues": values,
        }
        return self._write([{"Update": request}])

    def _due_puts(self, job: JobItem) -> list[dict[str, Any]]:
        if job.next is None:
            return []
        return [self._put(self._key(_due_key(job.next, job.job_id)), {CHUNK: {"BOOL": True}})]

    def _due_deletes(self, job: JobItem) -> list[dict[str, Any]]:
        return [] if job.next is None else [self._delete(self._key(_due_key(job.next, job.job_id)))]

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
