"""Jobs that this process cannot load: they are left alone, because others may have their code."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.items import JobItem

_REST = timedelta(minutes=10)
"""How long a job is not tried again: its code may come with a deployment that replaces this process anyway."""


@dataclass(frozen=True, slots=True)
class _Failure:
    write: str
    error: Exception
    until: datetime


class UnloadableJobs:
    """What could not be loaded, and why."""

    def __init__(self) -> None:
        self._failures: dict[str, _Failure] = {}

    @property
    def errors(self) -> dict[str, Exception]:
        """The reasons by the ids of the jobs."""
        return {job_id: failure.error for job_id, failure in list(self._failures.items())}

    def record(self, item: JobItem, error: Exception) -> bool:
        """Record why a job cannot be loaded; return whether that was not known for this version of it."""
        before = self._failures.get(item.job_id)
        self._failures[item.job_id] = _Failure(item.write, error, clock.now() + _REST)
        return before is None or before.write != item.write

    def rests(self, job_id: str) -> bool:
        """Return whether the job failed to load lately."""
        failure = self._failures.get(job_id)
        return failure is not None and clock.now() < failure.until

    def is_unchanged(self, item: JobItem) -> bool:
        """Return whether the job rests, and nobody has written it since it failed to load."""
        return self.rests(item.job_id) and self._failures[item.job_id].write == item.write

    def forget(self, job_id: str) -> None:
        """Forget a job that could be loaded, was replaced, or is gone."""
        self._failures.pop(job_id, None)

    def keep(self, job_ids: AbstractSet[str]) -> None:
        """Forget all but these jobs."""
        for job_id in self._failures.keys() - job_ids:
            self.forget(job_id)
