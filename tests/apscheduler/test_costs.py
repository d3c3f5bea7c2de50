"""What each call of a job store sends, and what DynamoDB charges for it, with jobs below a kilobyte."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.apscheduler.jobs import at, due, modify, new_job, new_store
from tests.support.engines import only_dynoxide
from tests.support.network import Network, passing
from tests.support.recorder import recorded

pytestmark = [pytest.mark.usefixtures("table", "clock"), only_dynoxide]

Billed = Callable[..., list[str]]


@pytest.fixture
def billed(network: Network) -> Billed:
    """Return a function that makes a call, and returns its requests with their read or write units."""
    requests: list[str] = []

    def rule(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        request["ReturnConsumedCapacity"] = "TOTAL"
        answer = send()
        charged = answer["ConsumedCapacity"]
        units = sum(each["CapacityUnits"] for each in (charged if isinstance(charged, list) else [charged]))
        if operation == "TransactWriteItems":  # DynamoDB charges two for each write, and the engine reports fewer
            units = 2 * len(request["TransactItems"])
        if operation == "Query":  # and nothing for a query that finds nothing; one that is consistent costs a unit
            units = max(units, 1)
        requests.append(f"{operation} {units:g}")
        return answer

    def call(act: Callable[..., Any], *arguments: Any) -> list[str]:
        requests.clear()
        network.rule = rule
        act(*arguments)
        network.rule = passing
        return list(requests)

    return call


def test_a_firing_takes_five_requests_and_seven_write_units(billed: Billed) -> None:
    store = new_store()
    store.add_job(new_job())

    def fire() -> None:
        (job,) = store.get_due_jobs(at(0))
        modify(job, next_run_time=at(60))
        store.update_job(job)
        store.get_next_run_time()

    assert billed(fire) == ["Query 1", "BatchGetItem 1", "UpdateItem 1", "TransactWriteItems 6", "Query 1"]


def test_a_look_at_the_next_time_reads_one_page_at_most(billed: Billed) -> None:
    store = new_store()
    for number in range(30):
        store.add_job(new_job(f"j-{number}", next_run_time=at(number)))
    assert billed(store.get_next_run_time) == ["Query 1"]
    due(new_store())
    assert billed(store.get_next_run_time) == ["Query 1"]


def test_a_look_that_finds_nothing_is_one_unit(billed: Billed) -> None:
    store = new_store()
    store.add_job(new_job(next_run_time=at(1)))
    assert billed(due, store) == ["Query 1"]


def test_changes_by_people(billed: Billed) -> None:
    store = new_store()
    assert billed(store.add_job, new_job()) == ["TransactWriteItems 4"]
    assert billed(store.add_job, new_job("paused", next_run_time=None)) == ["PutItem 1"]
    job: Any = store.lookup_job("j-1")
    modify(job, name="renamed")
    assert billed(store.update_job, job) == ["PutItem 1"]
    modify(job, next_run_time=at(60))
    assert billed(store.update_job, job) == ["TransactWriteItems 6"]
    assert billed(store.update_job, new_job(next_run_time=at(60))) == ["GetItem 1", "PutItem 1"]
    assert billed(store.lookup_job, "j-1") == ["GetItem 1"]
    assert billed(store.remove_job, "paused") == ["GetItem 1", "DeleteItem 1"]
    assert billed(store.remove_job, "j-1") == ["GetItem 1", "TransactWriteItems 4"]


def test_the_removal_of_all_jobs_takes_one_request_for_fifty(billed: Billed) -> None:
    store = new_store()
    for number in range(60):
        store.add_job(new_job(f"j-{number}"))
    sent = billed(store.remove_all_jobs)
    assert sent[1:] == ["TransactWriteItems 200", "TransactWriteItems 40", "Query 1"]


def test_every_read_is_consistent_so_that_a_job_is_seen_right_after_it_was_added() -> None:
    store = new_store()
    with recorded() as requests:
        store.add_job(new_job())
        store.lookup_job("j-1")
        store.get_next_run_time()
        due(store)
        store.get_all_jobs()
        store.remove_all_jobs()
    reads = [request.body for request in requests if request.operation in {"GetItem", "Query"}]
    reads += [batch for request in requests for batch in request.body.get("RequestItems", {}).values()]
    assert len(reads) == 7
    assert all(read["ConsistentRead"] for read in reads)
