"""What tasks cost that repeat, have follow-ups, or wait for others: requests, and the units of their writes.

In a transaction, a row costs twice its units, and an index entry as much as outside of one: see test_writes.py.
"""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import GiveUp, Repeat
from tests.engine.proxy import Proxy
from tests.support.proxy_rules import targets, transactions, writes
from tests.support.rows import item_bytes

pytestmark = pytest.mark.usefixtures("stopped_clock")

ID = "0e8fdfe2-5d54-4b4d-9d7e-5b8c7a1f0a11"
TOGETHER = "TransactWriteItems"
MINUTE = timedelta(minutes=1)


def nothing(_: Any) -> None: ...


def actions(proxy: Proxy) -> list[list[str]]:
    """Return of what each transaction consists that the proxy has seen."""
    bodies = [exchange.body for exchange in proxy.log if exchange.target == TOGETHER]
    return [[kind for item in body["TransactItems"] for kind in item] for body in bodies]


def test_the_last_failure_of_an_occurrence_costs_what_any_failure_costs(order: Any, proxy: Proxy) -> None:
    order.create(ID, repeat=Repeat.every(MINUTE))
    order.confirm.run(ID, nothing)
    with pytest.raises(GiveUp), order.ship.start(ID):
        raise GiveUp("no use")
    assert (order.get_task(ID).state, writes(proxy)) == (order.confirm.pending, [1, 2, *[3] * 4])


def test_the_list_of_children_costs_2_units_for_each_kb_and_is_read_only_where_a_task_waits(
    order: Any, proxy: Proxy
) -> None:
    for number in (1, 97):
        order.create(f"{ID}/{number}")
        with order.confirm.start(f"{ID}/{number}") as ctx:
            for child in range(number):
                ctx.create(order, f"{ID}/{number}/{child}", wait=True)
    puts = [exchange.body["TransactItems"][-1]["Put"]["Item"] for exchange in proxy.log if exchange.target == TOGETHER]
    assert [-(-item_bytes(item) // 1024) * 2 for item in puts] == [2, 2]
    proxy.log.clear()
    order.cancel(f"{ID}/1", reason="by phone", children=True)
    assert targets(proxy) == ["GetItem", "BatchGetItem", "BatchGetItem", TOGETHER]
    assert transactions(proxy) == [4 + 4 * 1]


def test_cancelling_a_task_is_2_requests_and_3_units_and_so_is_the_reopen(order: Any, proxy: Proxy) -> None:
    order.create(ID)
    proxy.log.clear()
    order.cancel(ID, reason="by phone")
    order.reopen(ID)
    assert (targets(proxy), writes(proxy)) == (["GetItem", "UpdateItem"] * 2, [3, 3])


def test_ignoring_a_run_is_2_requests_and_3_units(order: Any, rival: Any, proxy: Proxy) -> None:
    rival.create(ID)
    with pytest.raises(Exception, match="lost"), rival.confirm.start(ID):
        order.confirm.ignore(ID, reason="cancelled", even_running=True)
    assert (targets(proxy), writes(proxy)) == (["GetItem", "UpdateItem"], [3])


def test_entering_a_group_and_ending_in_it_are_2_requests_however_many_wait(order: Any, proxy: Proxy) -> None:
    for number in range(12):
        order.create(f"o-{number}", group="g")
    assert targets(proxy) == ["Query", "TransactWriteItems"] * 12
    assert actions(proxy) == [["Put", "Update"], *[["Put", "Update", "Put"]] * 11]
    assert transactions(proxy) == [5, *[7] * 11]
    proxy.log.clear()
    order.confirm.run("o-0", nothing)
    order.ship.run("o-0", nothing)
    assert targets(proxy) == ["UpdateItem", "UpdateItem", "UpdateItem", "Query", "TransactWriteItems"]
    assert (actions(proxy), writes(proxy)[:3]) == ([["Update", "Update", "Update", "Delete"]], [3, 3, 3])
    assert transactions(proxy) == [12]


def test_data_of_a_group_is_read_when_it_is_touched_and_written_with_the_success(order: Any, proxy: Proxy) -> None:
    order.create("o-0", group="g")
    proxy.log.clear()
    with order.confirm.start("o-0") as ctx:
        ctx.group.data["paid"] = ctx.group.data.get("paid", 0) + 1
    assert targets(proxy) == ["UpdateItem", "Query", "Query", "TransactWriteItems"]
    assert (actions(proxy), transactions(proxy)) == ([["Update", "Update"]], [6])
