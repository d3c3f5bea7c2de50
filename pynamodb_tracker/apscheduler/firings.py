"""Tracks this scheduler's jobs from the claim until their next run times are stored.

APScheduler's loop submits a job before it updates or removes it, and an error from those calls would end the loop. So a
failed write is kept, and retried before the next look for jobs. Until then, the job does not run.
"""

import logging
import threading
from datetime import datetime, timedelta

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.job_table import DueItem, JobTable, time_of, tries
from pynamodb_tracker.apscheduler.stored_job import JobCodec, StoredJob
from pynamodb_tracker.dynamodb.error_codes import is_temporary
from pynamodb_tracker.dynamodb.retries import ending_by


class Firings:
    """Jobs that run here or have an unstored next run time. A write takes at most `patience`."""

    def __init__(self, table: JobTable, codec: JobCodec, patience: timedelta) -> None:
        self.logger = logging.getLogger("apscheduler.jobstores")
        self._table = table
        self._codec = codec
        self._patience = patience
        self.jobs: dict[str, StoredJob] = {}
        self.owed: dict[str, tuple[DueItem, datetime | None]] = {}
        """Failed writes by job id: the claim, and the next run time or None to remove the job."""
        self._thread: int | None = None

    def begin_look(self) -> None:
        """Forget the last look's jobs, and retry failed writes. Raise if the table is unreachable."""
        self._thread = threading.get_ident()
        self.jobs.clear()
        for job_id, (claim, next_run_time) in list(self.owed.items()):
            try:
                self._settle(claim, next_run_time)
            except Exception as error:
                if isinstance(error, PynamoDBException) and is_temporary(error):
                    raise
                self.logger.exception("Job %r does not run here until its next run time is stored", job_id)
            else:
                del self.owed[job_id]
                self._warn_if_late(claim)

    def current(self, job_id: str) -> StoredJob | None:
        """Return the job if the loop, which runs it, is asking."""
        return self.jobs.get(job_id) if self._thread == threading.get_ident() else None

    def end(self, job: StoredJob, claim: DueItem, next_run_time: datetime | None) -> None:
        """Store the job's next run time, or remove the job. Keep others' changes. Never raise an Exception."""
        self.jobs.pop(job.id, None)
        try:
            until = clock.now() + self._patience
            done = self._table.remove([job.item], until) if next_run_time is None else self._move(job, until)
            if not done:
                self._settle(claim, next_run_time)
            self._warn_if_late(claim)
        except Exception:
            self.owed[job.id] = (claim, next_run_time)
            self.logger.exception(
                "Job %r was submitted, but its next run time could not be stored. This is retried before the next look "
                "for jobs. After %s, another scheduler runs the job for the same time again",
                job.id,
                claim.expire_time,
            )

    def _warn_if_late(self, claim: DueItem) -> None:
        if clock.now() > claim.expire_time:
            self.logger.warning(
                "Job %r was submitted for %s, but its claim expired at %s, before its next run time was stored: "
                "another scheduler may have run it for the same time",
                claim.job_id,
                time_of(claim.time),
                claim.expire_time,
            )

    def _move(self, job: StoredJob, until: datetime) -> bool:
        item = self._codec.dump(job)
        if not self._table.replace(job.item, item, until):
            return False
        job.remember(item)
        return True

    def _settle(self, claim: DueItem, next_run_time: datetime | None) -> None:
        """Store a run's end in the current job, unless somebody else changed its time."""
        until = clock.now() + self._patience
        for _ in tries(until):
            with ending_by(until):
                item = self._table.job(claim.job_id)
            if item is None or item.next != claim.time:  # removed, paused, rescheduled, or stored by the first try
                return
            if next_run_time is None:
                done = self._table.remove([item], until)
            else:
                job = self._codec.load(item)
                job.next_run_time = next_run_time
                done = self._move(job, until)
            if done:
                return
        raise RuntimeError(f"job {claim.job_id!r} kept being changed in the meantime")

    def give_back(self) -> None:
        """Retry failed writes, store submitted jobs' next times, and give back the other claims."""
        left = list(self.jobs.values())
        try:
            self.begin_look()
            for job in left:
                if job.claim is None:
                    continue
                if job.run_times:  # submitted, but APScheduler does not remove jobs during a shutdown
                    self.end(job, job.claim, job.trigger.get_next_fire_time(job.run_times[-1], clock.now()))
                else:
                    self._table.give_back(job.claim)
        except Exception:
            self.logger.warning("Claims could not be given back, and will expire", exc_info=True)
