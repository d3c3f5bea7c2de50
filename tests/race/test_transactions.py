"""A transaction whose answer got lost: one GET decides, and no late copy of it is applied after that."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker import LockLostError
from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import PASS, Action, DropRequest, DropResponse, Fail, Hold, pass_everything
from tests.engine.proxy import IDLE_TIMEOUT, Proxy
from tests.support.operations import Boom
from tests.support.orders import MARGIN
from tests.support.proxy_rules import arrive, in_turn, targets
from tests.support.rows import client

pytestmark = pytest.mark.usefixtures("stopped_clock")

LOCK = timedelta(seconds=3)
TRANSACT = "TransactWriteItems"
CONFLICT = Fail(
    400,
    "TransactionCanceledException",
    more={"CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}]},
)


def every(action: Callable[[], Action], *of: str) -> Callable[..., Action]:
    """Return a rule that does this to every request of these targets, of all where none is named."""
    return lambda target, *_: action() if target in of or not of else PASS


def amount(order: Any) -> float:
    found: float = order.get_task("ledger").amount
    return found


def commit(order: Any, ctx: Any, ledger: Any, *, succeed: bool = True) -> None:
    with ctx.transaction(succeed=succeed) as transaction:
        transaction.update(ledger, [order.amount.add(1)])


@pytest.fixture
def ledger(order: Any) -> Any:
    order.create("o")
    return order.create("ledger", amount=0)


@pytest.mark.parametrize("succeed", [False, True])
def test_a_transaction_that_was_applied_without_an_answer_is_found_in_the_row(
    order: Any, rival: Any, ledger: Any, proxy: Proxy, *, succeed: bool
) -> None:
    with order.confirm.start("o", lock_for=LOCK) as ctx:
        ctx.task.note = "done"
        proxy.rule = every(DropResponse, TRANSACT)
        before = len(proxy.log)
        commit(order, ctx, ledger, succeed=succeed)
        seen = targets(proxy)[before:]
        proxy.rule = pass_everything
    assert (set(seen[:-1]), seen[-1]) == ({TRANSACT}, "GetItem")
    task = rival.get_task("o")
    assert (amount(rival), task.state, task.note) == (1, rival.ship.pending, "done")


@pytest.mark.parametrize("succeed", [False, True])
def test_a_transaction_that_was_not_applied_raises_and_no_late_copy_is_applied(
    order: Any, rival: Any, ledger: Any, proxy: Proxy, *, succeed: bool
) -> None:
    late: list[Hold] = []

    def hold() -> Hold:
        late.append(Hold())
        return late[-1]

    with pytest.raises(TransactWriteError), order.confirm.start("o", lock_for=LOCK) as ctx:
        proxy.rule = every(hold, TRANSACT)
        with pytest.raises(TransactWriteError) as unheard:
            commit(order, ctx, ledger, succeed=succeed)
        proxy.rule = pass_everything
        for copy in late:
            arrive(proxy, copy)
        assert (amount(rival), rival.get_task("o").state) == (0, rival.confirm.in_progress)
        raise unheard.value
    assert (amount(rival), rival.get_task("o").state) == (0, rival.confirm.failed)


@pytest.mark.parametrize("succeed", [False, True])
def test_a_copy_that_arrives_between_the_get_and_the_fence_has_committed(
    order: Any, rival: Any, ledger: Any, proxy: Proxy, *, succeed: bool
) -> None:
    late = Hold()
    with order.confirm.start("o", lock_for=LOCK) as ctx:
        rest = every(DropRequest, TRANSACT)
        held = in_turn(TRANSACT, late)
        fence = in_turn("UpdateItem", lambda: _let_in(proxy, late))

        def rule(target: str, body: dict[str, Any], ordinal: int) -> Action:
            if target == "UpdateItem":
                return fence(target, body, ordinal)
            action = held(target, body, ordinal)
            return action if action is not PASS else rest(target, body, ordinal)

        proxy.rule = rule
        commit(order, ctx, ledger, succeed=succeed)
        proxy.rule = pass_everything
    assert (amount(rival), rival.get_task("o").state) == (1, rival.ship.pending)


@pytest.mark.parametrize("succeed", [False, True])
@pytest.mark.parametrize(
    "conflict", [Fail(400, "TransactionInProgressException"), CONFLICT], ids=lambda each: each.code
)
def test_a_conflict_may_be_with_a_copy_of_the_same_transaction(
    order: Any, rival: Any, ledger: Any, proxy: Proxy, conflict: Fail, *, succeed: bool
) -> None:
    sent: list[str] = []

    def rule(target: str, body: dict[str, Any], _ordinal: int) -> Action:
        if target != TRANSACT:
            return PASS
        if not sent:  # the network has sent it twice, and this is the answer to the second one
            client(rival).transact_write_items(**body)
        sent.append(target)
        return conflict

    with order.confirm.start("o", lock_for=LOCK) as ctx:
        proxy.rule = rule
        commit(order, ctx, ledger, succeed=succeed)
        proxy.rule = pass_everything
    assert (amount(rival), rival.get_task("o").state) == (1, rival.ship.pending)


def _let_in(proxy: Proxy, late: Hold) -> None:
    late.event.set()
    exchange = next(exchange for exchange in proxy.log if exchange.action is late)
    assert exchange.done.wait(IDLE_TIMEOUT)


@pytest.mark.parametrize("applied", [False, True])
def test_if_the_row_cannot_be_read_the_end_of_the_block_decides(
    order: Any, rival: Any, ledger: Any, proxy: Proxy, *, applied: bool
) -> None:
    with pytest.raises(TransactWriteError) as unknown, order.confirm.start("o", lock_for=LOCK) as ctx:
        lost = every(DropResponse if applied else DropRequest, TRANSACT)
        proxy.rule = lambda target, *rest: lost(target, *rest) if target == TRANSACT else DropRequest()
        try:
            commit(order, ctx, ledger)
        finally:
            proxy.rule = pass_everything
    told = "\n".join(unknown.value.__notes__)
    assert "may have been applied" in told
    assert ("had recorded the success" in told) is applied
    ended = rival.ship.pending if applied else rival.confirm.failed
    assert (amount(rival), rival.get_task("o").state, ctx.task.state.code) == (applied, ended, ended.code)


def test_what_was_applied_after_all_is_a_success_though_the_block_caught_the_error(
    order: Any, rival: Any, ledger: Any, proxy: Proxy
) -> None:
    with order.confirm.start("o", lock_for=LOCK) as ctx:
        proxy.rule = every(DropResponse)
        with pytest.raises(TransactWriteError):
            commit(order, ctx, ledger)
        proxy.rule = pass_everything
    assert (amount(rival), rival.get_task("o").state) == (1, rival.ship.pending)


def test_a_second_transaction_after_one_that_was_applied_after_all_is_refused(
    order: Any, rival: Any, ledger: Any, proxy: Proxy
) -> None:
    with pytest.raises(LockLostError, match="has recorded the success"), order.confirm.start("o", lock_for=LOCK) as ctx:
        proxy.rule = every(DropResponse)
        with pytest.raises(TransactWriteError):
            commit(order, ctx, ledger)
        proxy.rule = pass_everything
        commit(order, ctx, ledger)
    assert (amount(rival), rival.get_task("o").state) == (1, rival.ship.pending)


def end_task(ctx: Any) -> None:
    ctx.end_task()


def charge(ctx: Any) -> None:
    ctx.checkpoint("charge", lambda: CHARGED.append(ctx.task.task_id))


CHARGED: list[str] = []


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("act", [end_task, charge])
def test_nothing_is_chosen_or_begun_after_a_transaction_that_may_have_recorded_the_success(
    order: Any, rival: Any, ledger: Any, proxy: Proxy, act: Callable[[Any], None], *, applied: bool
) -> None:
    CHARGED.clear()
    with order.confirm.start("o", lock_for=LOCK) as ctx:
        lost = every(DropResponse if applied else DropRequest, TRANSACT)
        proxy.rule = lambda target, *rest: lost(target, *rest) if target == TRANSACT else DropRequest()
        with pytest.raises(TransactWriteError):
            commit(order, ctx, ledger)
        proxy.rule = pass_everything
        if applied:
            with pytest.raises(LockLostError, match="has recorded the success"):
                act(ctx)
        else:
            act(ctx)
            commit(order, ctx, ledger)
    ended = rival.ship.succeeded if act is end_task and not applied else rival.ship.pending
    assert (amount(rival), rival.get_task("o").state, bool(CHARGED)) == (1, ended, act is charge and not applied)


@pytest.mark.parametrize("succeed", [False, True])
def test_a_takeover_meanwhile_is_a_lost_lock_with_a_note_about_what_is_unknown(
    order: Any, rival: Any, ledger: Any, proxy: Proxy, stopped_clock: StoppedClock, *, succeed: bool
) -> None:
    def take_over() -> None:
        stopped_clock.advance(2 * LOCK + 2 * MARGIN)
        with rival.confirm.start("o"):
            pass

    with pytest.raises(LockLostError) as lost, order.confirm.start("o", lock_for=LOCK) as ctx:
        proxy.rule = in_turn(TRANSACT, *[DropRequest()] * 4, take_over)
        commit(order, ctx, ledger, succeed=succeed)
    assert amount(rival) == 0
    if not succeed:
        assert any("may have been applied before" in note for note in lost.value.__notes__)


@pytest.mark.parametrize("ends", [Boom, KeyboardInterrupt, SystemExit])
def test_an_exception_during_the_commit_leaves_one_result(
    order: Any, rival: Any, ledger: Any, monkeypatch: pytest.MonkeyPatch, ends: type[BaseException]
) -> None:
    connection = order.tracker.connection().connection
    dispatch = connection.dispatch

    def interrupted(operation: str, request: Any) -> Any:
        answer = dispatch(operation, request)
        if operation == TRANSACT:
            raise ends
        return answer

    monkeypatch.setattr(connection, "dispatch", interrupted)
    with pytest.raises(ends), order.confirm.start("o") as ctx:
        commit(order, ctx, ledger)
    assert (amount(rival), rival.get_task("o").state) == (1, rival.ship.pending)
    assert ctx.task.status == rival.ship.pending.code


def test_a_conflict_and_throttling_are_tried_again(order: Any, rival: Any, ledger: Any, proxy: Proxy) -> None:
    with order.confirm.start("o") as ctx:
        proxy.rule = in_turn(
            TRANSACT,
            cancelled("TransactionConflict", "None"),
            cancelled("None", "ThrottlingError"),
            cancelled("ProvisionedThroughputExceeded", "TransactionConflict"),
            Fail(400, "TransactionInProgressException"),
            Fail(503, "ServiceUnavailable"),
        )
        commit(order, ctx, ledger)
    assert (amount(rival), rival.get_task("o").state) == (1, rival.ship.pending)


def test_a_conflict_that_does_not_pass_ends_with_the_lock(order: Any, ledger: Any, proxy: Proxy) -> None:
    with pytest.raises(TransactWriteError) as conflict, order.confirm.start("o", lock_for=LOCK) as ctx:
        proxy.rule = every(lambda: cancelled("TransactionConflict", "None"), TRANSACT)
        commit(order, ctx, ledger)
    assert isinstance(conflict.value.cause, ClientError)
    assert order.get_task("o").state == order.confirm.failed


def test_a_failed_condition_of_the_user_together_with_a_conflict_is_not_retried(
    order: Any, ledger: Any, proxy: Proxy
) -> None:
    with pytest.raises(TransactWriteError), order.confirm.start("o") as ctx:
        proxy.rule = in_turn(TRANSACT, cancelled("TransactionConflict", "ConditionalCheckFailed"))
        commit(order, ctx, ledger)
    assert targets(proxy).count(TRANSACT) == 1


def cancelled(*reasons: str) -> Fail:
    return Fail(400, "TransactionCanceledException", more={"CancellationReasons": [{"Code": code} for code in reasons]})


def test_the_token_of_a_request_is_the_same_in_every_try(order: Any, ledger: Any, proxy: Proxy) -> None:
    with order.confirm.start("o") as ctx:
        proxy.rule = in_turn(TRANSACT, cancelled("TransactionConflict", "None"), DropResponse())
        commit(order, ctx, ledger)
    bodies = [json.dumps(exchange.body) for exchange in proxy.log if exchange.target == TRANSACT]
    assert (len(bodies), len(set(bodies))) == (3, 1)
