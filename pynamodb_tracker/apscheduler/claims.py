"""Which scheduler runs a job that is due: the one whose claim is on its due item.

A  claims for lock_for |-- submits the job -- moves its due item to the next time --|
B                      |-- finds the claim, and counts the job as due after its end --|
B, if A has died       |-- waits for the end of the claim and clock_margin -- claims it, and runs that time --|
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.job_table import DueItem, JobTable, micros, time_of
from pynamodb_tracker.model.worker_name import this_worker


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of this process on a due item."""

    due: DueItem
    expire_time: datetime
    """When another scheduler may take the job over, by the clock of this one; read before the claim was sent."""


class Claims:
    """The claims of one job store in this process."""

    def __init__(self, table: JobTable, lock_for: timedelta, margin: timedelta) -> None:
        self._table = table
        self._lock_for = lock_for
        self._margin = margin
        self._process = 0
        self._owner = ""

    def is_free(self, due: DueItem, now: datetime) -> bool:
        """Return whether this process may claim a due item: its own claims count as free."""
        return due.owner in {None, self.owner} or self.free_from(due) <= now

    def free_from(self, due: DueItem) -> datetime:
        """Return when another scheduler's claim has expired for certain: clocks differ by up to `Meta.clock_margin`."""
        return time_of(due.until + 1) + self._margin

    def claim(self, due: DueItem) -> Claim | None:
        """Claim a due item; None if another scheduler was first."""
        now = clock.now()
        expire_time = now + self._lock_for
        mine = replace(due, owner=self.owner, until=micros(expire_time))
        if not self._table.claim(due, self.owner, mine.until, expired_before=micros(now - self._margin)):
            return None
        return Claim(mine, expire_time)

    @property
    def owner(self) -> str:
        """Who claims in this process. A forked process has its own, even if the store was made before the fork."""
        if self._process != os.getpid():
            self._process, self._owner = os.getpid(), f"{this_worker()}:{secrets.token_hex(8)}"
        return self._owner
