"""What several people and schedulers change in a job at the same time: nothing that one of them changed is lost."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from apscheduler.jobstores.base import ConflictingIdError, JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from pynamodb_tracker.apscheduler import DynamoDBJobStore
from pynamodb_tracker.apscheduler.job_table import JobTable
from tests.apscheduler.jobs import at, due, modify, new_job, new_store, nothing
from tests.support.engines import only_dynoxide
from tests.support.network import Network, before, passing
from tests.support.recorder import recorded
from tests.support.shop import AppTask

pytestmark = pytest.mark.usefixtures("table", "clock")


@pytest.fixture
def loop() -> DynamoDBJobStore:
    """Return the store of a scheduler that has just submitted a job, and not stored its next time yet."""
    store = new_store()
    store.add_job(new_job())
    return store


@pytest.fixture
def firing(loop: DynamoDBJobStore) -> Any:
    (job,) = loop.get_due_jobs(at(0))
    return job


@pytest.fixture
def person() -> DynamoDBJobStore:
    """Return the store of another process, in which people change jobs."""
    return new_store()


def change(store: DynamoDBJobStore, **values: Any) -> None:
    job: Any = store.lookup_job("j-1")
    modify(job, **values)
    store.update_job(job)


def move_on(store: DynamoDBJobStore, job: Any) -> None:
    """Do what the loop does after it has submitted a job."""
    modify(job, next_run_time=at(60))
    store.update_job(job)


def stored() -> Any:
    return new_store().lookup_job("j-1")


def due_times(store: DynamoDBJobStore) -> list[int]:
    return [each.time for each in store._table.due_items()]


def move_on_and_out(store: DynamoDBJobStore, job: Any) -> None:
    """Do what the loop does after it has submitted a job for the last time."""
    store.remove_job(job.id)


@pytest.mark.parametrize(
    ("act", "go_on", "left"),
    [
        (lambda person: change(person, next_run_time=None), move_on, [("nothing", None, 0)]),
        (lambda person: change(person, next_run_time=at(3600)), move_on, [("nothing", 3600, 1)]),
        (lambda person: change(person, name="renamed"), move_on, [("renamed", 60, 1)]),
        (lambda person: person.remove_job("j-1"), move_on, []),
        (lambda person: change(person, next_run_time=at(3600)), move_on_and_out, [("nothing", 3600, 1)]),
        (lambda person: change(person, name="renamed"), move_on_and_out, []),
    ],
    ids=["pause", "time", "name", "removal", "time in the last run", "name in the last run"],
)
def test_a_change_while_a_job_runs_stands_and_its_time_moves_on_unless_that_was_changed(
    loop: DynamoDBJobStore,
    firing: Any,
    person: DynamoDBJobStore,
    *,
    act: Callable[[DynamoDBJobStore], None],
    go_on: Callable[[DynamoDBJobStore, Any], None],
    left: list[tuple[str, int | None, int]],
) -> None:
    act(person)
    go_on(loop, firing)
    job, due_ones = stored(), due_times(loop)
    expected = [(name, seconds and at(seconds), number) for name, seconds, number in left]
    assert ([(job.name, job.next_run_time, len(due_ones))] if job else due_ones) == expected


def test_a_change_that_meets_the_end_of_a_run_does_not_bring_back_the_time_that_has_run(
    loop: DynamoDBJobStore, firing: Any, person: DynamoDBJobStore
) -> None:
    job: Any = person.lookup_job("j-1")
    move_on(loop, firing)
    modify(job, name="renamed")
    person.update_job(job)
    assert (job.name, job.next_run_time) == (stored().name, stored().next_run_time) == ("renamed", at(60))


def test_two_people_can_change_different_values(loop: DynamoDBJobStore, person: DynamoDBJobStore) -> None:
    first, second = loop.lookup_job("j-1"), person.lookup_job("j-1")
    modify(first, name="renamed", max_instances=2)
    loop.update_job(first)
    modify(second, coalesce=False, max_instances=3)
    person.update_job(second)
    assert (stored().name, stored().coalesce, stored().max_instances) == ("renamed", False, 3)


def test_a_change_that_meets_one_after_the_other_keeps_the_last_of_them(
    loop: DynamoDBJobStore, person: DynamoDBJobStore, network: Network
) -> None:
    names = ["first", "second"]

    def rule(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        if operation == "PutItem" and names:
            network.rule = passing
            change(loop, name=names.pop(0))
            network.rule = rule
        return send()

    network.rule = rule
    change(person, coalesce=False)
    assert (stored().name, stored().coalesce) == ("second", False)


def test_a_job_that_replaces_another_one_replaces_all_of_it(loop: DynamoDBJobStore, person: DynamoDBJobStore) -> None:
    with pytest.raises(ConflictingIdError):
        person.add_job(new_job())
    person.update_job(new_job(name="new", next_run_time=at(5)))
    assert (stored().name, stored().next_run_time) == ("new", at(5))
    assert len(due_times(loop)) == 1


def test_the_same_job_can_be_changed_again_and_again(person: DynamoDBJobStore, loop: DynamoDBJobStore) -> None:
    job: Any = person.lookup_job("j-1")
    with recorded() as requests:
        for name in ("a", "b"):
            modify(job, name=name)
            person.update_job(job)
    assert requests.operations == ["PutItem", "PutItem"]
    (fired,) = loop.get_due_jobs(at(0))
    move_on(loop, fired)
    modify(fired, name="c", next_run_time=None)
    loop.update_job(fired)
    assert (stored().name, stored().next_run_time) == ("c", None)


@pytest.mark.usefixtures("loop")
def test_a_removal_that_meets_a_change_removes_the_job(person: DynamoDBJobStore, network: Network) -> None:
    before(network, "TransactWriteItems", lambda: change(new_store(), name="renamed"))
    person.remove_job("j-1")
    assert stored() is None
    with pytest.raises(JobLookupError):
        person.remove_job("j-1")
    with pytest.raises(JobLookupError):
        person.update_job(new_job())


def test_a_job_that_others_change_all_the_time_is_given_up(person: DynamoDBJobStore, loop: DynamoDBJobStore) -> None:
    job: Any = loop.lookup_job("j-1")
    with mock.patch.multiple(JobTable, replace=mock.Mock(return_value=False), remove=mock.Mock(return_value=False)):
        for act, argument in ((person.update_job, job), (person.remove_job, "j-1")):
            with pytest.raises(RuntimeError, match=r"'j-1' was not .*: others changed it 8 times in the meantime"):
                act(argument)
        (firing,) = loop.get_due_jobs(at(0))
        move_on(loop, firing)
        assert due(loop) == []
    assert due(loop) == []
    assert stored().next_run_time == firing.next_run_time


def test_a_change_that_meets_others_pauses_before_each_further_try(
    person: DynamoDBJobStore, loop: DynamoDBJobStore, firing: Any
) -> None:
    def change_of_another(*_: object) -> bool:
        tries.append(at(0))
        return len(tries) > 4

    def replace() -> None:
        person.update_job(new_job(next_run_time=at(-1)))

    def end() -> None:
        move_on(loop, firing)

    for method, act in [("replace", replace), ("replace", end), ("remove", lambda: person.remove_job("j-1"))]:
        tries: list[datetime] = []
        with mock.patch.object(JobTable, method, side_effect=change_of_another):
            act()
        assert len(set(tries)) >= 3, act  # all processes of a deployment may replace the same job


def test_all_jobs_are_removed_also_those_that_change_meanwhile(network: Network) -> None:
    store = new_store()
    for number in range(5):
        store.add_job(new_job(f"j-{number}", next_run_time=None if number % 2 else at(number)))
    before(network, "TransactWriteItems", lambda: change(new_store(), name="renamed"))
    with mock.patch("pynamodb_tracker.apscheduler.store.MOST_REMOVED", 2):
        store.remove_all_jobs()
    assert store.get_all_jobs() == due_times(store) == []


def test_an_id_that_fits_into_no_key_is_a_value_error() -> None:
    store = new_store()
    store.add_job(new_job("ä" * 495))
    assert due(store) == ["ä" * 495]
    with pytest.raises(ValueError, match="at most 990 bytes"):
        store.add_job(new_job("x" * 991))


def test_a_job_whose_id_fits_into_no_key_is_not_found_because_another_store_may_have_it() -> None:
    scheduler = BackgroundScheduler(
        timezone=UTC, jobstores={"default": DynamoDBJobStore(AppTask), "memory": {"type": "memory"}}
    )
    scheduler.start(paused=True)
    scheduler.add_job(nothing, "interval", days=1, id="x" * 991, jobstore="memory")
    assert scheduler.get_job("x" * 991) is not None
    scheduler.remove_job("x" * 991)
    scheduler.shutdown()


def test_a_job_that_fits_into_no_item_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"'j-1' takes about 41\d,\d{3} of at most 409,600 bytes"):
        new_store().add_job(new_job(func="tests.apscheduler.jobs:anything", args=("x" * 410_000,)))


@only_dynoxide
@pytest.mark.race
def test_threads_that_change_one_job_leave_one_due_item(loop: DynamoDBJobStore) -> None:
    def work(number: int) -> None:
        store = new_store()
        for turn in range(5):
            change(store, next_run_time=at(100 + number * 10 + turn), kwargs={})

    with mock.patch("pynamodb_tracker.apscheduler.job_table.TRIES", 100):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(due_times(loop)) == 1
    assert stored().next_run_time == loop.get_next_run_time()
    assert stored().next_run_time >= at(100) - timedelta(seconds=30)  # pauses between tries move a stopped clock
