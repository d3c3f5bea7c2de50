"""The job store: APScheduler's interface, on the table of the tracker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from apscheduler.job import Job
from apscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError
from apscheduler.util import maybe_ref

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.firings import Firings
from pynamodb_tracker.apscheduler.job_table import (
    MOST_REMOVED,
    TRIES,
    Claims,
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
"""Jobs that one look claims, few enough that the loop reaches each before its claim ends. The others remain due."""

_NEVER = datetime.max.replace(tzinfo=UTC)


class DynamoDBJobStore(BaseJobStore):  # type: ignore[misc]  # APScheduler is untyped
    """Keeps the jobs of APScheduler in the table of your tasks, where several schedulers may share them.

    Args:
        table: A class of that table, or a reference to one, such as "shop.tasks:AppTask".
        store: The name of the store. Stores with different names share no jobs.
        serializer: The default is PickleSerializer(), with which anyone who may write to the table can run code in
            every scheduler.
        lock_for: How long a scheduler claims a job before it runs it. If it dies, another one runs the job after that.
        look_every: The longest time until a scheduler finds a job that another process has added.

    Raises:
        ValueError, TypeError: The settings cannot work.

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
        """Due items of the last look whose jobs are gone, or due at other times. If one stays, a person left it."""
        self._is_shut_down = False

    def start(self, scheduler: Any, alias: str) -> None:
        """Serve this scheduler. Log a warning if a takeover would count as a missed run."""
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
        """Give back claims of jobs that were not submitted, and claim no more: the executors have shut down before."""
        self._is_shut_down = True
        self._firings.give_back()

    def unloadable(self) -> dict[str, Exception]:
        """Return the jobs that cannot be loaded or run in this process, with the errors, by id. Sends no request.

        Examples:
            >>> assert DynamoDBJobStore(AppTask).unloadable() == {}
        """
        return self._unloadable.errors

    def lookup_job(self, job_id: str) -> Job | None:
        """Return a job, or None. Raise an error if it exists and cannot be loaded here."""
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
        """Return when to look next: at the next due time, or when another scheduler's claim ends.

        While a scheduler runs, that is at most `look_every` from now, because others may add jobs.
        """
        now = clock.now()
        # If the end of a claimed job is not in the table yet, look well before the claim expires.
        pause = min(self._look_every, self._lock_for / 4) if self._firings.owed else self._look_every
        latest = None if self._scheduler is None else now + pause
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
        """Return the jobs that can be loaded here, in the order of their times. Paused jobs come last."""
        items = list(self._table.every_job())
        self._unloadable.keep({item.job_id for item in items})
        jobs = filter(None, map(self._loaded, items))
        return sorted(jobs, key=lambda job: (job.next_run_time or _NEVER, job.next_run_time is None, job.id))

    def add_job(self, job: Job) -> None:
        """Store a new job. Raise ConflictingIdError if its id exists, ValueError if it cannot be stored."""
        item = self._codec.dump(job)
        if not self._table.add(item):
            stored = self._table.job(job.id)
            if stored is None or stored.write != item.write:  # else the request was repeated, and met its own success
                raise ConflictingIdError(job.id)

    def update_job(self, job: Job) -> None:
        """Replace the job with the same id, or raise a JobLookupError if there is none.

        If somebody else has changed it since it was read, both changes are kept. For the same value, the later one is.
        """
        if isinstance(job, StoredJob) and job.claim is not None:
            self._firings.end(job, job.claim, job.next_run_time)
            job.claim = None  # later changes are no part of this run
        else:
            self._replace(job)
        self._unloadable.forget(job.id)

    def remove_job(self, job_id: str) -> None:
        """Remove a job, or raise a JobLookupError if there is none."""
        job = self._firings.current(job_id)
        if job is not None and job.claim is not None:
            self._firings.end(job, job.claim, None)
        else:
            self._remove(job_id)
        self._unloadable.forget(job_id)

    def remove_all_jobs(self) -> None:
        """Remove all jobs of this store, up to 50 per request."""
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

    def _due_for_this(self, until: int) -> list[tuple[DueItem, JobItem]]:
        """Return the due items that this scheduler may claim, with their jobs, even those that have failed to load."""
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
        """Return the first due items that this scheduler may claim. Jobs that cannot be loaded count separately."""
        now = clock.now()
        due, resting = list[DueItem](), list[DueItem]()
        for each in self._table.due_items(until):
            if each.job_id in self._firings.owed or not self._claims.is_free(each, now):
                continue
            chosen = resting if self._unloadable.rests(each.job_id) else due
            if len(chosen) < _MOST_CLAIMED:
                chosen.append(each)
            if len(due) == _MOST_CLAIMED:
                break
        return sorted([*due, *resting], key=lambda each: (each.time, each.job_id))

    def _claimed(self, due: DueItem, item: JobItem) -> StoredJob | None:
        """Load and claim a job, or return None."""
        if self._unloadable.is_unchanged(item):
            return None
        job = self._loaded(item, runnable=True)
        if job is None or (claim := self._claims.claim(due)) is None:
            return None
        job.claim = claim
        self._firings.begin(job)
        return job

    def _loaded(self, item: JobItem, *, runnable: bool = False) -> StoredJob | None:
        """Return the job, or None if it cannot be loaded, or must be `runnable` and has no executor or next time here.

        Other processes may have its code during a deployment, so the job stays in the table.
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
        """Return when this scheduler may next have something to do."""
        first: datetime | None = None
        for due in self._table.due_items():
            time = time_of(due.time)
            if first is not None and time >= first:
                break
            if self._unloadable.rests(due.job_id) or due.job_id in self._firings.owed:
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
        """Remove the current job. If it is gone after a first try, the first try has removed it."""
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
    """Return the class of a table, or raise a TypeError."""
    found: object = table if isinstance(table, str) and ":" not in table else maybe_ref(table)
    if not (isinstance(found, type) and issubclass(found, Task) and found.tracker.has_table):
        raise TypeError(
            f"table must be a class of your table, not {shown(table)}: write AppTask, or a reference to it such as "
            "'shop.tasks:AppTask'"
        )
    return found


def _serializer(given: object) -> Any:
    """Return the serializer, by default PickleSerializer(), or raise a TypeError."""
    if given is None:
        return PickleSerializer()
    if isinstance(given, type) or not all(callable(getattr(given, name, None)) for name in ("dumps", "loads")):
        raise TypeError(f"serializer must be one with dumps and loads, not {shown(given)}: write PickleSerializer()")
    return given
