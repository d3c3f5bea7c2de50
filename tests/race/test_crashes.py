"""The database is killed at a request and starts again from its file. Nothing is lost, done twice or left locked."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.dynamodb import batch_execute, write_batcher
from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import PASS, Action, Crash
from tests.engine.engine import Engine, start
from tests.engine.proxy import Proxy
from tests.engine.server import Server
from tests.support.operations import OPERATIONS, row
from tests.support.orders import close, orders
from tests.support.proxy_rules import in_turn

pytestmark = pytest.mark.usefixtures("stopped_clock")

BATCH = "BatchExecuteStatement"


@pytest.fixture(scope="module")
def server(dynamodb: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a dynoxide with its tables in a file."""
    del dynamodb  # without an engine, these tests are skipped as all others are
    engine = start(tmp_path_factory.mktemp("crashes") / "orders.sqlite")
    if engine.server is None:
        pytest.skip("the given DynamoDB cannot be killed")
    yield engine.server
    engine.stop()


@pytest.fixture(scope="module")
def table(server: Server) -> str:
    owner = orders(server.endpoint, "orders")
    owner.create_table(wait=True)
    close(owner)
    return "orders"


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.endpoint) as proxy:
        yield proxy


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(
    "operation", ["claim", "succeed", "fail", "save large", "create large", "commit", "commit success", "answer"]
)
def test_a_crash_of_the_database_at_a_request_makes_no_difference(
    order: Any, proxy: Proxy, server: Server, operation: str, *, applied: bool
) -> None:
    target, story = OPERATIONS[operation]
    crash = Crash(server, applied)
    story(order, "calm", lambda: None)
    story(order, "stormy", lambda: setattr(proxy, "rule", in_turn(target, crash)))
    assert row(order, "stormy") == row(order, "calm")
    assert [exchange.action for exchange in proxy.log].count(crash) == 1


@pytest.mark.parametrize("applied", [False, True])
def test_after_a_crash_of_the_database_at_a_transaction_its_writes_are_applied_once(
    order: Any, proxy: Proxy, server: Server, *, applied: bool
) -> None:
    order.create("o")
    ledger = order.create("ledger", amount=0)
    with order.confirm.start("o") as ctx:
        proxy.rule = in_turn("TransactWriteItems", Crash(server, applied))
        with ctx.transaction() as transaction:
            transaction.update(ledger, [order.amount.add(1)])
    assert order.get_task("ledger").amount == 1


@pytest.mark.parametrize("applied", [False, True])
def test_after_a_crash_of_the_database_at_a_batch_of_writes_each_task_has_succeeded_under_one_owner_at_a_time(
    order: Any,
    proxy: Proxy,
    server: Server,
    stopped_clock: StoppedClock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    applied: bool,
) -> None:
    monkeypatch.setattr(batch_execute, "_known", WeakKeyDictionary())
    monkeypatch.setattr(write_batcher, "_LONGEST_WAIT", 1.0)  # the first writes meet on a slow machine, too
    tasks = [order.create(f"o-{number}").task_id for number in range(4)]
    crash, fences = Crash(server, applied), defaultdict[str, list[int]](list)

    def rule(target: str, body: dict[str, Any], _ordinal: int) -> Action:
        if target == BATCH and len(body["Statements"]) > 1 and crash not in [each.action for each in proxy.log]:
            return crash
        return PASS

    def note(ctx: Any) -> None:
        fences[ctx.task.task_id].append(ctx.task.fence)
        ctx.task.note = f"by {ctx.task.fence}"

    proxy.rule = rule
    for _ in range(3):
        with contextlib.suppress(PynamoDBException):
            order.confirm.run_all(note, threads=4)
        stopped_clock.advance(timedelta(minutes=6))  # every lock that the crash has left expires
    assert crash in [exchange.action for exchange in proxy.log]
    for task in order.get_many(tasks):
        assert (task.state, fences[task.task_id]) == (order.ship.pending, sorted(set(fences[task.task_id])))
        assert task.note == f"by {fences[task.task_id][-1]}"
