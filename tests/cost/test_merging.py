"""What merging costs: the requests and the write units of each row of its table, as the engine itself reports them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.proxy import Proxy
from tests.support.proxy_rules import targets, writes

pytestmark = pytest.mark.usefixtures("stopped_clock")

ID = "0e8fdfe2-5d54-4b4d-9d7e-5b8c7a1f0a11"
HOUR = timedelta(hours=1)


def take_the_new_one(task: Any, new: Any) -> None:
    """Merge."""
    task.amount = new["amount"]


def waits(order: Any) -> None:
    order.create(ID, due_time=HOUR)


def runs(order: Any) -> None:
    order.create(ID)
    order.confirm.start(ID).__enter__()


def has_succeeded(order: Any) -> None:
    order.create(ID)
    order.confirm.run(ID, lambda _: None)
    order.ship.run(ID, lambda _: None)


COSTS: dict[str, tuple[Callable[[Any], object], dict[str, Any], list[str], float]] = {
    "created": (lambda _: None, {}, ["PutItem"], 2),
    "nothing to change": (waits, {"due_time": HOUR}, ["PutItem"], 0),
    "merged": (waits, {"due_time": HOUR, "merge": take_the_new_one}, ["PutItem", "UpdateItem"], 1),
    "due earlier": (waits, {}, ["PutItem", "UpdateItem"], 3),
    "again": (runs, {}, ["PutItem", "UpdateItem"], 1),
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


def test_a_run_that_takes_in_what_was_asked_for_costs_two_requests_and_one_read_unit_more(
    order: Any, proxy: Proxy
) -> None:
    order.create(ID)
    order.confirm.run(ID, lambda _: None)
    with order.ship.start(ID):
        order.create_or_merge(ID, amount=1)
        requests, before = len(proxy.log), sum(writes(proxy))

    assert targets(proxy)[requests:] == ["UpdateItem", "GetItem", "UpdateItem"]
    assert sum(writes(proxy)) - before == 3  # and 1 for the refused one
