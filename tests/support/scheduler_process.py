"""A process with a scheduler on a shared job store, which may be killed between two requests."""

import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.executors.debug import DebugExecutor
from apscheduler.job import Job
from apscheduler.schedulers.background import BackgroundScheduler

from pynamodb_tracker.apscheduler import DynamoDBJobStore, JSONSerializer, Signed
from tests.support.orders import table_at
from tests.support.processes import Worker
from tests.support.worker_process import tell


class SchedulerWorker(Worker):
    main = "tests.support.scheduler_process"


class MortalJobStore(DynamoDBJobStore):
    """A job store that kills its process the third time that it has "claimed" or "updated" jobs."""

    def __init__(self, *args: Any, when: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._when, self._lives = when, 3

    def get_due_jobs(self, now: datetime) -> list[Job]:
        """Claim the due jobs, and perhaps die before submitting any."""
        jobs: list[Job] = super().get_due_jobs(now)
        if jobs:
            self._survive("claimed")
        return jobs

    def update_job(self, job: Job) -> None:
        """Store a submitted job, and perhaps die before submitting the others."""
        super().update_job(job)
        self._survive("updated")

    def _survive(self, what: str) -> None:
        self._lives -= what == self._when
        if not self._lives:
            os.kill(os.getpid(), signal.SIGKILL)


def work() -> None:
    """Do nothing, because the scheduler's events show that a job has run."""


def scheduler_on(
    *, endpoint: str, table: str, name: str, lock_for: float, margin: float, when: str = "never"
) -> BackgroundScheduler:
    """Return a scheduler that runs jobs in its own thread, so that a submitted job ran before the process is killed."""
    store = MortalJobStore(
        table_at(endpoint, table, timedelta(seconds=margin)),
        store=name,
        serializer=Signed(JSONSerializer(["tests.support"]), b"k" * 32),
        lock_for=timedelta(seconds=lock_for),
        look_every=timedelta(seconds=1),
        when=when,
    )
    return BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": DebugExecutor()},
        job_defaults={"misfire_grace_time": None, "coalesce": False},
        timezone=UTC,
    )


def main(settings: dict[str, Any], when: str, log: str) -> None:
    with Path(log).open("a", buffering=1) as lines:

        def note(event: JobExecutionEvent) -> None:
            lines.write(json.dumps([when, event.job_id, event.scheduled_run_time.timestamp()]) + "\n")

        scheduler = scheduler_on(**settings, when=when)
        scheduler.add_listener(note, EVENT_JOB_EXECUTED)
        tell("ready")
        sys.stdin.readline()
        scheduler.start()
        sys.stdin.readline()
        scheduler.shutdown()
