"""The job store: APScheduler's interface on your tracker table."""

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
"""Jobs to claim per look. They are so few that the loop gets to each before its claim ends. Others remain due."""

_NEVER = datetime.max.replace(tzinfo=UTC)


class DynamoDBJobStore(BaseJobStore):  # type: ignore[misc]  # APScheduler is untyped
    """Keeps APScheduler's jobs in the table with your tasks. Several schedulers may share it.

    Args:
        table: A class with that table, or a reference to one, such as "shop.tasks:AppTask".
        store: The store's name. Stores with different names do not share jobs.
        serializer: The default is PickleSerializer(), with which anyone who may write to the table can run code in
            all schedulers.
        lock_for: How long a scheduler claims a job. If it dies, another one runs the job after that time.
        look_every: How long it may take until a scheduler finds a job that another process has added.

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
        model = _check_table(table)
        self._name = f"{model.__name__}, store={check_key('name of a store', store)!r}"
        self._lock_for = check_duration("lock_for", lock_for)
        self._look_every = check_duration("look_every", look_every)
        self._margin = model.tracker.margin
        self._table = JobTable(model, store)
        self._codec = JobCodec(_check_serializer(serializer), store)
        self._claims = Claims(self._table, self._lock_for, self._margin)
        self._firings = Firings(self._table, self._codec, self._lock_for / 6)
        self._unloadable = UnloadableJobs()
        self._stray: set[DueItem] = set()
        """Due items from the last look that do not match a job. Any that stays is a leftover."""
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
                "misfire_grace_time is %s s by default, but if a scheduler dies, its run is taken over after %s and "
                "would count as missed. Set it to None or to more, in job_defaults or per job",
                grace,
                self._lock_for + self._margin,
            )

    def shutdown(self) -> None:
        """Give back claims on jobs that were not submitted, and stop claiming. The executors have already shut down."""
        self._is_shut_down = True
        self._firings.give_back()

    def unloadable(self) -> dict[str, Exception]:
        """Return the errors of jobs that cannot be loaded or run in this process, by id. Sends no request.

        Examples:
            >>> assert DynamoDBJobStore(AppTask).unloadable() == {}
        """
        return self._unloadable.errors

    def lookup_job(self, job_id: str) -> Job | None:
        """Return a job, or None. Raise an error if it exists but cannot be loaded here."""
        item = self._table.job(job_id)
        return None if item is None else self._codec.load(item)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        """Claim up to 50 due jobs, and return them in the order of their times."""
        if self._is_shut_down or is_exiting():
            return []
        self._firings.begin_look()
        found: list[Job] = []
        for due, item in self._find_due(micros(now)):
            try:
                job = self._claim_job(due, item)
            except Exception:
                if not found:
                    raise
                self._logger.warning("Some due jobs could not be claimed", exc_info=True)
                break  # run the claimed ones now
            if job is not None:
                found.append(job)
        return found

    def get_next_run_time(self) -> datetime | None:
        """Return when to look next: at the next due time, when another claim ends, or after `look_every`."""
        now = clock.now()
        # If a claimed job's next time is not stored yet, look well before the claim expires.
        pause = min(self._look_every, self._lock_for / 4) if self._firings.owed else self._look_every
        latest = None if self._scheduler is None else now + pause
        try:
            first = None if is_exiting() else self._find_first_time(now)
        except Exception:
            if latest is None:
                raise
            # The loop does not catch errors from this call: any would end it.
            self._logger.warning("Cannot read the next run time. Looking again at %s", latest, exc_info=True)
            return latest
        return min((time for time in (first, latest) if time is not None), default=None)

    def get_all_jobs(self) -> list[Job]:
        """Return the jobs that can be loaded here, in the order of their times. Paused jobs come last."""
        items = list(self._table.every_job())
        self._unloadable.keep({item.job_id for item in items})
        jobs = filter(None, map(self._load_job, items))
        return sorted(jobs, key=lambda job: (job.next_run_time or _NEVER, job.next_run_time is None, job.id))

    def add_job(self, job: Job) -> None:
        """Store a new job. Raise ConflictingIdError if its id exists, ValueError if it cannot be stored."""
        item = self._codec.dump(job)
        if not self._table.add(item):
            stored = self._table.job(job.id)
            if stored is None or stored.write != item.write:  # otherwise a repeated request met its own success
                raise ConflictingIdError(job.id)

    def update_job(self, job: Job) -> None:
        """Replace the job with the same id, or raise a JobLookupError. Keep changes that others have stored."""
        if isinstance(job, StoredJob) and job.claim is not None:
            self._firings.end(job, job.claim, job.next_run_time)
            job.claim = None  # later changes do not belong to this run
        else:
            self._replace(job)
        self._unloadable.forget(job.id)

    def remove_job(self, job_id: str) -> None:
        """Remove a job, or raise a JobLookupError."""
        job = self._firings.current(job_id)
        if job is not None and job.claim is not None:
            self._firings.end(job, job.claim, None)
        else:
            self._remove(job_id)
        self._unloadable.forget(job_id)

    def remove_all_jobs(self) -> None:
        """Remove all jobs in this store, up to 50 per request."""
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

    def _find_due(self, until: int) -> list[tuple[DueItem, JobItem]]:
        """Return the due items that this scheduler may claim with their jobs, including jobs that failed to load."""
        candidates = self._find_candidates(until)
        jobs = self._table.jobs(due.job_id for due in candidates)
        found, stray = list[tuple[DueItem, JobItem]](), set[DueItem]()
        for due in candidates:
            job = jobs.get(due.job_id)
            if job is None or job.next != due.time:  # usually, another scheduler has just moved the job
                stray.add(due)
            else:
                found.append((due, job))
        for due in stray & self._stray:
            self._table.drop(due)
        self._stray = stray
        return found

    def _find_candidates(self, until: int) -> list[DueItem]:
        """Return the first due items that this scheduler may claim, and as many that failed to load."""
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

    def _claim_job(self, due: DueItem, item: JobItem) -> StoredJob | None:
        if self._unloadable.is_unchanged(item):
            return None
        job = self._load_job(item, runnable=True)
        if job is None or (claim := self._claims.claim(due)) is None:
            return None
        job.claim = claim
        self._firings.begin(job)
        return job

    def _load_job(self, item: JobItem, *, runnable: bool = False) -> StoredJob | None:
        """Return the job, or None if it cannot be loaded. A `runnable` one also needs its executor and next time."""
        try:
            job = self._codec.load(item)
            if runnable and self._scheduler is not None:
                # The loop would remove a job without an executor.
                self._scheduler._lookup_executor(job.executor)  # noqa: SLF001 - there is no public way
            if runnable:
                # An error from the trigger would end the loop. Its class may have changed since it was pickled.
                job.trigger.get_next_fire_time(job.next_run_time, clock.now())
        except Exception as error:
            if self._unloadable.record(item, error):
                self._logger.exception("Job %r cannot run in this process, and stays in the table", item.job_id)
            return None
        if runnable:
            self._unloadable.forget(item.job_id)
        return job

    def _find_first_time(self, now: datetime) -> datetime | None:
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
        before = job.item if isinstance(job, StoredJob) else self._get_existing(job.id)
        for _ in tries():
            after = self._codec.dump(job)
            if self._table.replace(before, after):
                break
            before = self._get_existing(job.id)
            if before.write == after.write:  # a repeated request met its own success
                break
            if isinstance(job, StoredJob):
                job.rebase(self._codec.load(before))
        else:
            raise RuntimeError(f"job {job.id!r} was not updated, because it was changed {TRIES} times in the meantime")
        if isinstance(job, StoredJob):
            job.remember(after)

    def _get_existing(self, job_id: str) -> JobItem:
        item = self._table.job(job_id)
        if item is None:
            raise JobLookupError(job_id)
        return item

    def _remove(self, job_id: str, *, is_known: bool = True) -> None:
        """Remove the current job. If it is gone after the first try, that try has removed it."""
        for _ in tries():
            item = self._table.job(job_id)
            if item is None:
                if is_known:
                    raise JobLookupError(job_id)
                return
            if self._table.remove([item]):
                return
            is_known = False
        raise RuntimeError(f"job {job_id!r} was not removed, because it was changed {TRIES} times in the meantime")


def _check_table(table: object) -> type[Task]:
    found: object = table if isinstance(table, str) and ":" not in table else maybe_ref(table)
    if not (isinstance(found, type) and issubclass(found, Task) and found.tracker.has_table):
        raise TypeError(
            f"table must be a class of your table, not {shown(table)}: write AppTask, or a reference to it such as "
            "'shop.tasks:AppTask'"
        )
    return found


def _check_serializer(given: object) -> Any:
    if given is None:
        return PickleSerializer()
    if isinstance(given, type) or not all(callable(getattr(given, name, None)) for name in ("dumps", "loads")):
        raise TypeError(f"serializer must have dumps and loads, not {shown(given)}: write PickleSerializer()")
    return given
