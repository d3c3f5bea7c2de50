"""Jobs from the store, and jobs that cannot be loaded."""

import logging
import sys
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from apscheduler.job import Job

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.job_table import DueItem, JobItem, micros
from pynamodb_tracker.apscheduler.serializers import JobKey, Serializer
from pynamodb_tracker.dynamodb.limits import MAX_ITEM_BYTES, item_size

_FIELDS = (
    *("trigger", "executor", "func", "func_ref", "args", "kwargs", "name"),
    *("misfire_grace_time", "coalesce", "max_instances", "next_run_time"),
)
"""What `Job.modify` may change."""

_LONGEST_KEY = 2048 + 1024

_REST = timedelta(minutes=10)

_EXITING = (("concurrent.futures.thread", "_shutdown"), ("concurrent.futures.process", "_global_shutdown"))


def is_exiting() -> bool:
    """Return whether the program is exiting, so that its pools would not run a submitted job."""
    return any(getattr(sys.modules.get(module), flag, False) for module, flag in _EXITING)


class StoredJob(Job):  # type: ignore[misc]  # APScheduler is untyped
    __slots__ = ("_read", "claim", "item", "run_times")

    item: JobItem
    claim: DueItem | None
    run_times: list[datetime]  # for which the loop submitted the job
    _read: dict[str, Any]

    @classmethod
    def restore(cls, item: JobItem, state: dict[str, Any]) -> Self:
        """Return the job. Raise if its code is missing, or if the state does not belong to the item."""
        job = cls.__new__(cls)
        job.__setstate__(state)
        if job.id != item.job_id:
            raise ValueError(f"the item of job {item.job_id!r} contains the state of {job.id!r}")
        if item.next != (None if job.next_run_time is None else micros(job.next_run_time)):
            raise ValueError(f"the item and the state of job {item.job_id!r} have different next run times")
        job.claim, job.run_times = None, []
        job.remember(item)
        return job

    def remember(self, item: JobItem) -> None:
        self.item = item
        self._read = {name: getattr(self, name) for name in _FIELDS}

    def rebase(self, current: Self) -> None:
        """Take over values that others stored, except where this process changed them."""
        for name in _FIELDS:
            if getattr(self, name) is self._read[name]:
                setattr(self, name, getattr(current, name))
        self.item, self._read = current.item, current._read

    def _get_run_times(self, now: Any) -> list[Any]:
        """Return the times to run now, or none after the claim has expired, so that the loop skips the job."""
        if self.claim is not None and is_exiting():
            return []
        if self.claim is not None and clock.now() >= self.claim.expire_time:
            logging.getLogger(f"apscheduler.jobstores.{self._jobstore_alias}").warning(
                "The claim of job %r expired at %s, before it was submitted. Some scheduler claims it again",
                self.id,
                self.claim.expire_time,
            )
            self.claim = None  # or a removal by a coroutine in the loop's thread would look like the loop's
            return []
        self.run_times = super()._get_run_times(now)
        return self.run_times

    def __reduce__(self) -> Any:
        """Pickle as APScheduler's class, because an executor's processes may lack this one."""
        return object.__new__, (Job,), self.__getstate__()


class JobCodec:
    def __init__(self, serializer: Serializer, store: str) -> None:
        self._serializer = serializer
        self._store = store
        self.scheduler: Any = None  # for which jobs are restored
        self.alias: str | None = None

    def dump(self, job: Job) -> JobItem:
        """Return an item for the job's next write. Raise ValueError if it is too large."""
        state = self._serializer.dumps(job.__getstate__(), JobKey(self._store, job.id))
        item = JobItem.new(job.id, state, job.next_run_time)
        if (size := item_size(item.dump()) + _LONGEST_KEY) > MAX_ITEM_BYTES:
            raise ValueError(
                f"job {job.id!r} takes about {size:,} of at most {MAX_ITEM_BYTES:,} bytes: as its argument, pass a key "
                "instead of the data"
            )
        return item

    def load(self, item: JobItem) -> StoredJob:
        state = self._serializer.loads(item.state, JobKey(self._store, item.job_id))
        job = StoredJob.restore(item, state)
        job._scheduler, job._jobstore_alias = self.scheduler, self.alias  # noqa: SLF001 - job stores have to set them
        return job


@dataclass(frozen=True, slots=True)
class _Failure:
    write: str
    error: Exception
    until: datetime


class UnloadableJobs:
    """Jobs that this process could not load. Other processes may have their code."""

    def __init__(self) -> None:
        self._failures: dict[str, _Failure] = {}

    @property
    def errors(self) -> dict[str, Exception]:
        return {job_id: failure.error for job_id, failure in list(self._failures.items())}

    def record(self, item: JobItem, error: Exception) -> bool:
        """Record why a job cannot be loaded. Return True at its first failure since it was written."""
        before = self._failures.get(item.job_id)
        self._failures[item.job_id] = _Failure(item.write, error, clock.now() + _REST)
        return before is None or before.write != item.write

    def rests(self, job_id: str) -> bool:
        """Return whether the job failed to load in the last ten minutes."""
        failure = self._failures.get(job_id)
        return failure is not None and clock.now() < failure.until

    def is_unchanged(self, item: JobItem) -> bool:
        """Return whether the job rests, and nobody has written it since its failure."""
        return self.rests(item.job_id) and self._failures[item.job_id].write == item.write

    def forget(self, job_id: str) -> None:
        self._failures.pop(job_id, None)

    def keep(self, job_ids: AbstractSet[str]) -> None:
        for job_id in self._failures.keys() - job_ids:
            self.forget(job_id)
