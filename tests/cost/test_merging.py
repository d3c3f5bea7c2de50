"""What merging costs beside what test_cost_page.py measures."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.proxy import Proxy
from tests.support.proxy_rules import targets, writes

pytestmark = pytest.mark.usefixtures("stopped_clock")

ID = "0e8fdfe2-5d54-4b4d-9d7e-5b8c7a1f0a11"
HOUR = timedelta(hours=1)


def waits(order: Any) -> None:
    order.create(ID, due_time=HOUR)


def has_succeeded(order: Any) -> None:
    order.create(ID)
    order.confirm.run(ID, lambda _: None)
    order.ship.run(ID, lambda _: None)


COSTS: dict[str, tuple[Callable[[Any], object], dict[str, Any], list[str], float]] = {
    "nothing to change": (waits, {"due_time": HOUR}, ["PutItem"], 0),
    "due earlier": (waits, {}, ["PutItem", "UpdateItem"], 3),
    "anew": (has_succeeded, {}, ["PutItem", "UpdateItem"], 3),
}
"""The state of the task, what is asked for, and the requests; the write units of the last one, a refused Put aside."""


@pytest.mark.parametrize("case", COSTS)
def test_a_merge_costs_at_most_two_requests_and_what_its_write_costs(order: Any, proxy: Proxy, case: str) -> None:
    prepare, options, sent, units = COSTS[case]
    prepare(order)
    requests, before = len(proxy.log), sum(writes(proxy))
    order.create_or_merge(ID, amount=1, **options)
    assert targets(proxy)[requests:] == sent
    # DynamoDB charges a refused Put for 1 unit; the engine does not report that.
    assert sum(writes(proxy)) - before == units
