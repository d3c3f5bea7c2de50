"""How many requests bulk operations take. plain_requests.txt has those of single tasks."""

from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker.dynamodb import write_batcher
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
