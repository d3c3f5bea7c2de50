"""Several schedulers on one store: a job that is due is claimed by one of them, and taken over if that one dies."""

import os
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from pynamodb_tracker import clock
from pynamodb_tracker.apscheduler.job_table import micros
from pynamodb_tracker.testing import StoppedClock
from tests.apscheduler.jobs import SECOND, at, due, modify, new_job, new_store
from tests.support.network import Network, before, passing, silent
from tests.support.recorder import recorded

pytestmark = pytest.mark.usefixtures("table", "clock")

LOCK, MARGIN = timedelta(seconds=60), timedelta(seconds=2)


def test_a_job_that_is_due_is_claimed_by_one_store() -> None:
    first, second = new_store(), new_store()
    first.add_job(new_job())
    assert due(first) == ["j-1"]
    assert due(second) == []


def test_a_claim_that_has_expired_is_taken_over_after_the_margin_of_the_clocks(clock: StoppedClock) -> None:
    dead, other = new_store(lock_for=LOCK), new_store(lock_for=LOCK)
    dead.add_job(new_job())
    due(dead)
    free = other.get_next_run_time()
    assert at(0) + LOCK + MARGIN < free <= at(0) + LOCK + MARGIN + SECOND  # type: ignore[operator]  # there is one
    (read_before,) = other._table.due_items()
    clock.advance(LOCK + MARGIN)
    assert due(other) == []
    assert other._table.claim(read_before) is None
    clock.advance(timedelta(microseconds=1))
    assert due(other) == ["j-1"]
    assert due(dead) == []


def test_a_store_gets_its_own_claims_again() -> None:
    store = new_store()
    store.add_job(new_job())
    assert due(store) == due(store) == ["j-1"]


def test_a_process_that_was_forked_is_another_owner() -> None:
    store = new_store()
    store.add_job(new_job())
    due(store)
    with mock.patch.object(os, "getpid", return_value=os.getpid() + 1):
        assert due(store) == []


def test_a_late_copy_does_not_shorten_a_claim(clock: StoppedClock, network: Network) -> None:
    store, other = new_store(lock_for=LOCK), new_store(lock_for=LOCK)
    store.add_job(new_job())
    late: list[Any] = []

    def keep(operation: str, _request: Any, send: Any) -> Any:
        late.extend([send] if operation == "UpdateItem" else [])
        return send()

    network.rule = keep
    due(store)
    clock.advance(timedelta(seconds=50))
    due(store)
    with pytest.raises(Exception, match="ConditionalCheckFailed"):
        late[0]()
    clock.advance(timedelta(seconds=13))
    assert due(other) == []


def test_a_look_claims_a_limited_number_of_jobs_and_the_others_are_due_at_once() -> None:
    store, other = new_store(), new_store()
    for job_id in "abcd":
        store.add_job(new_job(job_id))
    with mock.patch("pynamodb_tracker.apscheduler.store._MOST_CLAIMED", 2):
        assert due(store) == ["a", "b"]
    assert other.get_next_run_time() == at(-1)
    assert due(other) == ["c", "d"]


def test_jobs_are_given_in_the_order_of_their_times() -> None:
    store = new_store()
    for job_id, time in [("a", -1.0), ("b", -3.0), ("c", -2.0), ("paused", None), ("later", 1.0)]:
        store.add_job(new_job(job_id, next_run_time=None if time is None else at(time)))
    assert due(store) == ["b", "c", "a"]


def test_a_job_whose_claim_expires_before_it_is_submitted_has_no_run_times(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(lock_for=LOCK)
    store.add_job(new_job())
    now = at(0)
    (job,) = store.get_due_jobs(now)
    assert job._get_run_times(now) == [at(-1)]
    clock.advance(LOCK)
    assert job._get_run_times(now) == []
    assert "The claim of job 'j-1' expired" in caplog.text


def test_a_job_that_expired_before_its_submission_can_be_removed_in_the_thread_of_the_loop(clock: StoppedClock) -> None:
    store, other = new_store(lock_for=LOCK), new_store(lock_for=LOCK)
    store.add_job(new_job())
    (job,) = store.get_due_jobs(at(0))
    clock.advance(LOCK + MARGIN + SECOND)
    assert job._get_run_times(at(0)) == []
    (taken_over,) = other.get_due_jobs(at(0))
    modify(taken_over, next_run_time=at(60))
    other.update_job(taken_over)
    store.remove_job("j-1")  # as by a coroutine of an AsyncIOScheduler
    assert other.lookup_job("j-1") is None


def test_a_shutdown_gives_claims_back_and_claims_no_more() -> None:
    store, other = new_store(), new_store()
    store.add_job(new_job())
    due(store)
    store.shutdown()
    assert due(store) == []
    assert due(other) == ["j-1"]
    store.start(None, "default")
    assert due(store) == []


def test_a_program_that_ends_without_a_shutdown_leaves_what_is_due_to_others() -> None:
    store = new_store(scheduler=mock.Mock(_job_defaults={}))
    for job_id in ("claimed", "due"):
        store.add_job(new_job(job_id))
    (claimed, _) = store.get_due_jobs(at(0))
    for flag in ("thread._shutdown", "process._global_shutdown"):  # the pools wait for what they run
        with mock.patch(f"concurrent.futures.{flag}", new=True):
            assert claimed._get_run_times(at(0)) == []
            assert due(store) == []
            assert store.get_next_run_time() == at(30)  # and not at once, again and again
    assert claimed._get_run_times(at(0)) == [at(-1)]


def test_a_shutdown_without_a_network_leaves_the_claims(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    store = new_store()
    store.add_job(new_job())
    due(store)
    network.rule = silent("UpdateItem")
    store.shutdown()
    assert "could not be given back, and will expire" in caplog.text


def test_what_was_claimed_runs_even_if_the_next_claim_fails(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    store = new_store()
    for job_id in ("a", "b"):
        store.add_job(new_job(job_id))

    def rule(operation: str, request: Any, send: Any) -> Any:
        if operation == "UpdateItem" and request["Key"]["use_case_id"]["S"].endswith("#b"):
            return silent("UpdateItem")(operation, request, send)
        return send()

    network.rule = rule
    assert due(store) == ["a"]
    assert "Some due jobs could not be claimed" in caplog.text


def test_a_scheduler_looks_at_least_every_so_often_for_jobs_that_others_add() -> None:
    alone, running = new_store(), new_store(scheduler=mock.Mock(), look_every=timedelta(seconds=30))
    assert alone.get_next_run_time() is None
    assert running.get_next_run_time() == at(30)
    alone.add_job(new_job(next_run_time=at(10)))
    assert running.get_next_run_time() == alone.get_next_run_time() == at(10)


def test_times_far_away_keep_their_microseconds() -> None:
    store = new_store()
    far = clock.now().replace(year=2999, microsecond=123457)
    for job_id, time in [("later", far), ("earlier", far.replace(year=1900))]:
        store.add_job(new_job(job_id, next_run_time=time))
    assert store.get_next_run_time() == far.replace(year=1900)
    store.remove_job("earlier")
    assert store.get_next_run_time() == far


def test_a_due_item_whose_job_is_gone_is_dropped(network: Network) -> None:
    store = new_store()
    store.add_job(new_job())
    job: Any = store._table.job("j-1")
    with mock.patch.object(store._table, "_due_deletes", return_value=[]):
        store._table.remove([job])  # as a person does, in a console
    assert due(store) == due(store) == []
    assert store.get_next_run_time() is None
    del network


def test_a_due_item_of_another_time_does_not_keep_the_job_from_running() -> None:
    store = new_store()
    store.add_job(new_job(next_run_time=at(-2)))
    assert store._table.job("j-1") is not None
    with mock.patch.object(store._table, "_due_deletes", return_value=[]):
        store.update_job(new_job(next_run_time=at(-1)))
    assert len(list(store._table.due_items())) == 2
    assert due(store) == due(store) == ["j-1"]
    assert [each.time for each in store._table.due_items()] == [micros(at(-1))]


def test_a_due_item_that_comes_to_be_right_is_not_dropped(network: Network) -> None:
    store, other = new_store(), new_store()
    store.add_job(new_job())
    job: Any = other.lookup_job("j-1")
    now, later = job.next_run_time, at(60)

    def rule(operation: str, _request: Any, send: Any) -> Any:
        if operation != "BatchGetItem":
            return send()
        network.rule = passing  # it is moved away right before, and back right after the look reads it
        modify(job, next_run_time=later)
        other.update_job(job)
        answer = send()
        modify(job, next_run_time=now)
        other.update_job(job)
        return answer

    for _ in range(3):
        network.rule = rule
        assert due(store) == []
    assert due(store) == ["j-1"]


def test_a_job_that_another_scheduler_has_just_moved_on_costs_no_write(network: Network) -> None:
    store, other = new_store(), new_store()
    store.add_job(new_job())
    (job,) = other.get_due_jobs(at(0))
    modify(job, next_run_time=at(60))
    before(network, "BatchGetItem", lambda: other.update_job(job))
    with mock.patch.object(store._table, "is_free", return_value=True), recorded() as requests:  # as it was read
        assert due(store) == []
    assert requests.operations == ["Query", "TransactWriteItems", "BatchGetItem"]


def test_a_scheduler_that_wakes_up_logs_a_second_run(clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    frozen, other = new_store(lock_for=LOCK), new_store(lock_for=LOCK)
    frozen.add_job(new_job())
    time = at(-1)
    (submitted,) = frozen.get_due_jobs(at(0))
    clock.advance(LOCK + MARGIN + SECOND)
    (again,) = other.get_due_jobs(at(0))
    modify(again, next_run_time=at(3600))
    other.update_job(again)
    assert "may have run" not in caplog.text
    modify(submitted, next_run_time=at(3600))
    frozen.update_job(submitted)

    assert f"Job 'j-1' was submitted for {time}" in caplog.text
    assert "another scheduler may have run it for the same time" in caplog.text
