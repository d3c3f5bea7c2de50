"""Writes of the user's own that are applied while the lock is held: `ctx.transaction()` and `ctx.check_in(...)`."""

# ruff: noqa: PT012, SIM117 - the block that raises is what is tested, whatever it has in it

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pynamodb.exceptions import TransactWriteError
from pynamodb.transactions import TransactWrite

from pynamodb_tracker import LockLostError
from pynamodb_tracker.testing import StoppedClock
from tests.contract.accounts import Account, accounts
from tests.support.blocking import only_blocking
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.shop import Order, created
from tests.support.workers import Broken, fail, succeed

pytestmark = pytest.mark.usefixtures("client", "table", "task", "books")


either = pytest.mark.parametrize("succeed_with_it", [False, True])


@pytest.fixture
def books(table: type[Any]) -> Iterator[None]:  # noqa: ARG001 - it is there before
    with accounts():
        Account("mine", balance=100).save()
        yield


def balance() -> float:
    return Account.get("mine", "account", consistent_read=True).balance


def debit(transaction: TransactWrite, amount: int = 10, least: int = 0) -> None:
    transaction.update(Account("mine"), [Account.balance.add(-amount)], condition=Account.balance >= amount + least)


def pass_the_lock_on(clock: StoppedClock, task_id: str = "o-1") -> None:
    clock.advance(Order.confirm_payment._definition.declared.lock_for * 2)
    succeed(Order.confirm_payment, task_id)


def test_a_transaction_is_pynamodbs_on_the_shared_client() -> None:
    with Order.confirm_payment.start("o-1") as ctx, ctx.transaction() as transaction:
        assert isinstance(transaction, TransactWrite)
        assert transaction._connection.client is Order.tracker.connection().connection.client


def test_a_transaction_is_one_request_that_is_applied_while_the_lock_is_held() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 5
        with recorded() as requests, ctx.transaction() as transaction:
            debit(transaction)
        assert (requests.operations, balance()) == (["TransactWriteItems"], 90)
        assert Order.get_task("o-1").amount is None
    task = Order.get_task("o-1")
    assert (task.state, task.amount) == (Order.ship.pending, 5)


def test_saves_and_transactions_of_a_run_follow_each_other_in_any_order() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        for number in range(3):
            with ctx.transaction() as transaction:
                debit(transaction)
            ctx.task.amount = number
            ctx.save()
        ctx.extend_lock()
        with ctx.transaction() as transaction:
            debit(transaction)
    assert (balance(), Order.get_task("o-1").amount) == (60, 2)


def test_a_transaction_takes_all_kinds_of_writes() -> None:
    Order.create("o-2")
    Account("old").save()
    with Order.confirm_payment.start("o-1") as ctx, ctx.transaction() as transaction:
        debit(transaction)
        transaction.save(Account("new", balance=1))
        transaction.delete(Account("old"))
        transaction.condition_check(Account, "else", "account", condition=Account.name.does_not_exist())
        transaction.update(Order.get_task("o-2"), [Order.amount.set(7)])
    assert (balance(), Account.get("new", "account").balance, Order.get_task("o-2").amount) == (90, 1, 7)
    with pytest.raises(Account.DoesNotExist):
        Account.get("old", "account")


def test_an_exception_in_a_transaction_discards_it() -> None:
    with Order.confirm_payment.start("o-1") as ctx, pytest.raises(Broken), ctx.transaction() as transaction:
        debit(transaction)
        raise Broken
    assert (balance(), Order.get_task("o-1").state) == (100, Order.ship.pending)


def test_a_failed_condition_of_the_user_raises_pynamodbs_own_error() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        with pytest.raises(TransactWriteError) as refused, ctx.transaction() as transaction:
            debit(transaction, 1000)
        assert [reason and reason.code for reason in refused.value.cancellation_reasons] == [
            None,
            "ConditionalCheckFailed",
        ]
        with ctx.transaction() as transaction:
            debit(transaction)
    assert (balance(), Order.get_task("o-1").state) == (90, Order.ship.pending)


@either
def test_without_the_lock_nothing_is_applied(clock: StoppedClock, succeed_with_it: Any) -> None:
    with pytest.raises(LockLostError, match="lost"), Order.confirm_payment.start("o-1") as ctx:
        pass_the_lock_on(clock)
        with (
            pytest.raises(LockLostError, match="cannot commit") as lost,
            ctx.transaction(succeed=succeed_with_it) as transaction,
        ):
            debit(transaction)
        assert (lost.value.task_id, ctx.lock_lost) == ("o-1", True)
        assert lost.value.task is not None
        assert lost.value.task.state == Order.ship.pending
    assert balance() == 100


@either
def test_a_lost_lock_is_reported_before_a_failed_condition_of_the_user(
    clock: StoppedClock, succeed_with_it: Any
) -> None:
    with pytest.raises(LockLostError), Order.confirm_payment.start("o-1") as ctx:
        pass_the_lock_on(clock)
        with ctx.transaction(succeed=succeed_with_it) as transaction:
            debit(transaction, 1000)


def test_an_expired_lock_is_good_enough_until_another_worker_takes_the_task(clock: StoppedClock) -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        clock.advance(Order.confirm_payment._definition.declared.lock_for * 2)
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
    assert (balance(), Order.get_task("o-1").state) == (90, Order.ship.pending)


@only_blocking
def test_no_transaction_is_opened_or_committed_after_the_block() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        transaction = ctx.transaction()
    with pytest.raises(LockLostError, match="the block has ended"):
        ctx.transaction()
    with pytest.raises(LockLostError, match="the block has ended"), transaction:
        debit(transaction)
    assert balance() == 100


def test_a_transaction_is_committed_once() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        with ctx.transaction() as transaction:
            debit(transaction)
        with pytest.raises(RuntimeError, match="is committed"), transaction:
            debit(transaction)
    assert balance() == 90


@either
def test_the_row_of_the_task_is_not_written_twice(succeed_with_it: Any) -> None:
    with pytest.raises(ValueError, match=r"assign to ctx\.task"), Order.confirm_payment.start("o-1") as ctx:
        with unreached(), ctx.transaction(succeed=succeed_with_it) as transaction:
            transaction.update(ctx.task, [Order.amount.set(7)])
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


@only_blocking
@pytest.mark.parametrize(("many", "fits"), [(99, True), (100, False)])
def test_a_transaction_takes_99_actions(many: int, fits: Any) -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        transaction = ctx.transaction()
        for number in range(many):
            transaction.save(Account(f"a-{number}"))
        if fits:
            with transaction:
                pass
        else:
            with pytest.raises(ValueError, match="it takes 99"), transaction:
                pass


# With the success.


def test_a_transaction_includes_the_success_and_what_was_assigned() -> None:
    with recorded() as requests, Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 5
        ctx.task.data["receipt"] = 7
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
        task = Order.get_task("o-1")
        assert (task.state, task.amount, task.data, task.attempt) == (Order.ship.pending, 5, {"receipt": 7}, 0)
        assert (ctx.task.state, ctx.task.attempt) == (Order.ship.pending, 0)
    assert (requests.operations, balance()) == (["UpdateItem", "TransactWriteItems", "GetItem"], 90)


def test_the_row_is_the_same_as_after_an_ordinary_success() -> None:
    Order.create("o-2")
    for task_id in ("o-1", "o-2"):
        fail(Order.confirm_payment, task_id)
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 5
    with Order.confirm_payment.start("o-2") as ctx:
        ctx.task.amount = 5
        with ctx.transaction(succeed=True):
            pass
    by_block, by_transaction = Order.get_task("o-1"), Order.get_task("o-2")
    differ = {"task_id", "lock", "saves", "errors", "creation"}
    assert {name: value for name, value in by_block.attribute_values.items() if name not in differ} == {
        name: value for name, value in by_transaction.attribute_values.items() if name not in differ
    }
    assert len(by_transaction.errors) == 1


@created(data={"before": "x" * 5000})
def test_data_in_overflow_chunks_is_committed_too() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.data["after"] = "y" * 5000
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
    assert Order.get_task("o-1").data == {"before": "x" * 5000, "after": "y" * 5000}
    assert ctx.task.data == {"before": "x" * 5000, "after": "y" * 5000}


def test_a_value_that_cannot_be_stored_fails_the_attempt_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="data"), Order.confirm_payment.start("o-1") as ctx:
        ctx.task.data["receipt"] = object()
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
    assert (balance(), Order.get_task("o-1").state) == (100, Order.confirm_payment.ignored)


def test_a_row_that_is_read_again_after_it_takes_no_assignments_either() -> None:
    with pytest.raises(AttributeError, match="too late"), Order.confirm_payment.start("o-1") as ctx:
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
        ctx.task.refresh(consistent_read=True)
        ctx.task.amount = 7


def test_assignments_after_the_commit_raise_at_their_line() -> None:
    with pytest.raises(AttributeError, match="too late") as late, Order.confirm_payment.start("o-1") as ctx:
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
        ctx.task.amount = 5
    assert any("the success" in note for note in late.value.__notes__)
    task = Order.get_task("o-1")
    assert (balance(), task.state, task.amount) == (90, Order.ship.pending, None)


def test_after_the_commit_the_run_writes_nothing_more() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
        for order in (ctx.save, ctx.extend_lock, ctx.transaction):
            with pytest.raises(LockLostError, match="a transaction has recorded its success"):
                order()
    assert balance() == 90


def test_an_exception_after_the_commit_propagates_and_the_success_stands(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Broken) as broken, Order.confirm_payment.start("o-1", skip_error=True) as ctx:
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
        raise Broken
    assert any("had recorded the success" in note for note in broken.value.__notes__)
    assert "raised after its success was recorded" in caplog.text
    task = Order.get_task("o-1")
    assert (task.state, task.errors) == (Order.ship.pending, [])


def test_ctrl_c_after_the_commit_propagates_and_the_success_stands(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, "pynamodb_tracker"),
        pytest.raises(KeyboardInterrupt),
        Order.confirm_payment.start("o-1") as ctx,
    ):
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
        raise KeyboardInterrupt
    assert Order.get_task("o-1").state == Order.ship.pending
    assert [(record.levelname, record.message.partition(":")[0]) for record in caplog.records] == [
        ("INFO", "the block of confirm_payment of Order 'o-1' was stopped after its success was recorded")
    ]


def test_the_attempt_fails_even_if_the_block_catches_the_error_of_the_commit() -> None:
    with pytest.raises(TransactWriteError) as refused, Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 5
        with pytest.raises(TransactWriteError) as caught, ctx.transaction(succeed=True) as transaction:
            debit(transaction, 1000)
    assert refused.value is caught.value
    assert any("was not committed" in note for note in refused.value.__notes__)
    task = Order.get_task("o-1")
    assert (balance(), task.state, task.amount) == (100, Order.confirm_payment.failed, None)


def test_an_exception_in_a_transaction_fails_the_attempt_even_if_the_block_catches_it() -> None:
    with pytest.raises(Broken), Order.confirm_payment.start("o-1") as ctx:
        with pytest.raises(Broken), ctx.transaction(succeed=True) as transaction:
            debit(transaction)
            raise Broken
    assert (balance(), Order.get_task("o-1").state) == (100, Order.confirm_payment.failed)


@only_blocking
def test_a_transaction_that_is_never_committed_is_no_success() -> None:
    with pytest.raises(Exception, match="was not committed"), Order.confirm_payment.start("o-1") as ctx:
        transaction = ctx.transaction(succeed=True)
        debit(transaction)
    task = Order.get_task("o-1")
    assert (balance(), task.state, task.errors[-1].type) == (100, Order.confirm_payment.failed, "TrackerError")


def test_a_failure_without_commit_is_skipped_like_any_other() -> None:
    with Order.confirm_payment.start("o-1", skip_error=True) as ctx:
        ctx.transaction(succeed=True)
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


def test_a_second_transaction_may_succeed_after_one_was_refused() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        with pytest.raises(TransactWriteError), ctx.transaction(succeed=True) as transaction:
            debit(transaction, 1000)
        ctx.task.amount = 10
        with ctx.transaction(succeed=True) as transaction:
            debit(transaction)
    task = Order.get_task("o-1")
    assert (balance(), task.state, task.amount) == (90, Order.ship.pending, 10)


# A transaction of the user's own.


def test_a_check_in_lets_a_transaction_pass_while_the_lock_is_held() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        with TransactWrite(connection=Account._get_connection().connection) as transaction:
            debit(transaction)
            transaction.condition_check(Account, "else", "account", condition=Account.name.does_not_exist())
            ctx.check_in(transaction)
            ctx.task.amount = 5
            ctx.save()
        assert balance() == 90
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_check_in_cancels_a_transaction_without_the_lock_as_its_first_reason(clock: StoppedClock) -> None:
    with pytest.raises(LockLostError), Order.confirm_payment.start("o-1") as ctx:
        with (
            pytest.raises(TransactWriteError) as refused,
            TransactWrite(connection=Account._get_connection().connection) as transaction,
        ):
            transaction.condition_check(Account, "else", "account", condition=Account.name.does_not_exist())
            debit(transaction)
            ctx.check_in(transaction)
            pass_the_lock_on(clock)
        assert [reason and reason.code for reason in refused.value.cancellation_reasons] == [
            "ConditionalCheckFailed",
            None,
            None,
        ]
    assert balance() == 100


def test_a_check_in_takes_a_transaction_of_the_users_own() -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        for wrong in (ctx.transaction(), None, Account):
            with pytest.raises(TypeError, match="check_in takes a TransactWrite of your own"):
                ctx.check_in(wrong)  # type: ignore[arg-type]
    with pytest.raises(LockLostError, match="the block has ended"):
        ctx.check_in(TransactWrite(connection=Account._get_connection().connection))
