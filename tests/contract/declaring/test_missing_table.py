"""A table that does not exist: every operation says so in words, with PynamoDB's own kind of error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from pynamodb.exceptions import PynamoDBConnectionError, TableDoesNotExist

from pynamodb_tracker.model.worker_name import this_worker
from tests.support.network import Network, error
from tests.support.shop import Order, Parcel

pytestmark = pytest.mark.usefixtures("table", "clock")

OPERATIONS: dict[str, Callable[[], object]] = {
    "create": lambda: Order.create("o-1"),
    "create with large data": lambda: Order.create("o-1", data={"text": "x" * 2000}),
    "start": lambda: Order.ship.start("o-1").__enter__(),
    "run": lambda: Order.ship.run("o-1", lambda _: None),
    "run_all": lambda: Order.ship.run_all(lambda _: None),
    "due": lambda: list(Order.ship.due()),
    "reopen": lambda: Order.ship.reopen("o-1"),
    "ignore": lambda: Order.ship.ignore("o-1", reason="cancelled"),
    "release": lambda: Order.ship.unlock("o-1", reason="its host is gone", worker=this_worker()),
    "get_task": lambda: Order.get_task("o-1"),
    "query": lambda: list(Parcel.sort.pending.query()),
    "page": Order.ship.failed.page,
    "count": Order.ship.failed.count,
    "counts": Order.counts,
    "delete_task": lambda: Order.delete_task("o-1"),
    "delete_use_case": Order.delete_use_case,
}


@contextmanager
def elsewhere() -> Iterator[None]:
    """Let the class name a table that nobody has created."""
    with mock.patch.object(Order.tracker.table.owner.Meta, "table_name", "no-such-table"):
        yield


def test_an_operation_on_a_missing_table_says_which_table_where_and_what_to_do() -> None:
    with elsewhere():
        for operation in OPERATIONS.values():
            with pytest.raises(
                TableDoesNotExist, match=r"'no-such-table' does not exist in us-east-1 \(http.*create_table"
            ):
                operation()


def test_the_error_is_one_of_a_failed_request_with_its_cause() -> None:
    with elsewhere(), pytest.raises(PynamoDBConnectionError) as caught:
        Order.create("o-1")
    assert caught.value.cause_response_code == "ResourceNotFoundException"


def test_a_success_that_finds_no_table_any_more_is_not_a_failure(network: Network) -> None:
    Order.create("o-1")
    with pytest.raises(TableDoesNotExist) as caught, Order.confirm_payment.start("o-1", lock_for=timedelta(minutes=1)):
        network.rule = gone
    assert "was done, but its success was not recorded" in caught.value.__notes__[0]


def gone(operation: str, request: Any, send: Callable[[], Any]) -> Any:
    """ReceivedSignal as for a table that was deleted meanwhile."""
    del request, send
    raise error(operation, "ResourceNotFoundException")
