"""What DynamoDB charges for a heartbeat."""

from collections.abc import Callable
from typing import Any

import pytest
from pynamodb.connection.base import Connection

from pynamodb_tracker.testing import StoppedClock
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.orders import LOCK
from tests.support.processes import until
from tests.support.proxy_rules import charges, targets

ID = "0e8fdfe2-5d54-4b4d-9d7e-5b8c7a1f0a11"
BEATS = 3


def test_a_beat_costs_1_unit_of_the_table_and_none_of_the_index(
    order: Any,
    proxy: Proxy,
    freeze: Callable[..., Frozen],
    stopped_clock: StoppedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Connection, "get_consumed_capacity_map", lambda *_: {"ReturnConsumedCapacity": "INDEXES"})
    order.create(ID, note="n" * 300)
    ctx = freeze(order.confirm, ID, heartbeat=True).ctx
    before = len(proxy.log)

    for _ in range(BEATS):
        stopped_clock.advance(LOCK / 3)
        until(lambda: ctx.lock_expire_time == stopped_clock.now() + LOCK)

    assert targets(proxy)[before:] == ["UpdateItem"] * BEATS
    assert charges(proxy)[2:] == [{"table": 1.0}] * BEATS
