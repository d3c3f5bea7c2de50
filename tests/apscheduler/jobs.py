"""Functions of jobs, and stores and jobs as the tests need them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.job import Job
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from pynamodb_tracker import Task, clock
from pynamodb_tracker.apscheduler import DynamoDBJobStore
from tests.support.shop import AppTask

SECOND = timedelta(seconds=1)


def nothing() -> None: ...


def anything(*_args: object, **_kwargs: object) -> None: ...


def at(seconds: float) -> datetime:
    return clock.now() + timedelta(seconds=seconds)


def new_store(table: type[Task] = AppTask, *, scheduler: Any = None, **settings: Any) -> DynamoDBJobStore:
    store = DynamoDBJobStore(table, **settings)
    store.start(scheduler, "default")
    return store


def new_job(job_id: str = "j-1", **settings: Any) -> Any:
    """Return a job that has been due for a second, unless its settings say something else."""
    defaults: dict[str, Any] = {
        "trigger": IntervalTrigger(seconds=60, timezone=UTC),
        "executor": "default",
        "func": "tests.apscheduler.jobs:nothing",
        "args": (),
        "kwargs": {},
        "name": "nothing",
        "misfire_grace_time": None,
        "coalesce": True,
        "max_instances": 1,
        "next_run_time": at(-1),
    }
    return Job(BackgroundScheduler(timezone=UTC), id=job_id, **{**defaults, **settings})


def due(store: DynamoDBJobStore) -> list[str]:
    return [job.id for job in store.get_due_jobs(clock.now())]


def modify(job: Any, **values: Any) -> None:
    """Change a job as `Job.modify` does, without a scheduler."""
    for name, value in values.items():
        setattr(job, name, value)
