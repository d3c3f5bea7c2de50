"""`ctx.save()`: progress that is kept, whether the block succeeds or fails."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

import pytest

from tests.support.recorder import recorded
from tests.support.shop import Order, created
from tests.support.workers import Broken

pytestmark = pytest.mark.usefixtures("client", "table", "task")


def test_what_was_saved_is_there_while_the_block_still_runs() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.data["page"] = 7
        ctx.save()
        task = Order.get_task("o-1")
        assert (task.data, task.state) == ({"page": 7}, Order.confirm_payment.in_progress)


def test_what_was_saved_stays_when_the_block_fails() -> None:
    with pytest.raises(Broken), Order.confirm_payment.start("o-1") as ctx:
        ctx.task.data["page"] = 7
        ctx.save()
        ctx.task.data["page"] = 8
        raise Broken
    assert Order.get_task("o-1").data == {"page": 7}


@created(amount=1000)
def test_a_value_that_is_assigned_again_after_another_one_was_saved_is_stored() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        before = ctx.task.amount
        ctx.task.amount = 2000
        ctx.save()
        ctx.task.amount = before
    assert Order.get_task("o-1").amount == before


def test_a_save_writes_only_what_changed_since_the_last_one() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 1
        ctx.save()
        ctx.task.tracking_no = "T-1"
        with recorded() as requests:
            ctx.save()
        assert (requests.operations, requests[0].written) == (["UpdateItem"], {"tracking_no", "saves"})


def test_the_success_does_not_write_again_what_was_saved() -> None:
    with recorded() as requests, Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 1
        ctx.save()
    assert "amount" not in requests[-1].written


def test_a_save_without_a_change_sends_nothing() -> None:
    with Order.confirm_payment.start("o-1") as ctx, recorded() as requests:
        ctx.save()
        assert requests == []
