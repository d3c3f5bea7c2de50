"""The jobs that this scheduler runs, from the claim until the table has their next times.

The loop of a scheduler submits a job first, and updates or removes it afterwards. It does not catch errors of these
calls: an error would end the loop, and no job would run again. That is why we keep a failed write, and repeat it before
the scheduler looks for jobs again. Until then the job does not run here.
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
    """The jobs that run here, and those whose end is not in the table yet.

    The loop waits for a write no longer than `patience`, because no other job runs in that time, and claims expire.
    """

    def __init__(self, table: JobTable, codec: JobCodec, patience: timedelta) -> None:
        self.logger = logging.getLogger("apscheduler.jobstores")
        self._table = table
        self._codec = codec
        self._patience = patience
        self._jobs: dict[str, StoredJob] = {}
        self.owed: dict[str, tuple[DueItem, datetime | None]] = {}
        """Writes that failed, by job id: the claim and the next run time. None removes the job after its last run."""
        self._thread: int | None = None

    def begin_look(self) -> None:
        """Forget the jobs of the loop's last look, and repeat the writes that failed.

        Raise PynamoDB's error if the table still cannot be reached. A write that fails for another reason stays owed.
        """
        self._thread = threading.get_ident()
        self._jobs.clear()
        for job_id, (claim, next_run_time) in list(self.owed.items()):
            try:
                self._settle(claim, next_run_time)
            except Exception as error:
                if isinstance(error, PynamoDBException) and is_temporary(error):
                    raise
                self.logger.exception("The next run time of job %r is still not stored: it does not run here", job_id)
            else:
                del self.owed[job_id]
                self._warn_if_late(claim)

    def begin(self, job: StoredJob) -> None:
        """Remember a job that goes to the loop."""
        self._jobs[job.id] = job

    def current(self, job_id: str) -> StoredJob | None:
        """Return the job that the loop runs, if the loop asks."""
        return self._jobs.get(job_id) if self._thread == threading.get_ident() else None

    def end(self, job: StoredJob, claim: DueItem, next_run_time: datetime | None) -> None:
        """Store when the job runs next, or remove it. Keep changes by others. Never raise an Exception."""
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
                "Job %r was submitted, but its next run time is not stored yet: that is tried again before the next "
                "look for jobs; another scheduler runs the same time again after %s",
                job.id,
                claim.expire_time,
            )

    def _warn_if_late(self, claim: DueItem) -> None:
        """Log that the job may have run twice, if the claim has expired by now."""
        if clock.now() > claim.expire_time:
            self.logger.warning(
                "Job %r was submitted for %s, but its end was stored only after its claim had expired at %s: another "
                "scheduler may have run it for the same time",
                claim.job_id,
                time_of(claim.time),
                claim.expire_time,
            )

    def _move(self, job: StoredJob, until: datetime) -> bool:
        """Store the job with its next time. Return False if somebody has changed it."""
        item = self._codec.dump(job)
        if not self._table.replace(job.item, item, until):
            return False
        job.remember(item)
        return True

    def _settle(self, claim: DueItem, next_run_time: datetime | None) -> None:
        """Store the end of a run in the current job, unless somebody has given it another time."""
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
        raise RuntimeError(f"job {claim.job_id!r} was changed again and again meanwhile")

    def give_back(self) -> None:
        """Repeat the failed writes, store the ends of submitted jobs, and give back the other claims.

        If that fails, another scheduler takes these jobs over once the claims have expired.
        """
        left = list(self._jobs.values())
        try:
            self.begin_look()
            for job in left:
                if job.claim is None:
                    continue
                if job.run_times:  # submitted; but APScheduler removes no job once a shutdown has begun
                    self.end(job, job.claim, job.trigger.get_next_fire_time(job.run_times[-1], clock.now()))
                else:
                    self._table.give_back(job.claim)
        except Exception:
            self.logger.warning("Claims could not be given back, and expire on their own", exc_info=True)
