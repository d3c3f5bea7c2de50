"""The items of a job store, beside a task with the same hash key: the tracker sees none of them, and deletes none."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker.apscheduler import DynamoDBJobStore
from pynamodb_tracker.doctor import examine_rows
from pynamodb_tracker.web import dashboard
from tests.apscheduler.jobs import due, new_job, new_store
from tests.cli.command import run
from tests.support.rows import index_entries, keys
from tests.support.shop import AppTask, Order

pytestmark = pytest.mark.usefixtures("table", "clock")

TASK = "apscheduler#default"


@pytest.fixture(autouse=True)
def store() -> DynamoDBJobStore:
    store = new_store()
    store.add_job(new_job())
    store.add_job(new_job("paused", next_run_time=None))
    due(store)
    Order.create(TASK, amount=1)
    return store


def test_reads_find_the_task_alone() -> None:
    assert [task.task_id for task in AppTask.scan()] == [TASK]
    assert [task.task_id for task in AppTask.query(TASK)] == [TASK]
    assert AppTask.count(TASK) == Order.confirm_payment.pending.count() == 1
    assert [task.task_id for task in Order.confirm_payment.due()] == [TASK]
    assert sum(count for count in Order.counts().values()) == 1
    assert len(index_entries(AppTask)) == 1


def test_an_export_has_the_task_alone() -> None:
    exported = run("export", of="tests.support.shop:Order")
    assert [json.loads(line)["task_id"] for line in exported.lines] == [TASK]


def test_the_doctor_finds_nothing_in_them() -> None:
    assert list(examine_rows(AppTask)) == []


def test_the_page_shows_the_task_alone() -> None:
    page = TestClient(dashboard(Order, user=lambda _: "ada"))
    listed = page.get("/Order/tasks?step=confirm_payment&state=pending").text
    assert TASK in listed
    assert "#aps" not in listed + page.get("/").text + page.get("/Order/").text


@pytest.mark.parametrize("delete", [lambda: Order.delete_task(TASK), Order.delete_use_case], ids=["task", "use case"])
def test_a_delete_leaves_the_jobs(delete: Any, store: DynamoDBJobStore) -> None:
    before = sum(1 for _ in keys(AppTask))
    delete()
    assert sum(1 for _ in keys(AppTask)) == before - 1
    assert [job.id for job in store.get_all_jobs()] == ["j-1", "paused"]
    assert due(store) == ["j-1"]


def test_the_store_removes_no_task(store: DynamoDBJobStore) -> None:
    store.remove_all_jobs()
    assert [key["use_case_id"]["S"] for key in keys(AppTask)] == ["order"]
