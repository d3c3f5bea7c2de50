"""A job that was read from the store: its changes since then, and the claim under which it runs."""

from __future__ import annotations

import logging
import sys
from datetime import datetime
from typing import Any

from apscheduler.job import Job

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.claims import Claim
from pynamodb_tracker.apscheduler.items import JobItem, micros

_FIELDS = (
    *("trigger", "executor", "func", "func_ref", "args", "kwargs", "name"),
    *("misfire_grace_time", "coalesce", "max_instances", "next_run_time"),
)
"""What `Job.modify` may change."""


_EXITING = (("concurrent.futures.thread", "_shutdown"), ("concurrent.futures.process", "_global_shutdown"))


def is_exiting() -> bool:
    """Return whether the program has ended, except for what its pools still run: they take no more jobs.

    The thread of a scheduler that was not shut down goes on meanwhile. It would submit jobs in vain, and store their
    next times, so that nobody runs them. Python has no public sign of this.
    """
    return any(getattr(sys.modules.get(module), flag, False) for module, flag in _EXITING)


class StoredJob(Job):  # type: ignore[misc]  # APScheduler is untyped
    """A job that knows which item it was read from."""

    __slots__ = ("_read", "claim", "item", "run_times")

    item: JobItem
    """The job as it is stored, as far as this process knows."""
    claim: Claim | None
    """The claim of this process, if the job was read in order to run it."""
    run_times: list[datetime]
    """The times for which the loop submits the job; empty before that."""
    _read: dict[str, Any]

    @classmethod
    def restore(cls, item: JobItem, state: dict[str, Any]) -> StoredJob:
        """Return the job; an error if its code is not there, or if its state is not the one of this item."""
        job = cls.__new__(cls)
        job.__setstate__(state)
        if job.id != item.job_id:
            raise ValueError(f"the item of job {item.job_id!r} has the state of {job.id!r}")
        if item.next != (None if job.next_run_time is None else micros(job.next_run_time)):
            raise ValueError(f"the item of job {item.job_id!r} is due at another time than its state says")
        job.claim, job.run_times = None, []
        job.remember(item)
        return job

    def remember(self, item: JobItem) -> None:
        """Take all that the job has now as what is stored in that item."""
        self.item = item
        self._read = {name: getattr(self, name) for name in _FIELDS}

    def rebase(self, current: StoredJob) -> None:
        """Take over what others have stored meanwhile, except for what was changed here."""
        for name in _FIELDS:
            if getattr(self, name) is self._read[name]:
                setattr(self, name, getattr(current, name))
        self.item, self._read = current.item, current._read

    def _get_run_times(self, now: Any) -> list[Any]:
        """Return the times to run now; none once the claim has expired, because another scheduler may run the job.

        The loop of a scheduler calls this right before it submits the job, and leaves a job without run times alone.
        """
        if self.claim is not None and is_exiting():
            return []
        if self.claim is not None and clock.now() >= self.claim.expire_time:
            logging.getLogger(f"apscheduler.jobstores.{self._jobstore_alias}").warning(
                "The claim of job %r expired at %s, before it was submitted: it is claimed again, or runs elsewhere",
                self.id,
                self.claim.expire_time,
            )
            self.claim = None  # or a removal by a coroutine, in the thread of the loop, would be taken for the loop's
            return []
        self.run_times = super()._get_run_times(now)
        return self.run_times

    def __reduce__(self) -> Any:
        """Pickle as APScheduler's own class: processes of an executor need nothing of this one."""
        return object.__new__, (Job,), self.__getstate__()
