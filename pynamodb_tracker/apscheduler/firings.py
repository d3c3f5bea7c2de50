"""Tracks this scheduler's jobs from the claim until their next run times are stored.

A scheduler's loop submits a job first, and updates or removes it afterwards. An error from these calls would end the
loop. That is why a failed write is kept, and retried before the next look for jobs. Until then, the job does not run.
"""

from __future__ import annotations

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
    """Jobs that run here, or whose next run time is not stored yet. The loop waits for a write up to `patience`."""

    def __init__(self, table: JobTable, codec: JobCodec, patience: timedelta) -> None:
        self.logger = logging.getLogger("apscheduler.jobstores")
        self._table = table
        self._codec = codec
        self._patience = patience
        self._jobs: dict[str, StoredJob] = {}
        self.owed: dict[str, tuple[DueItem, datetime | None]] = {}
        """Failed writes by job id: the claim and the next run time. None removes the job after its last run."""
        self._thread: int | None = None

    def begin_look(self) -> None:
        """Forget the jobs from the last look, and retry the failed writes. Raise if the table cannot be reached."""
        self._thread = threading.get_ident()
        self._jobs.clear()
        for job_id, (claim, next_run_time) in list(self.owed.items()):
            try:
                self._settle(claim, next_run_time)
            except Exception as error:
                if isinstance(error, PynamoDBException) and is_temporary(error):
                    raise
                self.logger.exception("Job %r does not run here, because its next run time is still not stored", job_id)
            else:
                del self.owed[job_id]
                self._warn_if_late(claim)

    def begin(self, job: StoredJob) -> None:
        """Remember a job that is passed to the loop."""
        self._jobs[job.id] = job

    def current(self, job_id: str) -> StoredJob | None:
        """Return the job that the loop runs, if the loop itself is asking."""
        return self._jobs.get(job_id) if self._thread == threading.get_ident() else None

    def end(self, job: StoredJob, claim: DueItem, next_run_time: datetime | None) -> None:
        """Store the job's next run time, or remove it. Keep changes by others. Never raise an Exception."""
        self._jobs.pop(job.id, None)
        try:
            until = clock.now() + self._patience
            done = self._table.remove([job.item], until) if next_run_time is None else self._move(job, until)
            if not done:
                self._settle(claim, next_run_time)
            self._warn_if_late(claim)
        except Exception:
            self.owed[job.id] = (claim, next_run_time)
            self.logger.exception(
                "Job %r was submitted, but its next run time is not stored yet. This is retried before the next look "
                "for jobs. Another scheduler runs it for the same time again after %s",
                job.id,
                claim.expire_time,
            )

    def _warn_if_late(self, claim: DueItem) -> None:
        if clock.now() > claim.expire_time:
            self.logger.warning(
                "Job %r was submitted for %s, but its next run time was stored only after its claim had expired at %s: "
                "another scheduler may have run it for the same time",
                claim.job_id,
                time_of(claim.time),
                claim.expire_time,
            )

    def _move(self, job: StoredJob, until: datetime) -> bool:
        """Store the job with its next run time. Return False if somebody has changed it."""
        item = self._codec.dump(job)
        if not self._table.replace(job.item, item, until):
            return False
        job.remember(item)
        return True

    def _settle(self, claim: DueItem, next_run_time: datetime | None) -> None:
        """Store a run's end in the current job, unless somebody has changed the job's time."""
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
        """Retry the failed writes, store the next times of submitted jobs, and give back the other claims."""
        left = list(self._jobs.values())
        try:
            self.begin_look()
            for job in left:
                if job.claim is None:
                    continue
                if job.run_times:  # submitted, but during a shutdown, APScheduler does not remove jobs
                    self.end(job, job.claim, job.trigger.get_next_fire_time(job.run_times[-1], clock.now()))
                else:
                    self._table.give_back(job.claim)
        except Exception:
            self.logger.warning("Claims could not be given back, so they will expire", exc_info=True)
