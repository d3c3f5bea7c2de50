"""The items of a job store: one for each job, and one more for each time at which a job is due.

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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from pynamodb_tracker.arguments import check_key
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.overflow import CHUNK

JOB, DUE = "#aps#job#", "#aps#due#"
STATE, NEXT, WRITE, OWNER, UNTIL = "state", "next", "write", "owner", "until"

_LONGEST_JOB_ID = 990
"""Bytes; a range key has up to 1024 of them: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html"""

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


def check_job_id(job_id: str) -> str:
    """Return the id of a job; ValueError if it does not fit into a key of the table."""
    if len(check_key("job id", job_id).encode()) > _LONGEST_JOB_ID:
        raise ValueError(f"a job id has at most {_LONGEST_JOB_ID} bytes: {job_id[:40]!r}")
    return job_id


def is_job_id(job_id: str) -> bool:
    """Return whether there may be a job of that id; what fits into no key is the id of a job in another store."""
    try:
        check_job_id(job_id)
    except ValueError:
        return False
    return True


def due_key(time: int, job_id: str = "") -> str:
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
        return cls(check_job_id(job_id), state, time, secrets.token_hex(8))

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
