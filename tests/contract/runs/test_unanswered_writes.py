"""Saves and successes that got no answer: their result is determined before anything more is written."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from pynamodb.exceptions import TransactWriteError, UpdateError

from pynamodb_tracker import LockLostError
from pynamodb_tracker.exceptions import address_of
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import Network, Rule, error, passing, silent, unheard
from tests.support.rows import change
from tests.support.shop import Order, created
from tests.support.workers import succeed

pytestmark = pytest.mark.usefixtures("table", "task")

SHORT = timedelta(seconds=30)

heard_of = pytest.mark.parametrize("lost", [unheard, silent], ids=["applied", "not applied"])


def large(text: str) -> dict[str, Any]:
    return {"text": text * 2_000}


@created(data=large("created"))
@pytest.mark.parametrize("late", [large("late"), {"small": 1}], ids=["large", "small"])
def test_a_save_after_a_success_whose_answer_was_lost_changes_nothing(network: Network, late: Any) -> None:
    with (
        pytest.raises(LockLostError, match="has recorded the success"),
        Order.confirm_payment.start("o-1", lock_for=SHORT) as ctx,
    ):
        ctx.task.data = large("done")
        applied, unread = unheard("TransactWriteItems"), silent("GetItem")
        network.rule = lambda name, request, send: applied(name, request, lambda: unread(name, request, send))
        with pytest.raises(TransactWriteError), ctx.transaction(succeed=True):
            pass
        network.rule = passing
        ctx.task.data = late
        ctx.save()
    assert Order.get_task("o-1").data == large("done")
    assert [task.data for task in Order.ship.pending.query()] == [large("done")]
    assert Order.ship.run("o-1", lambda ctx: ctx.task.data) == large("done")


@created(data=large("created"))
def test_a_save_after_a_success_that_was_not_applied_is_a_save(network: Network) -> None:
    with pytest.raises(TransactWriteError), Order.confirm_payment.start("o-1", lock_for=SHORT) as ctx:
        network.rule = silent("TransactWriteItems", "GetItem")
        with pytest.raises(TransactWriteError) as unknown, ctx.transaction(succeed=True):
            pass
        network.rule = passing
        ctx.task.data = large("saved")
        ctx.save()
        raise unknown.value
    task = Order.get_task("o-1")
    assert (task.state, task.data) == (Order.confirm_payment.failed, large("saved"))


def test_a_success_whose_answer_was_lost_is_found_after_eight_claims_that_never_ended(network: Network) -> None:
    change(Order, "o-1", fence={"N": "8"}, unfinished={"L": [{"N": str(fence)} for fence in range(1, 9)]})

    def applied_before(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        network.rule = passing
        send()
        raise error(operation, "ConditionalCheckFailedException", repeats=1)

    with Order.confirm_payment.start("o-1") as ctx:
        network.rule = applied_before
    assert (ctx.task.fence, Order.get_task("o-1").state) == (9, Order.ship.pending)


@created(tracking_no="old", data={"page": 1})
@heard_of
@pytest.mark.parametrize("saved", [True, False], ids=["by a save", "by the end"])
def test_a_change_undone_after_an_unanswered_save_is_undone_in_the_row(network: Network, lost: Any, saved: Any) -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.tracking_no, ctx.task.data["page"] = "new", 2
        _save_unheard(network, ctx, lost("UpdateItem"))
        ctx.task.tracking_no, ctx.task.data["page"] = "old", 1
        if saved:
            ctx.save()
            assert Order.get_task("o-1").tracking_no == "old"
    task = Order.get_task("o-1")
    assert (task.tracking_no, task.data) == ("old", {"page": 1}) == (ctx.task.tracking_no, ctx.task.data)


@created(data=large("first"))
@heard_of
def test_data_restored_after_an_unanswered_save_is_complete_whenever_its_worker_dies(
    network: Network, lost: Any
) -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        assert ctx.task.data == large("first")  # what is read is compared, and not written again
        ctx.task.data = large("second")
        _save_unheard(network, ctx, lost("UpdateItem"))
        ctx.task.data, ctx.task.amount = large("first"), 5
        ctx.save()
        ctx.task.data = large("third")
        _save_unheard(network, ctx, silent("UpdateItem"))  # its chunks are put
        assert Order.get_task("o-1").data == large("first")
    assert Order.get_task("o-1").data == large("third")


def test_a_note_that_a_block_adds_to_one_lost_lock_error_is_on_no_other_one(
    network: Network, clock: StoppedClock
) -> None:
    def taken_over(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        if operation != "TransactWriteItems":
            return send()
        network.rule = passing
        clock.advance(timedelta(minutes=6))
        succeed(Order.confirm_payment, "o-1")
        raise ReadTimeoutError(endpoint_url="of the test")

    with pytest.raises(LockLostError) as end, Order.confirm_payment.start("o-1") as ctx:
        network.rule = taken_over
        with pytest.raises(LockLostError) as lost, ctx.transaction():
            pass
        assert "may have been applied before" in lost.value.__notes__[-1]
        lost.value.add_note("of the block")
        for number in range(2):
            ctx.task.amount = number
            with pytest.raises(LockLostError) as known:
                ctx.save()
            assert known.value.__notes__ == [address_of(LockLostError)]
            known.value.add_note("of the block")
    assert end.value.__notes__ == [address_of(LockLostError)]


def _save_unheard(network: Network, ctx: Any, rule: Rule) -> None:
    network.rule = rule
    with pytest.raises(UpdateError):
        ctx.save()
    network.rule = passing
