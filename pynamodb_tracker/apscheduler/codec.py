"""Between a job and its item: what APScheduler has in memory, and what the table has."""

from __future__ import annotations

from typing import Any

from apscheduler.job import Job

from pynamodb_tracker.apscheduler.items import JobItem
from pynamodb_tracker.apscheduler.serializers import JobKey, Serializer
from pynamodb_tracker.apscheduler.stored_job import StoredJob
from pynamodb_tracker.dynamodb.limits import MAX_ITEM_BYTES, item_size

_LONGEST_KEY = 2048 + 1024


class JobCodec:
    """Serializes the jobs of one store, and restores them for a scheduler."""

    def __init__(self, serializer: Serializer, store: str) -> None:
        self._serializer = serializer
        self._store = store
        self._scheduler: Any = None
        self._alias: str | None = None

    def bind(self, scheduler: Any, alias: str | None) -> None:
        """Restore jobs for this scheduler, which calls the store by that alias."""
        self._scheduler, self._alias = scheduler, alias

    def dump(self, job: Job) -> JobItem:
        """Return an item for the next write of the job; ValueError if DynamoDB would refuse it."""
        state = self._serializer.dumps(job.__getstate__(), JobKey(self._store, job.id))
        item = JobItem.new(job.id, state, job.next_run_time)
        if (size := item_size(item.dump()) + _LONGEST_KEY) > MAX_ITEM_BYTES:
            raise ValueError(
                f"job {job.id!r} takes about {size:,} bytes, and an item has at most {MAX_ITEM_BYTES:,}: give it the "
                "key of its data as an argument, not the data"
            )
        return item

    def load(self, item: JobItem) -> StoredJob:
        """Return the job of an item; what its serializer or its code raises leaves."""
        state = self._serializer.loads(item.state, JobKey(self._store, item.job_id))
        job = StoredJob.restore(item, state)
        job._scheduler, job._jobstore_alias = self._scheduler, self._alias  # noqa: SLF001 - as the job store has to
        return job
