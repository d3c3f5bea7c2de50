"""APScheduler's own schedulers on shared stores, with their threads, on the clock of this machine."""

import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers import SchedulerNotRunningError
from apscheduler.schedulers.background import BackgroundScheduler

from pynamodb_tracker.apscheduler import DynamoDBJobStore
from tests.apscheduler import jobs
from tests.apscheduler.jobs import due, new_store
from tests.support.engines import only_dynoxide
from tests.support.network import Network, passing, silent
from tests.support.shop import AppTask

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.race, only_dynoxide]

NOTHING, ANYTHING = "tests.apscheduler.jobs:nothing", "tests.apscheduler.jobs:anything"
EVERY = timedelta(seconds=0.2)


class Runs:
    def __init__(self) -> None:
        self.times: defaultdict[str, Counter[datetime]] = defaultdict(Counter)
        self.schedulers = Counter[int]()
        self._changed = threading.Condition()

    def listen(self, scheduler: Any, number: int) -> None:
        def note(event: Any) -> None:
            with self._changed:
                self.times[event.job_id][event.scheduled_run_time] += 1
                self.schedulers[number] += 1
                self._changed.notify_all()

        scheduler.add_listener(note, EVENT_JOB_EXECUTED)

    def wait(self, enough: Callable[["Runs"], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: enough(self), 30)

    def check(self, every: timedelta = EVERY) -> None:
        """Check that each due time ran once, and that none was left out."""
        for times in self.times.values():
            assert set(times.values()) == {1}
            order = sorted(times)
            assert {after - before for before, after in pairwise(order)} <= {every}


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


Start = Callable[..., Any]


@pytest.fixture
def start(runs: Runs) -> Iterator[Start]:
    started: list[Any] = []

    def begin(store: DynamoDBJobStore, **settings: Any) -> Any:
        scheduler = BackgroundScheduler(
            timezone=UTC,
            jobstores={"default": store},
            job_defaults={"misfire_grace_time": None, "coalesce": False, "max_instances": 100},
            jobstore_retry_interval=0.1,
            **settings,
        )
        runs.listen(scheduler, len(started))
        started.append(scheduler)
        scheduler.start()
        return scheduler

    yield begin
    for scheduler in started:
        with suppress(SchedulerNotRunningError):
            scheduler.shutdown()


def add(scheduler: Any, job_id: str, func: Any = NOTHING, **settings: Any) -> None:
    scheduler.add_job(func, "interval", seconds=EVERY.total_seconds(), id=job_id, **settings)


def test_schedulers_that_share_a_store_run_each_due_time_once(start: Start, name: str, runs: Runs) -> None:
    schedulers = [start(DynamoDBJobStore(AppTask, store=name, look_every=EVERY)) for _ in range(3)]
    for number in range(4):
        add(schedulers[0], f"j-{number}")
    runs.wait(
        lambda runs: len(runs.schedulers) == 3 and len(runs.times) == 4 and min(map(len, runs.times.values())) > 4
    )
    for scheduler in schedulers:
        scheduler.shutdown()
    runs.check()


def test_a_scheduler_outlives_an_outage_and_repeats_none(start: Start, name: str, runs: Runs, network: Network) -> None:
    scheduler = start(DynamoDBJobStore(AppTask, store=name, lock_for=timedelta(seconds=3), look_every=EVERY))
    add(scheduler, "j-1")
    runs.wait(lambda runs: bool(runs.times))
    failed = threading.Semaphore(0)

    def rule(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        if operation == "TransactWriteItems":
            failed.release()
        return silent("TransactWriteItems")(operation, request, send)

    network.rule = rule
    for _ in range(2):
        assert failed.acquire(timeout=60)
    network.rule = passing
    ran = len(runs.times["j-1"])
    runs.wait(lambda runs: len(runs.times["j-1"]) > ran + 5)
    scheduler.shutdown()
    runs.check()


def test_a_job_that_is_due_when_a_scheduler_ends_is_left_to_others(start: Start, name: str, runs: Runs) -> None:
    scheduler = start(DynamoDBJobStore(AppTask, store=name))
    scheduler.pause()
    add(scheduler, "j-1", next_run_time=datetime.now(UTC))
    scheduler.shutdown()
    scheduler._process_jobs()  # what its thread does that has waited for the end of the shutdown
    assert due(new_store(store=name)) == ["j-1"]
    assert not runs.times


def test_a_claim_that_expires_before_the_submission_submits_nothing(
    start: Start, name: str, runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    store = DynamoDBJobStore(AppTask, store=name, lock_for=timedelta(microseconds=1))
    scheduler = start(store)
    add(scheduler, "j-1", next_run_time=datetime.now(UTC))
    wait_for(lambda: "The claim of job 'j-1' expired" in caplog.text)
    scheduler.shutdown()
    assert not runs.times
    assert [job.id for job in store.get_all_jobs()] == ["j-1"]


def test_a_job_without_its_executor_stays_in_the_table(start: Start, name: str, runs: Runs) -> None:
    store = DynamoDBJobStore(AppTask, store=name)
    add(start(store), "j-1", executor="gpu", next_run_time=datetime.now(UTC))
    wait_for(lambda: "j-1" in store.unloadable())
    add(start(DynamoDBJobStore(AppTask, store=name), executors={"gpu": DebugExecutor()}), "j-2")
    runs.wait(lambda runs: bool(runs.times["j-1"]))


@pytest.mark.parametrize("change", ["remove", "pause"])
def test_a_function_may_change_its_own_job_in_the_thread_of_the_loop(
    change: str, start: Start, name: str, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = start(DynamoDBJobStore(AppTask, store=name), executors={"default": DebugExecutor()})
    monkeypatch.setattr(jobs, "anything", lambda: getattr(scheduler, f"{change}_job")("j-1"))
    add(scheduler, "j-1", ANYTHING, next_run_time=datetime.now(UTC))
    add(scheduler, "j-2")
    runs.wait(lambda runs: len(runs.times["j-2"]) > 1)
    assert len(runs.times["j-1"]) == 1
    job = scheduler.get_job("j-1")
    assert (job is None) == (change == "remove")
    assert job is None or job.next_run_time is None


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; no event announces it."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
