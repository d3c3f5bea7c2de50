"""Jobs from the store: their local changes, their claims, and jobs that cannot be loaded."""

from __future__ import annotations

import logging
import sys
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from apscheduler.job import Job

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.job_table import DueItem, JobItem, micros
from pynamodb_tracker.apscheduler.serializers import JobKey, Serializer
from pynamodb_tracker.dynamodb.limits import MAX_ITEM_BYTES, item_size

_FIELDS = (
    *("trigger", "executor", "func", "func_ref", "args", "kwargs", "name"),
    *("misfire_grace_time", "coalesce", "max_instances", "next_run_time"),
)
"""The attributes that `Job.modify` may change."""

_LONGEST_KEY = 2048 + 1024

_REST = timedelta(minutes=10)
"""How long to wait before retrying a job. A deployment with its code replaces this process anyway."""

_EXITING = (("concurrent.futures.thread", "_shutdown"), ("concurrent.futures.process", "_global_shutdown"))


def is_exiting() -> bool:
    """Return whether the program is exiting, so that its pools no longer accept jobs.

    A scheduler's thread still runs then. It would submit jobs without effect and store their next times.
    """
    return any(getattr(sys.modules.get(module), flag, False) for module, flag in _EXITING)


class StoredJob(Job):  # type: ignore[misc]  # APScheduler is untyped
    """A job that remembers the item from which it was read."""

    __slots__ = ("_read", "claim", "item", "run_times")

    item: JobItem
    """The job's item, as far as this process knows."""
    claim: DueItem | None
    """This process's claim, if it read the job to run it."""
    run_times: list[datetime]
    """The times for which the loop has submitted the job. Empty before that."""
    _read: dict[str, Any]

    @classmethod
    def restore(cls, item: JobItem, state: dict[str, Any]) -> StoredJob:
        """Return the job. Raise an error if its code is missing, or if the state does not belong to the item."""
        job = cls.__new__(cls)
        job.__setstate__(state)
        if job.id != item.job_id:
            raise ValueError(f"the item of job {item.job_id!r} contains the state of {job.id!r}")
        if item.next != (None if job.next_run_time is None else micros(job.next_run_time)):
            raise ValueError(f"the item of job {item.job_id!r} is due at a different time than its state")
        job.claim, job.run_times = None, []
        job.remember(item)
        return job

    def remember(self, item: JobItem) -> None:
        """Remember that this item contains the job's current values."""
        self.item = item
        self._read = {name: getattr(self, name) for name in _FIELDS}

    def rebase(self, current: StoredJob) -> None:
        """Adopt values that others have stored, except for locally changed ones."""
        for name in _FIELDS:
            if getattr(self, name) is self._read[name]:
                setattr(self, name, getattr(current, name))
        self.item, self._read = current.item, current._read

    def _get_run_times(self, now: Any) -> list[Any]:
        """Return the times to run now. Without any, the loop skips the job, as it must after the claim has expired."""
        if self.claim is not None and is_exiting():
            return []
        if self.claim is not None and clock.now() >= self.claim.expire_time:
            logging.getLogger(f"apscheduler.jobstores.{self._jobstore_alias}").warning(
                "The claim of job %r expired at %s, before it was submitted. It is claimed again, or runs elsewhere",
                self.id,
                self.claim.expire_time,
            )
            self.claim = None  # so that a removal by a coroutine in the loop's thread is not mistaken for the loop's
            return []
        self.run_times = super()._get_run_times(now)
        return self.run_times

    def __reduce__(self) -> Any:
        """Pickle as APScheduler's own class, because an executor's processes may not have this one."""
        return object.__new__, (Job,), self.__getstate__()


class JobCodec:
    """Serializes one store's jobs, and restores them for a scheduler."""

    def __init__(self, serializer: Serializer, store: str) -> None:
        self._serializer = serializer
        self._store = store
        self._scheduler: Any = None
        self._alias: str | None = None

    def bind(self, scheduler: Any, alias: str | None) -> None:
        """Restore jobs for this scheduler, which knows the store by that alias."""
        self._scheduler, self._alias = scheduler, alias

    def dump(self, job: Job) -> JobItem:
        """Return an item for the job's next write. Raise a ValueError if it is too large."""
        state = self._serializer.dumps(job.__getstate__(), JobKey(self._store, job.id))
        item = JobItem.new(job.id, state, job.next_run_time)
        if (size := item_size(item.dump()) + _LONGEST_KEY) > MAX_ITEM_BYTES:
            raise ValueError(
                f"job {job.id!r} takes about {size:,} bytes, but an item holds {MAX_ITEM_BYTES:,}: pass the key of its "
                "data as an argument instead of the data"
            )
        return item

    def load(self, item: JobItem) -> StoredJob:
        """Return the job from its item. Errors from the serializer or the job's code propagate."""
        state = self._serializer.loads(item.state, JobKey(self._store, item.job_id))
        job = StoredJob.restore(item, state)
        job._scheduler, job._jobstore_alias = self._scheduler, self._alias  # noqa: SLF001 - job stores have to set them
        return job


@dataclass(frozen=True, slots=True)
class _Failure:
    write: str
    error: Exception
    until: datetime


class UnloadableJobs:
    """Jobs that this process could not load, and why. Other processes may have their code."""

    def __init__(self) -> None:
        self._failures: dict[str, _Failure] = {}

    @property
    def errors(self) -> dict[str, Exception]:
        """The errors by job id."""
        return {job_id: failure.error for job_id, failure in list(self._failures.items())}

    def record(self, item: JobItem, error: Exception) -> bool:
        """Record why a job cannot be loaded. Return whether that is new for this version of it."""
        before = self._failures.get(item.job_id)
        self._failures[item.job_id] = _Failure(item.write, error, clock.now() + _REST)
        return before is None or before.write != item.write

    def rests(self, job_id: str) -> bool:
        """Return whether the job failed to load in the last ten minutes."""
        failure = self._failures.get(job_id)
        return failure is not None and clock.now() < failure.until

    def is_unchanged(self, item: JobItem) -> bool:
        """Return whether the job failed to load recently, and nobody has written it since."""
        return self.rests(item.job_id) and self._failures[item.job_id].write == item.write

    def forget(self, job_id: str) -> None:
        """Forget a job that was loaded, replaced or removed."""
        self._failures.pop(job_id, None)

    def keep(self, job_ids: AbstractSet[str]) -> None:
        """Forget all other jobs."""
        for job_id in self._failures.keys() - job_ids:
            self.forget(job_id)
