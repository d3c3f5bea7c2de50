"""The job store: APScheduler's interface, on the table of the tracker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from apscheduler.job import Job
from apscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError
from apscheduler.util import maybe_ref

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.claims import Claims
from pynamodb_tracker.apscheduler.firings import Firings
from pynamodb_tracker.apscheduler.job_table import (
    MOST_REMOVED,
    TRIES,
    DueItem,
    JobItem,
    JobTable,
    micros,
    time_of,
    tries,
)
from pynamodb_tracker.apscheduler.serializers import PickleSerializer, Serializer
from pynamodb_tracker.apscheduler.stored_job import JobCodec, StoredJob, UnloadableJobs, is_exiting
from pynamodb_tracker.arguments import check_duration, check_key, shown
from pynamodb_tracker.task.task import Task

_MOST_CLAIMED = 50
"""Jobs that one look claims; the others are due at once again. So the loop comes to each job before its claim ends."""

_NEVER = datetime.max.replace(tzinfo=UTC)


class DynamoDBJobStore(BaseJobStore):  # type: ignore[misc]  # APScheduler is untyped
    """Keeps the jobs of APScheduler in the table of your tasks, where several schedulers may share them.

    `table` is a class of that table, or a textual reference to one, such as "shop.tasks:AppTask". Stores of different
    names share no jobs. `serializer` is PickleSerializer() unless given: anyone who may write to the table can then run
    code in every scheduler. A scheduler claims a job for `lock_for` before it runs it: if it dies meanwhile, another
    one runs the job after that time. `look_every` is how long it takes at most until a scheduler finds a job that
    another process has added. ValueError or TypeError for settings that cannot work.

    Examples:
        >>> jobs = DynamoDBJobStore(AppTask, serializer=JSONSerializer(allow=["shop.jobs"]))
    """

    def __init__(
        self,
        table: type[Task] | str,
        *,
        store: str = "default",
        serializer: Serializer | None = None,
        lock_for: timedelta = timedelta(seconds=60),
        look_every: timedelta = timedelta(seconds=30),
    ) -> None:
        super().__init__()
        model = _task_class(table)
        self._name = f"{model.__name__}, store={check_key('name of a store', store)!r}"
        self._lock_for = check_duration("lock_for", lock_for)
        self._look_every = check_duration("look_every", look_every)
        self._margin = model.tracker.margin
        self._table = JobTable(model, store)
        self._codec = JobCodec(_serializer(serializer), store)
        self._claims = Claims(self._table, self._lock_for, self._margin)
        self._firings = Firings(self._table, self._codec, self._lock_for / 6)
        self._unloadable = UnloadableJobs()
        self._stray: set[DueItem] = set()
        """Due items of the last look whose jobs are gone, or due at other times; one that stays is left by a person."""
        self._is_shut_down = False

    def start(self, scheduler: Any, alias: str) -> None:
        """Serve this scheduler; log a warning if its jobs would count as missed where they are taken over."""
        super().start(scheduler, alias)
        self._codec.bind(scheduler, alias)
        self._firings.logger = self._logger
        self._is_shut_down = False
        grace = getattr(scheduler, "_job_defaults", {}).get("misfire_grace_time")
        if isinstance(grace, int) and grace <= (self._lock_for + self._margin).total_seconds():
            self._logger.warning(
                "misfire_grace_time is %s s by default: the run of a scheduler that dies is taken over after %s, and "
                "counts as missed then; set it to None, or to more, in job_defaults or for each job",
                grace,
                self._lock_for + self._margin,
            )

    def shutdown(self) -> None:
        """Give back the claims of jobs that were not submitted, and claim no more.

        The executors have been shut down by then, so a job that the loop submitted now would be lost.
        """
        self._is_shut_down = True
        self._firings.give_back()

    def unloadable(self) -> dict[str, Exception]:
        """Return the ids of jobs that cannot be loaded or run in this process, with the reasons; sends no request.

        Examples:
            >>> assert DynamoDBJobStore(AppTask).unloadable() == {}
        """
        return self._unloadable.errors

    def lookup_job(self, job_id: str) -> Job | None:
        """Return a job, or None; an error if it is there and cannot be loaded here."""
        item = self._table.job(job_id)
        return None if item is None else self._codec.load(item)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        """Claim the jobs that are due, up to 50, and return them in the order of their times."""
        if self._is_shut_down or is_exiting():
            return []
        self._firings.begin_look()
        found: list[Job] = []
        for due, item in self._due_for_this(micros(now)):
            try:
                job = self._claimed(due, item)
            except Exception:
                if not found:
                    raise
                self._logger.warning("Not all due jobs could be claimed", exc_info=True)
                break  # those that are claimed run now
            if job is not None:
                found.append(job)
        return found

    def get_next_run_time(self) -> datetime | None:
        """Return when this scheduler has to look next: at the next due time, or at the end of another one's claim.

        For a scheduler that runs, that is at most `look_every` from now, because others may add jobs meanwhile.
        """
        now = clock.now()
        latest = None if self._scheduler is None else now + self._longest_pause()
        try:
            first = None if is_exiting() else self._first_time(now)
        except Exception:
            if latest is None:
                raise
            # The loop calls this without a guard: anything that is raised would end it.
            self._logger.warning("The next run time cannot be read; looking again at %s", latest, exc_info=True)
            return latest
        return min((time for time in (first, latest) if time is not None), default=None)

    def get_all_jobs(self) -> list[Job]:
        """Return the jobs that can be loaded here, by their times, with paused ones at the end."""
        items = list(self._table.every_job())
        self._unloadable.keep({item.job_id for item in items})
        jobs = filter(None, map(self._loaded, items))
        return sorted(jobs, key=lambda job: (job.next_run_time or _NEVER, job.next_run_time is None, job.id))

    def add_job(self, job: Job) -> None:
        """Store a new job; ConflictingIdError if there is one with its id, ValueError if it cannot be stored."""
        item = self._codec.dump(job)
        if not self._table.add(item):
            stored = self._table.job(job.id)
            if stored is None or stored.write != item.write:  # else the request was repeated, and met its own success
                raise ConflictingIdError(job.id)

    def update_job(self, job: Job) -> None:
        """Store a job in place of the one with its id; JobLookupError if there is none.

        If somebody else has changed it since it was read, both changes are kept; of one value, the later.
        """
        if isinstance(job, StoredJob) and job.claim is not None:
            self._firings.end(job, job.claim, job.next_run_time)
            job.claim = None  # later changes are no part of this run
        else:
            self._replace(job)
        self._unloadable.forget(job.id)

    def remove_job(self, job_id: str) -> None:
        """Remove a job; JobLookupError if there is none."""
        job = self._firings.current(job_id)
        if job is not None and job.claim is not None:
            self._firings.end(job, job.claim, None)
        else:
            self._remove(job_id)
        self._unloadable.forget(job_id)

    def remove_all_jobs(self) -> None:
        """Remove all jobs of this store; one request for up to 50 of them."""
        jobs = self._table.every_job(whole=False)
        while chunk := list(islice(jobs, MOST_REMOVED)):
            if not self._table.remove(chunk):  # somebody has changed one of them
                for job in chunk:
                    self._remove(job.job_id, is_known=False)
        for due in self._table.due_items():
            self._table.drop(due)
        self._unloadable.keep(set())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({self._name})>"

    def _longest_pause(self) -> timedelta:
        """Return when to look at the latest: well before a claim expires whose end is owed to the table."""
        return min(self._look_every, self._lock_for / 4) if self._firings.are_owed else self._look_every

    def _due_for_this(self, until: int) -> list[tuple[DueItem, JobItem]]:
        """Return what this scheduler may claim, with the jobs; they include some that could not be loaded so far."""
        candidates = self._candidates(until)
        jobs = self._table.jobs(due.job_id for due in candidates)
        found, stray = list[tuple[DueItem, JobItem]](), set[DueItem]()
        for due in candidates:
            job = jobs.get(due.job_id)
            if job is None or job.next != due.time:  # mostly, another scheduler has just moved the job on
                stray.add(due)
            else:
                found.append((due, job))
        for due in stray & self._stray:
            self._table.drop(due)
        self._stray = stray
        return found

    def _candidates(self, until: int) -> list[DueItem]:
        """Return the first due items that this scheduler may claim; what cannot be loaded takes no place of others."""
        now = clock.now()
        due: list[DueItem] = []
        resting: list[DueItem] = []
        for each in self._table.due_items(until):
            if self._firings.owes(each.job_id) or not self._claims.is_free(each, now):
                continue
            chosen = resting if self._unloadable.rests(each.job_id) else due
            if len(chosen) < _MOST_CLAIMED:
                chosen.append(each)
            if len(due) == _MOST_CLAIMED:
                break
        return sorted([*due, *resting], key=lambda each: (each.time, each.job_id))

    def _claimed(self, due: DueItem, item: JobItem) -> StoredJob | None:
        """Return the job if it can be loaded, and is claimed for this scheduler."""
        if self._unloadable.is_unchanged(item):
            return None
        job = self._loaded(item, runnable=True)
        if job is None or (claim := self._claims.claim(due)) is None:
            return None
        job.claim = claim
        self._firings.begin(job)
        return job

    def _loaded(self, item: JobItem, *, runnable: bool = False) -> StoredJob | None:
        """Return the job; None if it cannot be loaded, or is to be `runnable` and has no executor or next time here.

        Others may have its code, as in a deployment that has not reached every process. So it is left as it is.
        """
        try:
            job = self._codec.load(item)
            if runnable and self._scheduler is not None:
                # The loop removes a job whose executor it does not find.
                self._scheduler._lookup_executor(job.executor)  # noqa: SLF001 - there is no public way
            if runnable:
                # What a trigger raises there would end the loop: its class may have changed since it was pickled.
                job.trigger.get_next_fire_time(job.next_run_time, clock.now())
        except Exception as error:
            if self._unloadable.record(item, error):
                self._logger.exception("Job %r cannot run in this process, and stays in the table", item.job_id)
            return None
        if runnable:
            self._unloadable.forget(item.job_id)
        return job

    def _first_time(self, now: datetime) -> datetime | None:
        """Return the first time at which there may be something to do for this scheduler."""
        first: datetime | None = None
        for due in self._table.due_items():
            time = time_of(due.time)
            if first is not None and time >= first:
                break
            if self._unloadable.rests(due.job_id) or self._firings.owes(due.job_id):
                continue
            if not self._claims.is_free(due, now):
                time = max(time, self._claims.free_from(due))
            first = time if first is None else min(first, time)
        return first

    def _replace(self, job: Job) -> None:
        before = job.item if isinstance(job, StoredJob) else self._existing(job.id)
        for _ in tries():
            after = self._codec.dump(job)
            if self._table.replace(before, after):
                break
            before = self._existing(job.id)
            if before.write == after.write:  # the request was repeated, and met its own success
                break
            if isinstance(job, StoredJob):
                job.rebase(self._codec.load(before))
        else:
            raise RuntimeError(f"job {job.id!r} was not updated: it was changed {TRIES} times meanwhile")
        if isinstance(job, StoredJob):
            job.remember(after)

    def _existing(self, job_id: str) -> JobItem:
        item = self._table.job(job_id)
        if item is None:
            raise JobLookupError(job_id)
        return item

    def _remove(self, job_id: str, *, is_known: bool = True) -> None:
        """Remove a job as it is now; if this has sent a removal before, a job that is gone is no error."""
        for _ in tries():
            item = self._table.job(job_id)
            if item is None:
                if is_known:
                    raise JobLookupError(job_id)
                return
            if self._table.remove([item]):
                return
            is_known = False
        raise RuntimeError(f"job {job_id!r} was not removed: it was changed {TRIES} times meanwhile")


def _task_class(table: object) -> type[Task]:
    """Return the class of a table; TypeError for anything else."""
    found: object = table if isinstance(table, str) and ":" not in table else maybe_ref(table)
    if not (isinstance(found, type) and issubclass(found, Task) and found.tracker.has_table):
        raise TypeError(
            f"table must be a class of your table, not {shown(table)}: write AppTask, or a reference to it such as "
            "'shop.tasks:AppTask'"
        )
    return found


def _serializer(given: object) -> Any:
    """Return the serializer, by default that of APScheduler; TypeError for its class, and for anything else."""
    if given is None:
        return PickleSerializer()
    if isinstance(given, type) or not all(callable(getattr(given, name, None)) for name in ("dumps", "loads")):
        raise TypeError(f"serializer must be one with dumps and loads, not {shown(given)}: write PickleSerializer()")
    return given
