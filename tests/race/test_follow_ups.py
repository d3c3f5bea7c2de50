"""Follow-ups on DynamoDB itself: as many as its transactions take, and more."""

from typing import Any

import pytest

from tests.engine.proxy import Proxy
from tests.support.proxy_rules import targets

pytestmark = pytest.mark.usefixtures("stopped_clock")


@pytest.mark.parametrize(("many", "transactions"), [(98, 1), (99, 2), (250, 3)])
def test_more_than_98_follow_ups_take_more_than_one_transaction(
    order: Any, rival: Any, proxy: Proxy, many: int, transactions: int
) -> None:
    order.create("o")
    with order.confirm.start("o") as ctx:
        for number in range(many):
            ctx.create(order, f"o/{number}", note="x" * 1_000)
    assert targets(proxy)[2:] == ["TransactWriteItems"] * transactions
    assert (rival.confirm.pending.count(), rival.get_task("o").state) == (many, rival.ship.pending)
