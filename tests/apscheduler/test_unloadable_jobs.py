"""Jobs that one process cannot load or run: it leaves them alone, and another one runs them."""

import pickle
from dataclasses import replace
from datetime import UTC, timedelta
from functools import partial
from typing import Any
from unittest import mock

import pytest
from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from pynamodb_tracker.apscheduler import DynamoDBJobStore, PickleSerializer, Signed
from pynamodb_tracker.testing import StoppedClock
from tests.apscheduler import jobs
from tests.apscheduler.jobs import at, due, modify, new_job, new_store
from tests.support.engines import only_moto
from tests.support.rows import client, put
from tests.support.shop import AppTask

pytestmark = [pytest.mark.usefixtures("table", "clock"), only_moto]

CODE = "tests.apscheduler.jobs:anything"


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> DynamoDBJobStore:
    """Return the store of a process that lacks the code of the first of two jobs."""
    store = new_store()
    store.add_job(new_job("j-1", func=CODE))
    store.add_job(new_job("j-2"))
    monkeypatch.delattr(jobs, "anything")
    return store


def test_a_job_without_its_code_is_left_to_others(old: DynamoDBJobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert due(old) == ["j-2"]
    assert [job.id for job in old.get_all_jobs()] == ["j-2"]
    assert {job_id: type(error) for job_id, error in old.unloadable().items()} == {"j-1": LookupError}
    monkeypatch.setattr(jobs, "anything", jobs.nothing, raising=False)  # a deployment has reached the other one
    assert due(new_store()) == ["j-1"]


def test_it_is_reported_once_and_counts_for_no_wake_up(old: DynamoDBJobStore, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        due(old)
        old.get_all_jobs()
    old.remove_job("j-2")
    assert caplog.text.count("Job 'j-1' cannot run in this process. It stays in the table") == 1
    assert old.get_next_run_time() is None


def test_it_is_tried_again_after_ten_minutes_or_once_somebody_has_changed_it(
    old: DynamoDBJobStore, monkeypatch: pytest.MonkeyPatch, clock: StoppedClock
) -> None:
    other = new_store()
    other.add_job(new_job("j-3", executor="default"))
    due(old)
    monkeypatch.setattr(jobs, "anything", jobs.nothing, raising=False)
    assert due(old) == ["j-2", "j-3"]
    job: Any = other.lookup_job("j-1")
    modify(job, name="renamed")
    other.update_job(job)
    assert due(old) == ["j-1", "j-2", "j-3"]
    assert old.unloadable() == {}
    monkeypatch.delattr(jobs, "anything")
    due(old)
    monkeypatch.setattr(jobs, "anything", jobs.nothing, raising=False)
    clock.advance(timedelta(minutes=10))
    assert due(old)[0] == "j-1"


def test_many_of_them_keep_no_other_job_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store()
    for job_id in "abc":
        store.add_job(new_job(job_id, func=CODE))
    store.add_job(new_job("z"))
    monkeypatch.delattr(jobs, "anything")
    monkeypatch.setattr("pynamodb_tracker.apscheduler.store._MOST_CLAIMED", 2)
    assert due(store) == []
    assert due(store) == ["z"]


def test_one_that_is_removed_is_not_listed_any_more(old: DynamoDBJobStore) -> None:
    due(old)
    new_store().remove_job("j-1")
    old.get_all_jobs()
    assert old.unloadable() == {}
    old.remove_job("j-2")
    assert old.get_all_jobs() == []


def test_one_that_is_replaced_or_removed_here_is_not_listed_any_more(old: DynamoDBJobStore) -> None:
    due(old)
    old.remove_job("j-2")
    old.update_job(new_job())
    assert old.unloadable() == {}
    assert old.get_next_run_time() == new_job().next_run_time
    for remove in (partial(old.remove_job, "j-1"), old.remove_all_jobs):
        old.update_job(new_job()) if old.lookup_job("j-1") else old.add_job(new_job())
        old._unloadable.record(old.get_all_jobs()[0].item, LookupError("of the test"))
        remove()
        assert old.unloadable() == {}


def test_a_job_without_its_executor_is_left_alone_and_listed_among_the_jobs() -> None:
    store = new_store(scheduler=BackgroundScheduler(timezone=UTC, executors={"default": DebugExecutor()}))
    store.add_job(new_job(executor="gpu"))
    assert due(store) == []
    assert "gpu" in str(store.unloadable()["j-1"])
    assert [job.id for job in store.get_all_jobs()] == ["j-1"]
    assert list(store.unloadable()) == ["j-1"]


class Calendar(IntervalTrigger):  # type: ignore[misc]  # APScheduler is untyped
    """A trigger whose class has an attribute since the last deployment, which jobs stored before that lack."""

    def get_next_fire_time(self, previous_fire_time: Any, now: Any) -> Any:
        return self.holidays.after(super().get_next_fire_time(previous_fire_time, now))


def test_a_job_whose_trigger_raises_is_left_alone_because_that_would_end_the_loop() -> None:
    store = new_store()
    store.add_job(new_job("j-1", trigger=Calendar(seconds=60, timezone=UTC)))
    store.add_job(new_job("j-2"))
    assert [job.id for job in store.get_due_jobs(at(0)) if job._get_run_times(at(0))] == ["j-2"]
    assert "holidays" in str(store.unloadable()["j-1"])


def test_a_row_that_was_changed_by_hand_is_not_loaded() -> None:
    store = new_store(serializer=Signed(PickleSerializer(), b"k" * 32))
    store.add_job(new_job())
    key = {"task_id": {"S": "apscheduler#default"}, "use_case_id": {"S": "#aps#job#j-1"}}
    time = {"N": str(store._table.job("j-1").next - 1)}  # type: ignore[union-attr,operator]  # it is there, and due
    item = {**client(AppTask).get_item(TableName=AppTask.Meta.table_name, Key=key)["Item"], "next": time}
    put(AppTask, item)
    assert store.get_all_jobs() == []
    assert "different next run times" in str(store.unloadable()["j-1"])
    put(AppTask, key)
    assert store.get_all_jobs() == []
    store.remove_all_jobs()


def test_a_state_under_another_id_is_not_loaded() -> None:
    store = new_store()
    store.add_job(new_job())
    job: Any = store._table.job("j-1")
    key = {"task_id": {"S": "apscheduler#default"}, "use_case_id": {"S": "#aps#job#j-2"}}
    put(AppTask, {**key, **job.dump()})
    with pytest.raises(ValueError, match="the item of job 'j-2' contains the state of 'j-1'"):
        store.lookup_job("j-2")


@pytest.mark.parametrize(
    "attributes",
    [
        {"use_case_id": {"S": "#aps#due#soon"}},
        {"use_case_id": {"S": "#aps#due#000000000000000001"}},
        {"use_case_id": {"S": "#aps#due#999999999999999999#j-9"}},
        {"use_case_id": {"S": "#aps#due#000000000000000001#j-2"}, "owner": {"S": "me"}, "until": {"N": "0.5"}},
        {"use_case_id": {"S": "#aps#due#000000000000000001#j-2"}, "owner": {"S": "me"}, "until": {"N": "1e30"}},
        {"use_case_id": {"S": "#aps#job#j-2"}, "next": {"N": "0.5"}},
    ],
    ids=["no time", "no job", "after all times", "half a claim", "endless claim", "half a time"],
)
def test_an_item_that_somebody_has_damaged_keeps_no_other_job_from_running(attributes: dict[str, Any]) -> None:
    store = new_store()
    store.add_job(new_job())
    client(AppTask).put_item(
        TableName=AppTask.Meta.table_name, Item={"task_id": {"S": "apscheduler#default"}, **attributes}
    )
    assert store.get_next_run_time() is not None
    assert due(store) == ["j-1"]
    assert [job.id for job in store.get_all_jobs()] == ["j-1"]


def test_rows_that_were_not_signed_for_their_job_are_never_unpickled() -> None:
    store = new_store(serializer=Signed(PickleSerializer(), b"k" * 32))
    for job_id in ("changed", "foreign", "swapped"):
        store.add_job(new_job(job_id))
    items = store._table.jobs(["changed", "foreign", "swapped"])
    states = {
        "changed": items["changed"].state[:-1] + b"!",
        "foreign": pickle.dumps({}),
        "swapped": items["changed"].state,
    }
    for job_id, state in states.items():
        assert store._table.replace(items[job_id], replace(items[job_id], state=state))
    with mock.patch.object(pickle, "loads") as loads:
        assert due(store) == []
        assert store.get_all_jobs() == []
        with pytest.raises(ValueError, match="not signed"):
            store.lookup_job("swapped")
    loads.assert_not_called()
    assert store.unloadable().keys() == states.keys()
