"""What a block does after a transaction has recorded its success: it is not saved, and reported."""

import logging
from typing import Any

import pytest

from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")


def change_data_too_late(ctx: Any) -> None:
    with ctx.transaction(succeed=True):
        pass
    ctx.task.data["receipt"] = 7


def test_a_batch_logs_data_that_changed_too_late(caplog: pytest.LogCaptureFixture) -> None:
    Order.create("o-1")
    report = Order.confirm_payment.run_all(change_data_too_late)
    assert (report.succeeded, report.refused) == (["o-1"], {})
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "data of confirm_payment of Order 'o-1' changed after its success was recorded" in record.getMessage()
    assert Order.get_task("o-1").data == {}


def test_a_value_that_cannot_be_stored_is_reported_as_too_late() -> None:
    Order.create("o-1")
    with pytest.raises(AttributeError, match=r"data of .* changed after"), Order.confirm_payment.start("o-1") as ctx:  # noqa: PT012 - the block that raises is tested
        with ctx.transaction(succeed=True):
            pass
        ctx.task.data["receipt"] = object()
    task = Order.get_task("o-1")
    assert (task.state, task.data) == (Order.ship.pending, {})
