"""The job store: APScheduler's interface on your tracker table."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from apscheduler.job import Job
from apscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError
from apscheduler.util import maybe_ref

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.firings import Firings
from pynamodb_tracker.apscheduler.job_table import MOST_REMOVED, TRIES, DueItem, JobItem, JobTable, time_of, tries
from pynamodb_tracker.apscheduler.serializers import PickleSerializer, Serializer
from pynamodb_tracker.apscheduler.stored_job import JobCodec, StoredJob, UnloadableJobs, is_exiting
from pynamodb_tracker.model.arguments import check_duration, check_key, shown
from pynamodb_tracker.task.task import Task

_MOST_CLAIMED = 50  # Per look. The loop must get to each job before its claim ends

_NEVER = datetime.max.replace(tzinfo=UTC)


class DynamoDBJobStore(BaseJobStore):  # type: ignore[misc]  # APScheduler is untyped
    """Keeps APScheduler's jobs in the table with your tasks. Several schedulers may share it.

    Args:
        table: The table's class, or a reference to it, such as "shop.tasks:AppTask".
        store: The store's name. Each store has its own jobs.
        serializer: By default, PickleSerializer(), with which anyone who can write to the table can run code in all
            schedulers.
        lock_for: How long a scheduler claims a job. If it dies, another scheduler runs the job afterwards.
        look_every: How soon a scheduler finds a job that another process has added.

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
        self._table = JobTable(model, store, self._lock_for)
        self._codec = JobCodec(PickleSerializer() if serializer is None else _check_serializer(serializer), store)
        self._firings = Firings(self._table, self._codec, self._lock_for / 6)
        self._unloadable = UnloadableJobs()
        self._stray: set[DueItem] = set()
        """The last look's due items without a matching job. They are deleted if the next look finds them again."""
        self._is_shut_down = False

    def start(self, scheduler: Any, alias: str) -> None:
        """Serve this scheduler. Warn if a takeover would count as a missed run."""
        super().start(scheduler, alias)
        self._codec.scheduler, self._codec.alias = scheduler, alias
        self._firings.logger = self._logger
        self._is_shut_down = False
        grace = getattr(scheduler, "_job_defaults", {}).get("misfire_grace_time")
        if isinstance(grace, int) and grace <= (self._lock_for + self._margin).total_seconds():
            self._logger.warning(
                "misfire_grace_time is %s s, but if a scheduler dies, its run is taken over after %s, and would count "
                "as missed. Set it to None or more, in job_defaults or per job",
                grace,
                self._lock_for + self._margin,
            )

    def shutdown(self) -> None:
        """Stop claiming, and give back claims on jobs that were not submitted. The executors have already shut down."""
        self._is_shut_down = True
        self._firings.give_back()

    def unloadable(self) -> dict[str, Exception]:
        """Return the errors of jobs that this process cannot load or run, by job id. Send no request.

        Examples:
            >>> assert DynamoDBJobStore(AppTask).unloadable() == {}
        """
        return self._unloadable.errors

    def lookup_job(self, job_id: str) -> Job | None:
        """Return a job, or None. Raise the error if it cannot be loaded here."""
        item = self._table.job(job_id)
        return None if item is None else self._codec.load(item)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        """Claim up to 50 due jobs, and return them by time."""
        if self._is_shut_down or is_exiting():
            return []
        self._firings.begin_look()
        found: list[Job] = []
        for due, item in self._find_due(now):
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
        """Return when to look next: at a due time, when another claim ends, or after `look_every`."""
        now = clock.now()
        # Retry failed writes well before the claims expire.
        pause = min(self._look_every, self._lock_for / 4) if self._firings.owed else self._look_every
        latest = None if self._scheduler is None else now + pause
        try:
            first = None if is_exiting() else self._find_first_time(now)
        except Exception:
            if latest is None:
                raise
            # The loop does not catch errors from this call, so any would end it.
            self._logger.warning("Cannot read the next run time. Looking again at %s", latest, exc_info=True)
            return latest
        return min((time for time in (first, latest) if time is not None), default=None)

    def get_all_jobs(self) -> list[Job]:
        """Return the jobs that can be loaded here, by time. Paused jobs come last."""
        items = list(self._table.every_job())
        self._unloadable.keep({item.job_id for item in items})
        jobs = filter(None, map(self._load_job, items))
        return sorted(jobs, key=lambda job: (job.next_run_time or _NEVER, job.next_run_time is None, job.id))

    def add_job(self, job: Job) -> None:
        """Store a new job. Raise ConflictingIdError for an existing id, ValueError for a job that cannot be stored."""
        item = self._codec.dump(job)
        if not self._table.add(item):
            stored = self._table.job(job.id)
            if stored is None or stored.write != item.write:  # not a repeated request that already succeeded
                raise ConflictingIdError(job.id)

    def update_job(self, job: Job) -> None:
        """Replace the job with the same id, or raise JobLookupError. Keep changes that others stored."""
        if isinstance(job, StoredJob) and job.claim is not None:
            self._firings.end(job, job.claim, job.next_run_time)
            job.claim = None  # later changes do not belong to this run
        else:
            self._replace(job)
        self._unloadable.forget(job.id)

    def remove_job(self, job_id: str) -> None:
        """Remove a job, or raise JobLookupError."""
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
            if not self._table.remove(chunk):  # somebody changed one of them
                for job in chunk:
                    self._remove(job.job_id, is_known=False)
        for due in self._table.due_items():
            self._table.drop(due)
        self._unloadable.keep(set())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({self._name})>"

    def _find_due(self, until: datetime) -> list[tuple[DueItem, JobItem]]:
        candidates = self._find_candidates(until)
        jobs = self._table.jobs(due.job_id for due in candidates)
        found, stray = list[tuple[DueItem, JobItem]](), set[DueItem]()
        for due in candidates:
            job = jobs.get(due.job_id)
            if job is None or job.next != due.time:  # usually because another scheduler just moved the job
                stray.add(due)
            else:
                found.append((due, job))
        for due in stray & self._stray:
            self._table.drop(due)
        self._stray = stray
        return found

    def _find_candidates(self, until: datetime) -> list[DueItem]:
        """Return the first due items that this scheduler may claim, and as many that failed to load."""
        now = clock.now()
        due, resting = list[DueItem](), list[DueItem]()
        for each in self._table.due_items(until):
            if each.job_id in self._firings.owed or not self._table.is_free(each, now):
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
        if job is None or (claim := self._table.claim(due)) is None:
            return None
        job.claim = claim
        self._firings.jobs[job.id] = job
        return job

    def _load_job(self, item: JobItem, *, runnable: bool = False) -> StoredJob | None:
        """Return the job, or None if it cannot be loaded, or if `runnable`, cannot run here."""
        try:
            job = self._codec.load(item)
            if runnable and self._scheduler is not None:
                # Without its executor, the loop would remove the job.
                self._scheduler._lookup_executor(job.executor)  # noqa: SLF001 - APScheduler lacks a public way
            if runnable:
                # A pickled trigger may not fit its class any longer, and its error would end the loop.
                job.trigger.get_next_fire_time(job.next_run_time, clock.now())
        except Exception as error:
            if self._unloadable.record(item, error):
                self._logger.exception("Job %r cannot run in this process. It stays in the table", item.job_id)
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
            if not self._table.is_free(due, now):
                time = max(time, self._table.free_from(due))
            first = time if first is None else min(first, time)
        return first

    def _replace(self, job: Job) -> None:
        before = job.item if isinstance(job, StoredJob) else self._get_existing(job.id)
        for _ in tries():
            after = self._codec.dump(job)
            if self._table.replace(before, after):
                break
            before = self._get_existing(job.id)
            if before.write == after.write:  # this is a repeated request that already succeeded
                break
            if isinstance(job, StoredJob):
                job.rebase(self._codec.load(before))
        else:
            raise RuntimeError(f"job {job.id!r} was not updated: others changed it {TRIES} times in the meantime")
        if isinstance(job, StoredJob):
            job.remember(after)

    def _get_existing(self, job_id: str) -> JobItem:
        item = self._table.job(job_id)
        if item is None:
            raise JobLookupError(job_id)
        return item

    def _remove(self, job_id: str, *, is_known: bool = True) -> None:
        """Remove the current job. If it is gone after the first try, that try removed it."""
        for _ in tries():
            item = self._table.job(job_id)
            if item is None:
                if is_known:
                    raise JobLookupError(job_id)
                return
            if self._table.remove([item]):
                return
            is_known = False
        raise RuntimeError(f"job {job_id!r} was not removed: others changed it {TRIES} times in the meantime")


def _check_table(table: object) -> type[Task]:
    found: object = table if isinstance(table, str) and ":" not in table else maybe_ref(table)
    if not (isinstance(found, type) and issubclass(found, Task) and found.tracker.has_table):
        raise TypeError(
            f"table must be your table's class, not {shown(table)}: write AppTask, or a reference such as "
            "'shop.tasks:AppTask'"
        )
    return found


def _check_serializer(serializer: Any) -> Any:
    is_serializer = all(callable(getattr(serializer, name, None)) for name in ("dumps", "loads"))
    if isinstance(serializer, type) or not is_serializer:
        raise TypeError(f"serializer must have dumps and loads, not {shown(serializer)}: write PickleSerializer()")
    return serializer
