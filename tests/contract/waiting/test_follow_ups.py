"""Tasks that are created together with the success of another one, or not at all: `ctx.create(...)`."""

# ruff: noqa: PT012, SIM117 - the block that raises is what is tested, whatever it has in it

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import CancellationReason, TransactWriteError

from pynamodb_tracker import (
    GiveUp,
    LockLostError,
    RetryLater,
    Step,
    TaskAlreadyExistsError,
    UseCase,
    ValueNotStorableError,
)
from pynamodb_tracker.features.children import follow_ups
from pynamodb_tracker.testing import StoppedClock
from tests.contract.accounts import Account, accounts
from tests.support.declaring import declare
from tests.support.network import Answer, Network, Request, error, passing, silent, unheard, unreached
from tests.support.recorder import recorded
from tests.support.rows import change, stored
from tests.support.shop import AppTask, Order, created
from tests.support.workers import Broken, fail, succeed

pytestmark = pytest.mark.usefixtures("table", "task")

PAY, SHIP = Order.confirm_payment, Order.ship
TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}


class Bill(AppTask):
    use_case_id = UseCase("bill")

    send = Step(10)

    amount = NumberAttribute(null=True)


class Odd(AppTask):
    """Has attributes that are called what the tracker calls something in memory."""

    use_case_id = UseCase("odd names")

    ship = Step(100)

    follow_ups = UnicodeAttribute(null=True)
    target = UnicodeAttribute(null=True)


def bills() -> list[str]:
    return sorted(bill.task_id for bill in Bill.send.pending.query())


@created(amount=5, trace=TRACE)
def test_a_follow_up_is_created_with_the_success_in_one_request(clock: StoppedClock) -> None:
    with recorded() as requests, PAY.start("o-1") as ctx:
        ctx.create(Bill, "o-1/bill", amount=ctx.task.amount, data={"a": [1]})
        ctx.create(Bill, "o-1/reminder", due_time=timedelta(days=9), trace={"baggage": "b"})
    assert requests.operations == ["UpdateItem", "TransactWriteItems"]
    bill, reminder = Bill.get_task("o-1/bill"), Bill.get_task("o-1/reminder")
    assert (bill.state, bill.amount, bill.data, bill.due_time) == (Bill.send.pending, 5, {"a": [1]}, clock.now())
    assert reminder.due_time == clock.now() + timedelta(days=9)
    assert (bill.trace, reminder.trace) == (
        {**TRACE, "by": "order/o-1/confirm_payment/1"},
        {"baggage": "b", "by": "order/o-1/confirm_payment/1"},
    )
    assert Order.get_task("o-1").state == SHIP.pending


def test_the_row_is_the_same_as_after_a_success_without_follow_ups() -> None:
    Order.create("o-2")
    for task_id in ("o-1", "o-2"):
        with PAY.start(task_id) as ctx:
            ctx.task.amount = 5
            if task_id == "o-2":
                ctx.create(Bill, "o-2/bill")
    alone, together = stored(Order, "o-1"), stored(Order, "o-2")
    differ = {"task_id", "lock", "saves", "creation"}
    assert {name for name in alone.keys() | together if alone.get(name) != together.get(name)} <= differ
    succeed(SHIP, "o-2")


@pytest.mark.parametrize("raised", [Broken(), GiveUp(), RetryLater(timedelta(1)), KeyboardInterrupt()], ids=repr)
def test_a_block_that_does_not_succeed_creates_nothing(raised: BaseException) -> None:
    with pytest.raises(type(raised)), PAY.start("o-1") as ctx:
        ctx.create(Bill, "o-1/bill")
        raise raised
    assert not bills()


def test_a_failure_that_is_skipped_creates_nothing() -> None:
    with PAY.start("o-1", skip_error=True) as ctx:
        ctx.create(Bill, "o-1/bill")
        raise Broken
    assert (Order.get_task("o-1").state, bills()) == (PAY.failed, [])


@pytest.mark.usefixtures("small_transactions")
def test_a_value_of_the_task_that_cannot_be_stored_creates_nothing() -> None:
    with pytest.raises(ValueNotStorableError), PAY.start("o-1") as ctx:
        create_many(ctx, 7)
        ctx.task.data["a"] = object()
    assert (Order.get_task("o-1").state, bills()) == (PAY.ignored, [])


def test_a_worker_that_lost_its_lock_creates_nothing(clock: StoppedClock) -> None:
    with pytest.raises(LockLostError, match="cannot finish confirm_payment of Order 'o-1'"), PAY.start("o-1") as ctx:
        ctx.create(Bill, "o-1/of a")
        clock.advance(timedelta(hours=1))
        with PAY.start("o-1") as other:
            other.create(Bill, "o-1/of b")
    assert bills() == ["o-1/of b"]


def test_a_task_that_was_created_by_an_earlier_success_counts_as_created() -> None:
    for amount in (1, 2):
        with PAY.start("o-1", also_from=(SHIP.pending,)) as ctx:
            ctx.create(Bill, "o-1/bill", amount=amount)
            ctx.create(Bill, f"o-1/{amount}")
    assert (Bill.get_task("o-1/bill").amount, bills()) == (1, ["o-1/1", "o-1/2", "o-1/bill"])


def by_nobody() -> None:
    Bill.create("o-1/bill", amount=1)


def by_another_task() -> None:
    Order.create("o-2")
    with PAY.start("o-2") as ctx:
        ctx.create(Bill, "o-1/bill", amount=1)


def by_an_earlier_life() -> None:
    with PAY.start("o-1") as ctx:
        ctx.create(Bill, "o-1/bill", amount=1)
    Order.delete_task("o-1")
    Order.create("o-1")


def by_an_unreadable_creator() -> None:
    Bill.create("o-1/bill", amount=1)
    change(Bill, "o-1/bill", creator={"S": "nobody"})


@pytest.mark.parametrize(
    ("create", "says"),
    [
        (by_nobody, "it already exists, not as a follow-up"),
        (by_another_task, "it already exists, created by order 'o-2'"),
        (by_an_earlier_life, "it already exists, created by an earlier round of the same task"),
        (by_an_unreadable_creator, "it already exists, and its creator is damaged: 'nobody' is not a reference"),
    ],
)
def test_the_id_of_another_task_fails_the_attempt(create: Callable[[], None], says: str) -> None:
    create()
    with pytest.raises(TaskAlreadyExistsError, match=f"cannot create Bill 'o-1/bill': {says}") as refused:
        with PAY.start("o-1") as ctx:
            ctx.create(Bill, "o-1/new")
            ctx.create(Bill, "o-1/bill", amount=2)
    assert isinstance(refused.value.task, Bill)
    assert (refused.value.task_id, Bill.get_task("o-1/bill").amount, bills()) == ("o-1/bill", 1, ["o-1/bill"])
    task = Order.get_task("o-1")
    assert (task.state, task.errors[-1].type) == (PAY.failed, "TaskAlreadyExistsError")


def test_the_id_of_a_damaged_task_fails_the_attempt() -> None:
    by_nobody()
    change(Bill, "o-1/bill", creator={"N": "1"})
    with pytest.raises(TaskAlreadyExistsError, match="cannot create Bill 'o-1/bill': it already exists"):
        with PAY.start("o-1") as ctx:
            ctx.create(Bill, "o-1/bill", amount=2)
    assert Order.get_task("o-1").state == PAY.failed


def test_a_follow_up_that_is_gone_after_it_was_refused_is_created() -> None:
    with PAY.start("o-1") as ctx:
        ctx.create(Bill, "o-1/bill")
        follow_ups.follow_ups_of(ctx._journal).handle_refusal([CancellationReason("ConditionalCheckFailed")])
    assert bills() == ["o-1/bill"]


def test_a_child_cannot_create_its_parent() -> None:
    with PAY.start("o-1") as ctx:
        ctx.create(Bill, "o-1/bill", wait=True)
    with pytest.raises(TaskAlreadyExistsError, match="cannot create Order 'o-1'"), Bill.send.start("o-1/bill") as run:
        run.create(Order, "o-1")
    assert Bill.get_task("o-1/bill").state == Bill.send.failed


@created(state=Order.deliver.pending)
def test_a_task_that_starts_over_from_its_end_is_another_creator() -> None:
    with Order.deliver.start("o-1") as ctx:
        ctx.create(Bill, "o-1/bill")
    with pytest.raises(TaskAlreadyExistsError, match="created by an earlier round of the same task"):
        with Order.deliver.start("o-1", also_from=(Order.deliver.succeeded,)) as ctx:
            ctx.create(Bill, "o-1/bill")


@created(state=Order.deliver.pending)
def test_a_success_that_takes_in_what_was_asked_for_creates_its_follow_ups_once() -> None:
    with Order.deliver.start("o-1") as ctx:
        ctx.create(Bill, "o-1/bill")
        assert Order.create_or_merge("o-1", amount=5).effect == "queued"
    task = Order.get_task("o-1")
    assert (task.state, task.amount, bills()) == (PAY.pending, 5, ["o-1/bill"])


def test_what_cannot_be_created_is_refused_at_once() -> None:
    elsewhere = declare("Elsewhere", use_case_id=UseCase("bill"))
    with PAY.start("o-1") as ctx, unreached():
        ctx.create(Bill, "o-1/bill")
        for call, kind, says in [
            (lambda: ctx.create(elsewhere, "b"), ValueError, "Elsewhere is in another table"),
            (lambda: ctx.create(Bill, "o-1/bill"), ValueError, "creates Bill 'o-1/bill' twice"),
            (lambda: ctx.create(Order, "o-1"), ValueError, "confirm_payment of Order 'o-1' cannot create itself"),
            (lambda: ctx.create(Bill, "b", sum=1), TypeError, "Bill.sum is not declared"),
            (lambda: ctx.create(Bill, "b", creator="x"), TypeError, "Bill.creator is the tracker's own"),
            (lambda: ctx.create(Bill, "b", amount="x"), ValueNotStorableError, "Bill.amount"),
            (lambda: ctx.create(Bill, "b", trace={"t": 1}), TypeError, "trace must map text to text"),  # type: ignore[dict-item]
            (lambda: ctx.create(Bill, "b", due_time=5), TypeError, "due_time must be"),  # type: ignore[arg-type]
            (lambda: ctx.create(Bill, ""), ValueError, "a task id has 1 to 1024 bytes"),
            (lambda: ctx.create(AppTask, "b"), TypeError, "create takes a use case and a task id"),
            (lambda: ctx.create("bill", "b"), TypeError, "create takes a use case and a task id"),  # type: ignore[arg-type]
        ]:
            with pytest.raises(kind, match=says):
                call()
    assert bills() == ["o-1/bill"]


def test_no_follow_up_slips_through_after_the_block() -> None:
    for task_id in ("o-2", "o-3"):
        Order.create(task_id)
    with PAY.start("o-1") as ended:
        pass
    with PAY.start("o-2") as recorded_before, recorded_before.transaction(succeed=True):
        recorded_before.create(Bill, "o-2/bill")
    run = PAY.start("o-3")
    given_back = run.__enter__()
    given_back.create(Bill, "o-3/bill")
    assert run.give_back()  # type: ignore[attr-defined]
    for ctx in (ended, recorded_before, given_back):
        with pytest.raises(LockLostError, match="cannot create a follow-up of"):
            ctx.create(Bill, "late")
    with pytest.raises(LockLostError):
        run.__exit__(None, None, None)
    assert bills() == ["o-2/bill"]


# Large ones, and many.


def large(number: int) -> dict[str, Any]:
    return {"text": random.Random(number).randbytes(100_000).hex()}


def test_large_data_of_follow_ups_is_created_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_ups, "_MOST_BYTES", 300_000)  # in place of what DynamoDB takes
    with recorded() as requests, PAY.start("o-1") as ctx:
        for number in range(3):
            ctx.create(Bill, f"o-1/{number}", data=large(number))
        with pytest.raises(
            ValueNotStorableError, match=r"Bill 'o-1/3' has 34\d,\d{3} bytes, and a follow-up at most 300"
        ):
            ctx.create(Bill, "o-1/3", data={"text": "".join(large(number)["text"] for number in range(3))})
    assert requests.operations == ["UpdateItem", "TransactWriteItems", "TransactWriteItems"]
    assert [Bill.get_task(f"o-1/{number}").data for number in range(3)] == [large(number) for number in range(3)]


def test_an_existing_follow_up_keeps_its_large_data() -> None:
    for number in range(2):
        with PAY.start("o-1", also_from=(SHIP.pending,)) as ctx:
            ctx.create(Bill, f"o-1/{number}", data=large(number))
            ctx.create(Bill, "o-1/bill", data=large(number))
    assert (bills(), Bill.get_task("o-1/bill").data) == (["o-1/0", "o-1/1", "o-1/bill"], large(0))


def create_many(ctx: Any, many: int) -> None:
    for number in range(many):
        ctx.create(Bill, f"{ctx.task.task_id}/{number:03}")


@pytest.fixture
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two follow-ups in the transaction of the success, and three in one before it, in place of 98 and 99."""
    monkeypatch.setattr(follow_ups, "_MOST_WITH_SUCCESS", 2)
    monkeypatch.setattr(follow_ups, "_MOST_BEFORE", 3)


class Died(BaseException):
    """The process ends."""


def dying(number: int, *, after: bool) -> Callable[[str, Request, Callable[[], Answer]], Answer]:
    """Let the process end at its transaction of that number, before it is sent or after it was applied."""
    sent: list[str] = []

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        sent.append(operation)
        if len(sent) < number:
            return send()
        if after and len(sent) == number:
            send()
        raise Died

    return rule


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_wherever_a_worker_dies_each_follow_up_is_created_once(
    clock: StoppedClock, network: Network, monkeypatch: pytest.MonkeyPatch, after: Any
) -> None:
    monkeypatch.setattr(follow_ups, "_MOST_WITH_SUCCESS", 1)
    monkeypatch.setattr(follow_ups, "_MOST_BEFORE", 1)

    def bills_of(task_id: str) -> dict[str, str]:
        return {bill.task_id: bill.creation for bill in Bill.send.pending.query() if bill.task_id.startswith(task_id)}

    for number in (1, 2, 3):
        task_id = f"task {number}"
        Order.create(task_id)
        run = PAY.start(task_id)
        create_many(run.__enter__(), 3)
        network.rule = dying(number, after=after)
        with pytest.raises(Died):
            run.__exit__(None, None, None)
        network.rule = passing
        before = bills_of(task_id)
        assert len(before) == (number if after else number - 1)
        if len(before) < 3:
            clock.advance(timedelta(hours=1))
            with PAY.start(task_id) as ctx:
                create_many(ctx, 3)
        assert Order.get_task(task_id).state == SHIP.pending
        assert len(bills_of(task_id)) == len(before | bills_of(task_id)) == 3
        assert before.items() <= bills_of(task_id).items()


@pytest.mark.usefixtures("small_transactions")
def test_nothing_is_created_before_the_success_once_the_lock_is_lost(clock: StoppedClock) -> None:
    with pytest.raises(LockLostError), PAY.start("o-1") as ctx:
        create_many(ctx, 7)
        clock.advance(timedelta(hours=1))
        fail(PAY, "o-1")
    assert not bills()


@pytest.mark.usefixtures("small_transactions")
def test_after_a_lock_lost_between_two_transactions_the_next_run_creates_only_the_others(
    clock: StoppedClock, network: Network
) -> None:
    sent: list[str] = []

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        sent.append(operation)
        if sent.count("TransactWriteItems") == 2:
            network.rule = passing
            clock.advance(timedelta(hours=1))
            fail(PAY, "o-1")
        return send()

    with pytest.raises(LockLostError), PAY.start("o-1") as ctx:
        create_many(ctx, 7)
        network.rule = rule
    first = {bill.task_id: bill.creation for bill in Bill.send.pending.query()}
    assert sorted(first) == ["o-1/000", "o-1/001", "o-1/002"]
    Bill.send.run("o-1/001", lambda _: None)
    clock.advance(timedelta(hours=1))
    with PAY.start("o-1") as ctx:
        create_many(ctx, 7)
    assert Order.get_task("o-1").state == SHIP.pending
    assert (len(bills()), Bill.get_task("o-1/001").state) == (6, Bill.send.succeeded)
    assert {task_id: Bill.get_task(task_id).creation for task_id in first} == first


# With a transaction of the user's.


def test_a_transaction_of_the_block_that_records_the_success_creates_them() -> None:
    with accounts():
        Account("mine", balance=100).save()
        with pytest.raises(TransactWriteError), PAY.start("o-1") as ctx:
            with ctx.transaction(succeed=True) as transaction:
                ctx.create(Bill, "o-1/bill")
                transaction.update(Account("mine"), [Account.balance.set(1)], condition=Account.balance == 0)
        assert not bills()
        with recorded() as requests, PAY.start("o-1") as ctx:
            ctx.create(Bill, "o-1/bill")
            with ctx.transaction(succeed=True) as transaction:
                transaction.update(Account("mine"), [Account.balance.set(1)])
        assert requests.operations == ["UpdateItem", "TransactWriteItems"]
    assert bills() == ["o-1/bill"]


def test_a_transaction_of_the_block_has_room_for_100_actions_in_all() -> None:
    with (
        accounts(),
        pytest.raises(ValueError, match="101 actions, more than the 100 allowed: 1 for the task, 1 of yours, and 99"),
    ):
        with PAY.start("o-1") as ctx:
            create_many(ctx, 99)
            with ctx.transaction(succeed=True) as transaction:
                transaction.save(Account("mine"))
    assert (Order.get_task("o-1").state, bills()) == (PAY.failed, [])


def test_a_transaction_without_the_success_creates_nothing() -> None:
    with pytest.raises(Broken), PAY.start("o-1") as ctx:
        ctx.create(Bill, "o-1/bill")
        with ctx.transaction():
            pass
        raise Broken
    assert not bills()


# Answers that get lost.


@pytest.mark.usefixtures("small_transactions")
@pytest.mark.parametrize("many", [1, 4])
def test_a_success_whose_answer_was_lost_is_found_with_its_follow_ups(network: Network, many: int) -> None:
    lost: list[str] = []

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        answer = send()
        if operation == "TransactWriteItems" and lost.count(operation) < 2:
            lost.append(operation)
            raise ReadTimeoutError(endpoint_url="of the test")
        return answer

    with PAY.start("o-1") as ctx:
        create_many(ctx, many)
        network.rule = rule
    assert (len(bills()), Order.get_task("o-1").state) == (many, SHIP.pending)


@pytest.mark.parametrize("lost", [unheard, silent], ids=["applied", "not applied"])
def test_a_success_without_any_answer_is_recorded_with_its_follow_ups_or_not_at_all(
    network: Network, lost: Callable[..., Any]
) -> None:
    with pytest.raises(TransactWriteError) as left, PAY.start("o-1", lock_for=timedelta(seconds=9)) as ctx:
        ctx.create(Bill, "o-1/bill")
        network.rule = lost("TransactWriteItems", "GetItem")
    network.rule = passing
    assert any("was done, and its success may have been recorded" in note for note in left.value.__notes__)
    is_recorded = Order.get_task("o-1").state == SHIP.pending
    assert (is_recorded, bills()) == ((True, ["o-1/bill"]) if lost is unheard else (False, []))


def test_what_dynamodb_refuses_fails_the_attempt(network: Network) -> None:
    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation == "TransactWriteItems":
            raise error(operation, "ValidationException")
        return send()

    with pytest.raises(ValueNotStorableError, match="DynamoDB refused the success of confirm_payment of Order 'o-1'"):
        with PAY.start("o-1") as ctx:
            ctx.create(Bill, "o-1/bill")
            network.rule = rule
    assert Order.get_task("o-1").state == PAY.ignored


def test_attributes_of_a_user_may_be_called_what_a_run_calls_its_additions() -> None:
    Odd.create("o-1", follow_ups="by phone", target="Berlin")
    succeed(Odd.ship, "o-1")
    assert Odd.get_task("o-1").target == "Berlin"
