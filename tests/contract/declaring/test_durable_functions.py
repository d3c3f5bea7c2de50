"""A durable function of Lambda may suspend within a block: that is not a failure."""

import sys
from types import SimpleNamespace

import pytest

from tests.support.shop import Order
from tests.support.workers import fail

pytestmark = pytest.mark.usefixtures("table")


def test_a_durable_function_that_suspends_in_a_block_releases_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS's SDK raises a BaseException; Lambda invokes the function again later."""

    class SuspendExecution(BaseException):
        pass

    class TimedSuspendExecution(SuspendExecution):
        pass

    module = SimpleNamespace(SuspendExecution=SuspendExecution)
    monkeypatch.setitem(sys.modules, "aws_durable_execution_sdk_python.exceptions", module)
    Order.create("o-1")
    for _ in range(4):
        fail(Order.confirm_payment, "o-1", TimedSuspendExecution())
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.errors) == (Order.confirm_payment.pending, 0, [])
