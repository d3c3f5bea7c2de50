"""Writes of a scheduler's loop that fail: the loop goes on, no time runs twice, and the writes are made later."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from apscheduler.jobstores.base import JobLookupError
from apscheduler.triggers.date import DateTrigger
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.apscheduler import DynamoDBJobStore
from pynamodb_tracker.dynamodb.retries import deadline
from pynamodb_tracker.testing import StoppedClock
from tests.apscheduler.jobs import at, due, modify, new_job, new_store
from tests.support.engines import only_moto
from tests.support.network import Network, passing, silent

pytestmark = [pytest.mark.usefixtures("table", "clock"), only_moto]

WRITES = ("TransactWriteItems", "PutItem", "DeleteItem")


@pytest.fixture
def store() -> DynamoDBJobStore:
    store = new_store(scheduler=mock.Mock(), lock_for=timedelta(minutes=1))
    store.add_job(new_job())
    return store


@pytest.fixture
def firing(store: DynamoDBJobStore) -> Any:
    (job,) = store.get_due_jobs(at(0))
    return job


def test_an_update_that_fails_is_made_before_the_next_look(
    store: DynamoDBJobStore, firing: Any, network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    network.rule = silent(*WRITES)
    later = at(3600)
    modify(firing, next_run_time=later)
    store.update_job(firing)
    assert "Job 'j-1' was submitted, but its next run time could not be stored" in caplog.text
    with pytest.raises(PynamoDBException):  # the loop catches this one, and looks again after ten seconds
        due(store)
    network.rule = passing
    assert due(store) == []
    assert new_store().get_next_run_time() == later


def test_the_next_look_is_well_before_the_claims_end(store: DynamoDBJobStore, firing: Any, network: Network) -> None:
    network.rule = silent(*WRITES)
    modify(firing, next_run_time=at(3600))
    store.update_job(firing)
    assert store.get_next_run_time() == at(15)


def test_a_failed_removal_is_made_before_the_next_look(store: DynamoDBJobStore, firing: Any, network: Network) -> None:
    network.rule = silent(*WRITES)
    store.remove_job(firing.id)
    network.rule = passing
    assert due(store) == []
    assert store.lookup_job("j-1") is None
    assert store.get_next_run_time() == at(30)


def test_owed_writes_leave_a_changed_job_alone(store: DynamoDBJobStore, firing: Any, network: Network) -> None:
    network.rule = silent(*WRITES)
    store.remove_job(firing.id)
    network.rule = passing
    other = new_store()
    job: Any = other.lookup_job("j-1")
    modify(job, next_run_time=at(3600))
    other.update_job(job)
    assert due(store) == []
    assert other.get_next_run_time() == at(3600)


def test_a_job_whose_arguments_can_no_longer_be_stored_moves_on_with_the_stored_ones(store: DynamoDBJobStore) -> None:
    store.update_job(new_job(func="tests.apscheduler.jobs:anything", args=([],)))
    (job,) = store.get_due_jobs(at(0))
    job.args[0].append(lambda: None)  # by the function itself, which runs in a thread
    modify(job, next_run_time=at(3600))
    store.update_job(job)
    assert due(store) == []
    stored: Any = new_store().lookup_job("j-1")
    assert (stored.args, stored.next_run_time) == (([],), at(3600))


def test_what_can_never_be_stored_keeps_no_other_job_from_running(store: DynamoDBJobStore) -> None:
    (firing,) = store.get_due_jobs(at(0))
    with mock.patch.object(store._codec, "dump", side_effect=TypeError("cannot be serialized")):
        modify(firing, next_run_time=at(3600))
        store.update_job(firing)
        new_store().add_job(new_job("j-2"))
        assert due(store) == ["j-2"]


def test_a_shutdown_makes_the_writes_that_are_owed(store: DynamoDBJobStore, firing: Any, network: Network) -> None:
    network.rule = silent(*WRITES)
    later = at(3600)
    modify(firing, next_run_time=later)
    store.update_job(firing)
    network.rule = passing
    store.shutdown()
    assert new_store().get_next_run_time() == later


def test_a_shutdown_keeps_the_claim_of_a_job_that_ran(
    store: DynamoDBJobStore, firing: Any, network: Network, clock: StoppedClock
) -> None:
    network.rule = silent(*WRITES)
    modify(firing, next_run_time=at(3600))
    store.update_job(firing)
    store.shutdown()
    other = new_store()
    assert due(other) == []
    network.rule = passing
    clock.advance(timedelta(minutes=2))
    assert due(other) == ["j-1"]


@pytest.mark.parametrize(("trigger", "left"), [(DateTrigger(timezone=UTC), []), (None, ["j-2"])], ids=["once", "again"])
def test_a_shutdown_stores_the_end_of_a_job_that_the_loop_has_just_submitted(trigger: Any, left: list[str]) -> None:
    store = new_store(scheduler=mock.Mock())
    store.add_job(new_job("j-2", **({"trigger": trigger} if trigger else {})))
    (job,) = store.get_due_jobs(at(0))
    assert job._get_run_times(at(0))  # then the loop submits it; APScheduler removes no job once a shutdown has begun
    store.shutdown()
    other = new_store()
    assert due(other) == []
    assert [each.id for each in other.get_all_jobs()] == left


def test_a_store_that_is_started_again_makes_the_writes_that_are_owed(
    store: DynamoDBJobStore, firing: Any, network: Network
) -> None:
    network.rule = silent(*WRITES)
    modify(firing, next_run_time=at(3600))
    store.update_job(firing)
    store.shutdown()
    network.rule = passing
    store.start(mock.Mock(), "default")
    assert due(store) == []
    assert new_store().get_next_run_time() > at(60)  # type: ignore[operator]  # there is one


def test_a_next_run_time_that_cannot_be_read_is_looked_up_again(store: DynamoDBJobStore, network: Network) -> None:
    network.rule = silent("Query")
    assert store.get_next_run_time() == at(30)
    with pytest.raises(PynamoDBException):
        new_store().get_next_run_time()


def test_an_owed_write_is_tried_for_a_limited_time(store: DynamoDBJobStore, firing: Any, network: Network) -> None:
    network.rule = silent(*WRITES)
    store.remove_job(firing.id)
    deadlines = set[datetime | None]()

    def rule(_operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        deadlines.add(deadline())
        return send()

    network.rule = rule
    with mock.patch.object(store, "_find_candidates", return_value=[]):
        due(store)
    assert at(10) in deadlines


def test_a_person_is_told_that_a_removal_has_failed(store: DynamoDBJobStore, firing: Any, network: Network) -> None:
    network.rule = silent(*WRITES)
    with ThreadPoolExecutor(1) as pool, pytest.raises(PynamoDBException):
        pool.submit(store.remove_job, firing.id).result()


def test_what_people_do_raises(store: DynamoDBJobStore, network: Network) -> None:
    job: Any = store.lookup_job("j-1")
    modify(job, next_run_time=at(3600))
    network.rule = silent(*WRITES)
    for act, argument in ((store.update_job, job), (store.remove_job, "j-1"), (store.add_job, new_job("j-2"))):
        with pytest.raises(PynamoDBException):
            act(argument)
    network.rule = passing
    with pytest.raises(JobLookupError):
        store.remove_job("j-2")
