"""A network that loses, repeats, refuses and delays requests of a job store."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from pynamodb_tracker.apscheduler import DynamoDBJobStore
from tests.apscheduler.jobs import at, due, modify, new_job, new_store
from tests.engine.actions import (
    OVER_CAPACITY,
    PASS,
    THROTTLED,
    Action,
    DropRequest,
    DropResponse,
    Duplicate,
    Fail,
    Hold,
    pass_everything,
)
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.support.orders import MARGIN, close, table_at
from tests.support.proxy_rules import arrive

pytestmark = pytest.mark.usefixtures("stopped_clock")

WRITES = {"DeleteItem", "PutItem", "TransactWriteItems", "UpdateItem"}

CONFLICT = Fail(400, "TransactionConflictException")
CANCELLED = Fail(
    400,
    "TransactionCanceledException",
    "Transaction cancelled, please refer cancellation reasons for specific reasons [None, TransactionConflict]",
    {"CancellationReasons": [{"Code": "None"}, {"Code": "TransactionConflict", "Message": "of the test"}]},
)
"""What a transaction is answered that meets another one on its second item."""


@pytest.fixture
def store(proxy: Proxy, dynamodb: Engine) -> Iterator[DynamoDBJobStore]:
    owner = table_at(proxy.endpoint, f"jobs-{os.getpid()}", MARGIN)
    direct = table_at(dynamodb.endpoint, owner.Meta.table_name, MARGIN)
    direct.create_table(wait=True)
    yield new_store(owner)
    direct.delete_table()
    close(direct)
    close(owner)


class EachRequest:
    """Lets something happen to each request when it is sent for the first time; its repeats pass."""

    def __init__(self, action: Action, conflict: Action | None = None) -> None:
        self._action = action
        self._of_transactions = conflict or action
        self._seen: set[str] = set()

    def __call__(self, target: str, body: dict[str, Any], _ordinal: int) -> Action:
        request = target + json.dumps(body, sort_keys=True)
        if request in self._seen or (self._of_transactions is not self._action and target not in WRITES):
            return PASS
        self._seen.add(request)
        return self._of_transactions if target == "TransactWriteItems" else self._action


def live(store: DynamoDBJobStore) -> None:
    """Let a store do all that it can do, and check what comes of it."""
    store.add_job(new_job())
    store.add_job(new_job("paused", next_run_time=None))
    paused: Any = store.lookup_job("paused")
    modify(paused, name="renamed")
    store.update_job(paused)
    (job,) = store.get_due_jobs(at(0))
    later = at(60)
    modify(job, next_run_time=later)
    store.update_job(job)
    assert store.get_next_run_time() == later
    assert [(job.name, job.next_run_time) for job in store.get_all_jobs()] == [("nothing", later), ("renamed", None)]
    store.add_job(new_job("last"))
    assert due(store) == ["last"]
    store.remove_job("last")  # as the loop does after the last run
    store.remove_job("paused")
    store.remove_job("j-1")
    assert store.get_all_jobs() == list(store._table.due_items()) == []


@pytest.mark.parametrize(
    "rule",
    [
        EachRequest(DropRequest()),
        EachRequest(DropResponse()),
        EachRequest(Duplicate("second")),
        EachRequest(Fail(500)),
        EachRequest(THROTTLED),
        EachRequest(OVER_CAPACITY),
        EachRequest(CONFLICT, CANCELLED),
    ],
    ids=["request lost", "answer lost", "twice", "server error", "throttled", "over capacity", "conflict"],
)
def test_every_request_may_fail_once(rule: EachRequest, store: DynamoDBJobStore, proxy: Proxy) -> None:
    proxy.rule = rule
    live(store)


class Late:
    """Delivers each write when it is sent again, and once more at the end."""

    def __init__(self) -> None:
        self.held: list[Hold] = []
        self._seen: set[str] = set()

    def __call__(self, target: str, body: dict[str, Any], _ordinal: int) -> Action:
        request = json.dumps(body, sort_keys=True)
        if target not in WRITES or request in self._seen:
            return PASS
        self._seen.add(request)
        self.held.append(Hold())
        return self.held[-1]


def test_late_copies_change_nothing_in_a_job_removed_and_added_again(store: DynamoDBJobStore, proxy: Proxy) -> None:
    proxy.rule = late = Late()
    time = at(-1)
    store.add_job(new_job(next_run_time=time))
    store.add_job(new_job("paused", next_run_time=None))
    assert due(store) == ["j-1"]
    store.remove_all_jobs()
    store.add_job(new_job(next_run_time=time))
    store.add_job(new_job("paused", next_run_time=None))
    assert due(store) == ["j-1"]
    for job_id in ("j-1", "paused"):
        store.remove_job(job_id)
    proxy.rule = pass_everything
    store.add_job(new_job(next_run_time=time))
    store.add_job(new_job("paused", next_run_time=None))
    before = sorted(store.get_all_jobs(), key=lambda job: job.id)
    for held in late.held:
        arrive(proxy, held)
    after = sorted(store.get_all_jobs(), key=lambda job: job.id)
    assert [job.item for job in after] == [job.item for job in before]
    assert due(store) == ["j-1"]
