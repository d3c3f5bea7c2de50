"""What DynamoDB charges for the writes of a task, as the engine itself reports it.

In a transaction, rows cost twice, because DynamoDB prepares and commits each write:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-capacity-handling.
Index entries do not. The Parity Suite (https://paritysuite.org) checks the rows on AWS, in "TransactWriteItems —
ConsumedCapacity charges 2 write capacity units per item". The authors of dynoxide 3.2.0 have measured indexes there,
see its tests/transactional_index_consumed_capacity.rs.
"""

import contextlib
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.attributes import UnicodeAttribute
from pynamodb.connection.base import Connection

from pynamodb_tracker import FindBy, Repeat, Step, Task, UseCase
from pynamodb_tracker.aws_lambda import handles
from pynamodb_tracker.model.cost import Load, write_units
from pynamodb_tracker.testing import sqs_event
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.proxy_rules import charges, targets, transactions, writes

pytestmark = pytest.mark.usefixtures("stopped_clock")

WRITES = {"PutItem", "UpdateItem", "DeleteItem"}
ID = "0e8fdfe2-5d54-4b4d-9d7e-5b8c7a1f0a11"


def create_and_run(order: Any, **attributes: Any) -> None:
    order.create(ID, **attributes)
    order.confirm.run(ID, lambda ctx: setattr(ctx.task, "amount", 1))


def test_create_and_run_cost_8_units_for_a_small_task(order: Any, proxy: Proxy) -> None:
    create_and_run(order, note="n" * 300)

    assert writes(proxy) == [2, 3, 3]


def test_a_task_that_its_first_event_creates_and_runs_costs_5_units_and_a_refused_claim(
    order: Any, proxy: Proxy
) -> None:
    handler = handles(order.confirm, task_id="id", create_if_missing=True, store_result=True)(lambda *_: "done")

    assert handler({"id": ID}, None) == "done"
    assert (targets(proxy), writes(proxy)) == (["UpdateItem", "PutItem", "UpdateItem"], [2, 3])
    assert handler({"id": ID}, None) == "done"
    assert targets(proxy)[3:] == ["UpdateItem"]


def test_a_new_task_that_its_batch_creates_first_costs_2_units_more_and_no_refused_claim(
    order: Any, proxy: Proxy
) -> None:
    first = handles(order.confirm, task_id="id", create_if_missing=True, create_first=True)(lambda *_: None)

    assert first(sqs_event({"id": ID}, {"id": f"{ID}-2"}), None) == {"batchItemFailures": []}
    created, claims_and_ends = [2], [3] * 4  # the first one is put alone, to find out whether the engine takes batches
    assert sorted(writes(proxy)) == created + claims_and_ends
    assert targets(proxy).count("UpdateItem") == len(claims_and_ends)


def test_a_success_that_leaves_the_index_costs_a_unit_less(new_worker: Any, proxy: Proxy) -> None:
    order = new_worker(proxy.endpoint, index_succeeded=False)
    create_and_run(order)

    order.ship.run(ID, lambda _: None)

    assert writes(proxy) == [2, 3, 3, 3, 2]


def test_an_occurrence_of_a_task_that_repeats_costs_what_a_run_costs(order: Any, proxy: Proxy) -> None:
    order.create(ID, repeat=Repeat.every(timedelta(days=1)))

    for step in (order.confirm, order.ship):
        step.run(ID, lambda _: None)

    assert writes(proxy) == [1, 2, 3, 3, 3, 3]
    assert set(targets(proxy)) == {"PutItem", "UpdateItem"}


def test_an_attribute_that_finds_tasks_costs_1_unit_at_create_2_when_it_changes_and_none_otherwise(
    table: str, proxy: Proxy
) -> None:
    class Found(Task):
        class Meta:
            table_name = f"{table}-found"
            region = "us-east-1"
            host = proxy.endpoint

        customer = UnicodeAttribute(null=True)
        by_customer = FindBy(customer)

    class Quote(Found):
        use_case_id = UseCase("quote")
        work, send = Step(10), Step(20)

    Found.create_table(wait=True)
    try:
        Quote.create(ID, customer="c-1")
        Quote.work.run(ID, lambda _: None)
        Quote.send.run(ID, lambda ctx: setattr(ctx.task, "customer", "c-2"))
        Quote.create("q-2")
    finally:
        Found.delete_table()

    assert writes(proxy) == [3, 3, 3, 3, 5, 2]


def test_each_write_of_a_run_is_one_unit_of_the_table_and_one_or_two_of_the_index(
    order: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "get_consumed_capacity_map", lambda *_: {"ReturnConsumedCapacity": "INDEXES"})

    create_and_run(order)

    assert charges(proxy) == [
        {"table": 1.0, "status-index": 1.0},
        {"table": 1.0, "status-index": 2.0},
        {"table": 1.0, "status-index": 2.0},
    ]


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


@pytest.mark.parametrize("size", [200, 20_000, 200_000, 2_000_000])
def test_claim_and_finish_cost_the_same_whatever_the_size_of_the_data(
    order: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(Connection, "get_consumed_capacity_map", lambda *_: {"ReturnConsumedCapacity": "INDEXES"})
    order.create(ID, data={"scan": random.Random(1).randbytes(size // 2).hex()})

    order.confirm.run(ID, lambda ctx: setattr(ctx.task, "amount", 1))

    assert charges(proxy)[-2:] == [{"table": 1.0, "status-index": 2.0}] * 2


def test_creating_and_deleting_a_task_with_large_data_costs_its_rows_twice(order: Any, proxy: Proxy) -> None:
    order.create(ID, data={"scan": random.Random(1).randbytes(1_300).hex()})
    assert (transactions(proxy), writes(proxy)) == ([2 * (1 + 2) + 1], [])

    order.delete_task(ID)

    assert (transactions(proxy)[1:], writes(proxy)) == ([2 * (1 + 2)], [2])


def test_what_is_touched_and_not_changed_is_not_written(order: Any, proxy: Proxy) -> None:
    order.create(ID, data={"scan": "x" * 20_000})

    order.confirm.run(ID, lambda ctx: len(ctx.task.data["scan"]))

    assert writes(proxy)[-2:] == [3, 3]
    assert "PutItem" not in targets(proxy)


@pytest.mark.parametrize("hold", ["extend_lock", "save"])
def test_extending_and_saving_cost_1_unit_each(
    order: Any, proxy: Proxy, freeze: Callable[..., Frozen], hold: str
) -> None:
    order.create(ID)
    ctx = freeze(order.confirm, ID).ctx
    ctx.task.note = "half way"
    before = len(writes(proxy))

    if hold == "save":
        ctx.save()
    else:
        ctx.extend_lock(timedelta(hours=1))

    assert writes(proxy)[before:] == [1]


@pytest.mark.parametrize(("succeed", "own"), [(False, {"table": 2.0}), (True, {"table": 2.0, "status-index": 2.0})])
def test_a_transaction_costs_the_table_twice_what_its_parts_cost_and_the_index_no_more(
    order: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, *, succeed: bool, own: dict[str, float]
) -> None:
    monkeypatch.setattr(Connection, "get_consumed_capacity_map", lambda *_: {"ReturnConsumedCapacity": "INDEXES"})
    order.create(ID)
    before = len(proxy.log)

    with order.confirm.start(ID) as ctx, ctx.transaction(succeed=succeed):
        pass

    (committed,) = [exchange for exchange in proxy.log[before:] if exchange.target == "TransactWriteItems"]
    assert committed.answer is not None
    (consumed,) = committed.answer["ConsumedCapacity"]
    by_name = {"table": consumed["Table"], **consumed.get("GlobalSecondaryIndexes", {})}
    assert {name: each["CapacityUnits"] for name, each in by_name.items()} == own
    assert targets(proxy)[before:] == ["UpdateItem", "TransactWriteItems"] + ["UpdateItem"] * (not succeed)


def test_a_save_of_nothing_costs_nothing(order: Any, proxy: Proxy) -> None:
    order.create(ID)

    with order.confirm.start(ID) as ctx:
        before = len(writes(proxy))
        ctx.save()

        assert len(writes(proxy)) == before


def test_a_failing_run_costs_what_a_good_one_costs(order: Any, proxy: Proxy) -> None:
    order.create(ID)

    with contextlib.suppress(ZeroDivisionError):
        order.confirm.run(ID, lambda _: 1 / 0)

    assert writes(proxy) == [2, 3, 3]


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


@pytest.mark.parametrize("order_given", ["reopen", "ignore"])
def test_reopening_and_ignoring_cost_3_units(order: Any, proxy: Proxy, order_given: str) -> None:
    order.create(ID, state=order.confirm.failed)
    before = len(writes(proxy))

    if order_given == "reopen":
        order.confirm.reopen(ID)
    else:
        order.confirm.ignore(ID, reason="cancelled")

    assert writes(proxy)[before:] == [3]


def test_waiting_for_an_answer_costs_nothing_more_and_an_answer_3_units_if_it_wakes_the_task_otherwise_1(
    order: Any, proxy: Proxy
) -> None:
    order.create(ID, wait_for=order.paid)
    assert order.paid.send(ID, {"amount": "42.50"}, by="stripe", key="evt-1").effect == "resumed"
    order.confirm.run(ID, lambda ctx: ctx.wait_for(order.approved))
    assert order.approved.send(ID, "yes").effect == "resumed"
    assert (targets(proxy), writes(proxy)) == (["PutItem", *["UpdateItem"] * 4], [2, 3, 3, 3, 3])

    before = len(proxy.log)
    assert [order.paid.send(ID, {"amount": "42.50"}).effect for _ in range(2)] == ["stored"] * 2
    assert (targets(proxy)[before:], writes(proxy)[5:]) == (["UpdateItem"] * 2, [])

    order.create("early")
    before = len(proxy.log)
    assert [order.paid.send("early", 1).effect, order.approved.send("early", 1).effect] == ["early", "early"]
    assert (targets(proxy)[before:], writes(proxy)[6:]) == (["UpdateItem"] * 4, [1, 1])
