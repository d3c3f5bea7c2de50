"""The jobs that this scheduler runs, from the claim until the table has their next times.

The loop of a scheduler submits a job first, and updates or removes it afterwards. Nothing there catches what these
calls raise, so it would end the loop, and no job would run again. So a write that fails is owed: it is kept, and made
before the scheduler looks for jobs again. Until then the job does not run here.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.claims import Claim
from pynamodb_tracker.apscheduler.job_table import JobTable, time_of, tries
from pynamodb_tracker.apscheduler.stored_job import JobCodec, StoredJob
from pynamodb_tracker.dynamodb.error_codes import is_temporary
from pynamodb_tracker.dynamodb.retries import ending_by


@dataclass(frozen=True, slots=True)
class _Owed:
    claim: Claim
    next_run_time: datetime | None
    """None if the job has run for the last time, and is to be removed."""


class Firings:
    """What runs here, and which of its ends are not yet stored in the table.

    The loop waits for a write as long as the `patience` says: meanwhile no other job runs, and their claims expire.
    """

    def __init__(self, table: JobTable, codec: JobCodec, patience: timedelta) -> None:
        self.logger = logging.getLogger("apscheduler.jobstores")
        self._table = table
        self._codec = codec
        self._patience = patience
        self._jobs: dict[str, StoredJob] = {}
        self._owed: dict[str, _Owed] = {}
        self._thread: int | None = None

    @property
    def are_owed(self) -> bool:
        """Whether the table lacks an end."""
        return bool(self._owed)

    def owes(self, job_id: str) -> bool:
        """Return whether the table lacks the end of this job's last firing."""
        return job_id in self._owed

    def begin_look(self) -> None:
        """Forget what the loop has left of its last look, and make the writes that are owed.

        PynamoDB's error if the table still cannot be reached. A write that fails for another reason stays owed.
        """
        self._thread = threading.get_ident()
        self._jobs.clear()
        for job_id, owed in list(self._owed.items()):
            try:
                self._settle(owed.claim, owed.next_run_time)
            except Exception as error:
                if isinstance(error, PynamoDBException) and is_temporary(error):
                    raise
                self.logger.exception("The next run time of job %r is still not stored: it does not run here", job_id)
            else:
                del self._owed[job_id]
                self._warn_if_late(owed.claim)

    def begin(self, job: StoredJob) -> None:
        """Take note of a job that is handed to the loop."""
        self._jobs[job.id] = job

    def current(self, job_id: str) -> StoredJob | None:
        """Return the job that the loop runs, if it is the loop that asks."""
        return self._jobs.get(job_id) if self._thread == threading.get_ident() else None

    def end(self, job: StoredJob, claim: Claim, next_run_time: datetime | None) -> None:
        """Store when the job runs next, or remove it; never raises, except for what ends the process.

        Changes that others have made to the job meanwhile are kept.
        """
        self._jobs.pop(job.id, None)
        try:
            until = clock.now() + self._patience
            done = self._table.remove([job.item], until) if next_run_time is None else self._move(job, until)
            if not done:
                self._settle(claim, next_run_time)
            self._warn_if_late(claim)
        except Exception:
            self._owed[job.id] = _Owed(claim, next_run_time)
            self.logger.exception(
                "Job %r was submitted, but its next run time is not stored yet: that is tried again before the next "
                "look for jobs; another scheduler runs the same time again after %s",
                job.id,
                claim.expire_time,
            )

    def _warn_if_late(self, claim: Claim) -> None:
        """Log that the time may have run twice, if its end was stored after its claim had expired."""
        if clock.now() > claim.expire_time:
            self.logger.warning(
                "Job %r was submitted for %s, but its end was stored only after its claim had expired at %s: another "
                "scheduler may have run it for the same time",
                claim.due.job_id,
                time_of(claim.due.time),
                claim.expire_time,
            )

    def _move(self, job: StoredJob, until: datetime) -> bool:
        """Store the job with its next time; return whether nobody had changed the stored one."""
        item = self._codec.dump(job)
        if not self._table.replace(job.item, item, until):
            return False
        job.remember(item)
        return True

    def _settle(self, claim: Claim, next_run_time: datetime | None) -> None:
        """Store the end of a firing in the job as it is now, unless somebody has given it another time."""
        until = clock.now() + self._patience
        for _ in tries(until):
            with ending_by(until):
                item = self._table.job(claim.due.job_id)
            if item is None or item.next != claim.due.time:  # removed, paused, rescheduled, or stored by the first try
                return
            if next_run_time is None:
                done = self._table.remove([item], until)
            else:
                job = self._codec.load(item)
                job.next_run_time = next_run_time
                done = self._move(job, until)
            if done:
                return
        raise RuntimeError(f"job {claim.due.job_id!r} was changed again and again meanwhile")

    def give_back(self) -> None:
        """Make the writes that are owed, store the ends of jobs that were submitted, and give back the other claims.

        What fails is left: another scheduler takes these jobs over once the claims have expired.
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
                    self._table.give_back(job.claim.due)
        except Exception:
            self.logger.warning("Claims could not be given back, and expire on their own", exc_info=True)
