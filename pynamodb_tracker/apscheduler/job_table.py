"""Stores jobs: one item per job, one per due time, and claims on due times.

| hash key `task_id` | range key `use_case_id`                 | attributes                        |
|--------------------|-----------------------------------------|-----------------------------------|
| apscheduler#STORE  | #aps#job#JOB_ID                         | `state`, `next`, `write`, `piece` |
| apscheduler#STORE  | #aps#due#MICROSECONDS#JOB_ID, 18 digits | `owner`, `until`, `piece`         |

The job item is decisive. Its due item exists while it has a `next` time. Each write puts a new token into `write`, and
only replaces the version that it knows. `piece` hides the items from task queries, and without a `status_key` they are
not in the index. A task's range key never begins with "#".

A scheduler claims a job's due item to run the job:

A  claims for lock_for |-- submits the job -- moves its due item to the next time --|
B                      |-- finds the claim, and looks again when it ends --|
B, if A died           |-- waits until the claim and clock_margin are over -- claims it, and runs that time --|
"""

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Self

from pynamodb.connection.table import TableConnection

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused, get_items, missing_table, pages, send
from pynamodb_tracker.dynamodb.error_codes import is_missing_table
from pynamodb_tracker.dynamodb.partiql import IF_ABSENT
from pynamodb_tracker.dynamodb.retries import slept_before_retry
from pynamodb_tracker.dynamodb.transact_write import REFUSED, transact_write
from pynamodb_tracker.model.arguments import check_key
from pynamodb_tracker.model.overflow import CHUNK
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.worker_name import this_worker

JOB, DUE = "#aps#job#", "#aps#due#"
STATE, NEXT, WRITE, OWNER, UNTIL = "state", "next", "write", "owner", "until"

_LONGEST_JOB_ID = 990
"""In bytes, out of a range key's 1024: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html"""

MOST_REMOVED = 50  # in a transaction, which has up to 100 items
TRIES = 8

_PAGE = 25
_PAGE_UNTIL = 100  # due items per response, for the next due time, and for due jobs

_DIGITS = 18
_EPOCH = datetime(1, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(time: datetime) -> int:
    """Return a time as exact microseconds since the year 1."""
    return (time.astimezone(UTC) - _EPOCH) // _MICROSECOND


def time_of(stored: int) -> datetime:
    return _EPOCH + stored * _MICROSECOND


_LATEST = micros(datetime.max.replace(tzinfo=UTC))
_LATEST_CLAIM = micros(datetime(9999, 1, 1, tzinfo=UTC))


def _check_job_id(job_id: str) -> str:
    if len(check_key("job id", job_id).encode()) > _LONGEST_JOB_ID:
        raise ValueError(f"a job id has at most {_LONGEST_JOB_ID} bytes: {job_id[:40]!r}")
    return job_id


def _due_key(time: int, job_id: str = "") -> str:
    return f"{DUE}{time:0{_DIGITS}}{'#' if job_id else ''}{job_id}"


@dataclass(frozen=True, slots=True)
class JobItem:
    job_id: str
    state: bytes
    next: int | None  # the next run, or None while the job is paused
    write: str  # the last write's token

    @classmethod
    def new(cls, job_id: str, state: bytes, next_run_time: datetime | None) -> Self:
        time = None if next_run_time is None else micros(next_run_time)
        return cls(_check_job_id(job_id), state, time, secrets.token_hex(8))

    @classmethod
    def load(cls, item: Item) -> Self:
        """Return the job from its item. If attributes are damaged, loading the job fails later."""
        return cls(
            job_id=item["use_case_id"]["S"].removeprefix(JOB),
            state=bytes(item.get(STATE, {}).get("B", b"")),
            next=_parse_micros(item.get(NEXT, {}).get("N", "")),
            write=item.get(WRITE, {}).get("S", ""),
        )

    def dump(self) -> Item:
        time: Item = {} if self.next is None else {NEXT: {"N": str(self.next)}}
        return {STATE: {"B": self.state}, WRITE: {"S": self.write}, CHUNK: {"BOOL": True}, **time}


@dataclass(frozen=True, slots=True)
class DueItem:
    job_id: str
    time: int
    owner: str | None = None
    until: int = 0  # the end of the claim by its owner's clock, in microseconds

    @classmethod
    def load(cls, item: Item) -> Self | None:
        """Return the due time from its item, or None for somebody else's item."""
        key = item["use_case_id"]["S"].removeprefix(DUE)
        time = _parse_micros(key[:_DIGITS])
        if time is None:
            return None
        until = _parse_micros(item.get(UNTIL, {}).get("N", ""), _LATEST_CLAIM) or 0
        return cls(key[_DIGITS + 1 :], time, item.get(OWNER, {}).get("S"), until)

    @property
    def expire_time(self) -> datetime:
        return time_of(self.until)


def _parse_micros(text: str, most: int = _LATEST) -> int | None:
    return int(text) if text.isdecimal() and int(text) <= most else None


def tries(until: datetime | None = None) -> Iterator[None]:
    """Yield per try of a change that may collide, with pauses from the second retry on."""
    yield
    for retry in range(TRIES - 1):
        if retry and not slept_before_retry(retry, until):
            return
        yield


class JobTable:
    """One store's items. Reads are strongly consistent, and temporary failures are retried.

    Permissions: BatchGetItem, ConditionCheckItem, DeleteItem, GetItem, PutItem, Query and UpdateItem.
    """

    def __init__(self, model: type[TaskRow], store: str, lock_for: timedelta) -> None:
        self._model = model
        self._hash_key = f"apscheduler#{store}"
        self._lock_for = lock_for
        self._process = 0
        self._owner = ""

    @property
    def _connection(self) -> TableConnection:
        return self._model.tracker.connection()

    def job(self, job_id: str) -> JobItem | None:
        """Return a job, or None. An id that is too long belongs to another job store."""
        try:
            _check_job_id(job_id)
        except ValueError:
            return None
        request = {"Key": self._job_key(job_id), "ConsistentRead": True}
        item = send(self._connection, "GetItem", request).get("Item")
        return None if item is None else JobItem.load(item)

    def jobs(self, job_ids: Iterable[str]) -> dict[str, JobItem]:
        keys = [self._job_key(job_id) for job_id in dict.fromkeys(job_ids)]  # DynamoDB refuses duplicate keys
        return {job.job_id: job for job in map(JobItem.load, get_items(self._connection, keys))}

    def every_job(self, *, whole: bool = True) -> Iterator[JobItem]:
        """Yield all jobs by id, without their state unless `whole`."""
        attributes = None if whole else ["use_case_id", NEXT, WRITE]
        return map(JobItem.load, self._query(TaskRow.use_case_id.startswith(JOB), attributes_to_get=attributes))

    def due_items(self, until: datetime | None = None) -> Iterator[DueItem]:
        if until is None:
            found = self._query(TaskRow.use_case_id.startswith(DUE), limit=_PAGE)
        else:
            found = self._query(TaskRow.use_case_id.between(DUE, _due_key(micros(until) + 1)), limit=_PAGE_UNTIL)
        return filter(None, map(DueItem.load, found))

    def add(self, job: JobItem) -> bool:
        """Store a new job with its due item. Return False if the id exists."""
        return self._write([self._put(self._job_key(job.job_id), job.dump(), IF_ABSENT), *self._due_puts(job)])

    def replace(self, before: JobItem, after: JobItem, until: datetime | None = None) -> bool:
        """Replace a job and move its due item. Return False if somebody else changed it. Retry until `until`."""
        writes = [self._put(self._job_key(after.job_id), after.dump(), _unchanged_condition(before))]
        if before.next != after.next:
            writes += [*self._due_deletes(before), *self._due_puts(after)]
        return self._write(writes, until)

    def remove(self, jobs: Sequence[JobItem], until: datetime | None = None) -> bool:
        """Delete up to 50 jobs and their due items. Return False if somebody else changed one."""
        deletes = [self._delete(self._job_key(job.job_id), _unchanged_condition(job)) for job in jobs]
        return self._write([*deletes, *(delete for job in jobs for delete in self._due_deletes(job))], until)

    def drop(self, due: DueItem) -> None:
        """Delete a due item, unless its job is due at that time."""
        check = {
            **self._table_and_key(self._job_key(due.job_id)),
            "ConditionExpression": "attribute_not_exists(#next) OR #next <> :time",
            "ExpressionAttributeNames": {"#next": NEXT},
            "ExpressionAttributeValues": {":time": {"N": str(due.time)}},
        }
        self._write([{"ConditionCheck": check}, self._delete(self._key(_due_key(due.time, due.job_id)))])

    def is_free(self, due: DueItem, now: datetime) -> bool:
        return due.owner in {None, self.owner} or self.free_from(due) <= now

    def free_from(self, due: DueItem) -> datetime:
        """Return when another scheduler's claim has certainly expired, if clocks differ by `clock_margin`."""
        return time_of(due.until + 1) + self._model.tracker.margin

    def claim(self, due: DueItem) -> DueItem | None:
        """Claim a due item and return it with the claim, or None if another scheduler was first."""
        now = clock.now()
        mine = replace(due, owner=self.owner, until=micros(now + self._lock_for))
        expired = str(micros(now - self._model.tracker.margin))
        is_claimed = self._update(
            due,
            "SET #owner = :owner, #until = :until",
            "attribute_exists(task_id) AND (attribute_not_exists(#owner) OR #until < :expired "
            "OR (#owner = :owner AND #until <= :until))",
            {":owner": {"S": mine.owner}, ":until": {"N": str(mine.until)}, ":expired": {"N": expired}},
        )
        return mine if is_claimed else None

    @property
    def owner(self) -> str:
        """This process's name in claims, which changes after a fork."""
        if self._process != os.getpid():
            self._owner, self._process = f"{this_worker()}:{secrets.token_hex(8)}", os.getpid()
        return self._owner

    def give_back(self, claim: DueItem) -> None:
        values: Item = {":owner": {"S": claim.owner}, ":until": {"N": str(claim.until)}}
        self._update(claim, "REMOVE #owner, #until", "#owner = :owner AND #until = :until", values)

    def _query(self, condition: Any, **options: Any) -> Iterator[Item]:
        table = self._connection
        found = pages(table, table.query, self._hash_key, condition, consistent_read=True, **options)
        return (item for page in found for item in page["Items"])

    def _write(self, writes: list[dict[str, Any]], until: datetime | None = None) -> bool:
        """Apply all writes, or none and return False."""
        if len(writes) == 1:
            ((kind, write),) = writes[0].items()
            try:
                send(self._connection, f"{kind}Item", write, until=until)
            except Refused:
                return False
            return True
        unconfirmed = transact_write(self._connection, writes, until=until)
        if unconfirmed is None:
            return True
        if is_missing_table(unconfirmed.error.cause):
            raise missing_table(self._connection, unconfirmed.error.cause)
        if any(reason is not None and reason.code == REFUSED for reason in unconfirmed.error.cancellation_reasons):
            return False
        raise unconfirmed.error

    def _update(self, due: DueItem, update: str, condition: str, values: Item) -> bool:
        request = {
            **self._table_and_key(self._key(_due_key(due.time, due.job_id))),
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

    def _put(self, key: Item, attributes: Item, condition: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        return {"Put": {"TableName": self._connection.table_name, "Item": {**key, **attributes}, **condition}}

    def _delete(self, key: Item, condition: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        return {"Delete": {**self._table_and_key(key), **condition}}

    def _table_and_key(self, key: Item) -> dict[str, Any]:
        return {"TableName": self._connection.table_name, "Key": key}

    def _job_key(self, job_id: str) -> Item:
        return self._key(JOB + job_id)

    def _key(self, range_key: str) -> Item:
        return {"task_id": {"S": self._hash_key}, "use_case_id": {"S": range_key}}


def _unchanged_condition(job: JobItem) -> dict[str, Any]:
    condition: dict[str, Any] = {"ExpressionAttributeNames": {"#write": WRITE}}
    if not job.write:  # another program wrote the item
        return {**condition, "ConditionExpression": "attribute_exists(task_id) AND attribute_not_exists(#write)"}
    values = {":write": {"S": job.write}}
    return {**condition, "ConditionExpression": "#write = :write", "ExpressionAttributeValues": values}
