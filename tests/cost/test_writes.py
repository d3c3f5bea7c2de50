"""What DynamoDB charges for the writes of a task, beside what test_cost_page.py measures.

In a transaction, rows cost twice, because DynamoDB prepares and commits each write:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-capacity-handling.
Index entries do not. The Parity Suite (https://paritysuite.org) checks the rows on AWS, in "TransactWriteItems —
ConsumedCapacity charges 2 write capacity units per item". The authors of dynoxide 3.2.0 have measured indexes there,
see its tests/transactional_index_consumed_capacity.rs.
"""

import contextlib
from typing import Any

import pytest
from pynamodb.connection.base import Connection

from pynamodb_tracker.model.cost import Load, write_units
from tests.engine.proxy import Proxy
from tests.support.proxy_rules import charges, writes

pytestmark = pytest.mark.usefixtures("stopped_clock")

WRITES = {"PutItem", "UpdateItem", "DeleteItem"}
ID = "0e8fdfe2-5d54-4b4d-9d7e-5b8c7a1f0a11"


def test_a_success_that_leaves_the_index_costs_a_unit_less(new_worker: Any, proxy: Proxy) -> None:
    order = new_worker(proxy.endpoint, index_succeeded=False)
    order.create(ID)
    for step in (order.confirm, order.ship):
        step.run(ID, lambda _: None)
    assert writes(proxy) == [2, 3, 3, 3, 2]


def test_a_table_is_sized_by_what_the_engine_charges(order: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "get_consumed_capacity_map", lambda *_: {"ReturnConsumedCapacity": "INDEXES"})
    order.create(ID)
    with pytest.raises(ZeroDivisionError):
        order.confirm.run(ID, lambda _: 1 / 0)
    for step in (order.confirm, order.ship):
        step.run(ID, lambda _: None)
    charged = charges(proxy)
    sums = tuple(sum(each[name] for each in charged) for name in ("table", "status-index"))
    assert sums == write_units(Load(rate=1, steps=2, attempts=1.5))


def test_failures_on_record_make_no_later_write_of_a_small_task_cost_more(order: Any, proxy: Proxy) -> None:
    order.create(ID, note="n" * 100)
    for _ in range(2):
        with contextlib.suppress(ZeroDivisionError):
            order.confirm.run(ID, lambda _: deep(10))
    order.confirm.run(ID, lambda _: None)
    updates = [exchange.target == "UpdateItem" for exchange in proxy.log if exchange.target in WRITES]
    assert [units for units, update in zip(writes(proxy), updates, strict=True) if update] == [3] * 6


def deep(calls: int) -> float:
    """Fail below that many calls."""
    return deep(calls - 1) if calls else 1 / calls


def test_a_release_costs_what_a_success_costs(order: Any, proxy: Proxy) -> None:
    order.create(ID)
    with pytest.raises(KeyboardInterrupt), order.confirm.start(ID):
        raise KeyboardInterrupt
    assert writes(proxy) == [2, 3, 3]
