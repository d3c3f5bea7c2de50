"""How many requests bulk operations, queries and views take. plain_requests.txt has those of single tasks."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.dynamodb import write_batcher
from pynamodb_tracker.presentation.children import family_of
from pynamodb_tracker.presentation.task_facts import read_task
from pynamodb_tracker.testing import StoppedClock
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.support.proxy_rules import targets

pytestmark = pytest.mark.usefixtures("stopped_clock")


def since(proxy: Proxy, before: int) -> list[str]:
    return targets(proxy)[before:]


def test_bulk_operations_send_25_writes_in_a_request(order: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_batcher, "_LONGEST_WAIT", 0.5)  # a slow machine takes longer to gather the writes
    ids = [f"o-{number}" for number in range(30)]
    asked = {"by": "ada", "threads": 25}
    operations: dict[str, Callable[[], list[str]]] = {
        "create": lambda: order.create_many(ids, threads=25).succeeded,
        "ignore": lambda: order.confirm.ignore_many(ids, reason="cancelled", **asked).ignored,
        "reopen": lambda: order.confirm.reopen_many(ids, **asked).succeeded,
        "delete": lambda: order.delete_use_case(threads=25).succeeded,
    }

    for name, operation in operations.items():
        before = len(proxy.log)
        assert sorted(operation()) == sorted(ids)
        sent = since(proxy, before)
        assert len(sent) <= 8, f"{name}: {sent}"  # the first one alone, what it proves, and what the threads gather
        assert sent.count("BatchExecuteStatement") >= 2, name


def test_a_bulk_operation_of_a_single_task_is_a_plain_request_that_waits_for_nothing(
    order: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_batcher, "_LONGEST_WAIT", 60)
    order.create("o", state=order.confirm.ignored)
    before = len(proxy.log)

    assert order.confirm.reopen_many(["o"], by="ada").refused == {}

    assert set(since(proxy, before)) == {"UpdateItem", "GetItem"}  # it was created ignored, so it has no errors yet


def test_the_10_oldest_of_200_tasks_in_5_shards_are_at_most_6_requests(
    new_worker: Any, dynamodb: Engine, proxy: Proxy, stopped_clock: StoppedClock
) -> None:
    options = {"status_shards": 5}
    direct, counted = (new_worker(each.endpoint, **options) for each in (dynamodb, proxy))
    for number in range(200):
        stopped_clock.advance(timedelta(seconds=1))
        direct.create(f"o-{number}", data={"number": number})

    found = list(counted.confirm.pending.query(limit=10))

    assert [task.data["number"] for task in found] == list(range(10))
    assert len(proxy.log) <= 6
    assert sum(read_units(proxy)) <= 20


def read_units(proxy: Proxy) -> list[float]:
    """Return the read units of each request that the proxy has seen."""
    consumed = [(exchange.answer or {}).get("ConsumedCapacity", []) for exchange in proxy.log]
    return [each["CapacityUnits"] for answer in consumed for each in (answer if isinstance(answer, list) else [answer])]


def test_counting_reads_the_index_and_no_row(order: Any, proxy: Proxy) -> None:
    order.create_many([f"o-{number}" for number in range(20)])
    before = len(proxy.log)

    assert order.confirm.pending.count() == 20

    assert since(proxy, before) == ["Query"]
    assert proxy.log[-1].body["Select"] == "COUNT"


def test_a_glance_at_50_tasks_is_1_request_and_at_most_2_and_a_half_read_units(order: Any, proxy: Proxy) -> None:
    order.create_many((f"o-{number}" for number in range(51)), threads=4)
    before = len(proxy.log)

    assert len(order.confirm.pending.index_page().tasks) == 50

    assert since(proxy, before) == ["Query"]
    assert read_units(proxy)[-1] <= 2.5


def test_the_facts_about_a_blocked_task_are_2_read_units_and_1_for_each_child(order: Any, proxy: Proxy) -> None:
    order.create("o-1")
    with order.confirm.start("o-1") as ctx:
        for number in range(3):
            ctx.create(order, f"o-1/{number}", wait=True)
    before = len(read_units(proxy))

    family = family_of(read_task(order, "o-1"))

    assert family is not None
    assert len(family.children) == 3
    assert sum(read_units(proxy)[before:]) == 2 + 3
