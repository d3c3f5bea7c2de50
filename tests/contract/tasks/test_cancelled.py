"""What each call does with a cancelled task, and how a branch step leads a task to that end."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import Repeat, Signal, Step, TaskAlreadyExistsError, TaskCancelledError, UseCase
from pynamodb_tracker.aws_lambda import Replies, handles
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.presentation.children import find_blocked
from tests.support.network import Network, before
from tests.support.recorder import recorded
from tests.support.rows import change
from tests.support.shop import AppTask
from tests.support.workers import die, entered, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

KEPT = timedelta(days=30)


class Sale(AppTask):
    use_case_id = UseCase("sale to cancel", keep_for=KEPT)

    pay, ship = Step(100), Step(200)
    refund, report = Step(900, branch=True), Step(950, branch=True)

    paid = Signal()


class Rent(AppTask):
    use_case_id = UseCase("rent to cancel", keep_cancelled_for=timedelta(days=1))

    pay = Step(100)
    refund = Step(900, branch=True, on_cancel=True, max_attempts=1)


def cancel(task_id: str = "s-1", of: Any = Sale, **options: Any) -> Any:
    return of.cancel(task_id, reason="by phone", by="ada", **options)


def refusal(call: Callable[..., object], *arguments: Any, **options: Any) -> str:
    with pytest.raises(TaskCancelledError) as raised:
        call("s-1", *arguments, **options)
    return re.sub(r"at \d{4}-\d\d.* UTC", "then", str(raised.value))


def refused(operation: str) -> str:
    return (
        f"cannot {operation} of Sale 's-1': it was cancelled at ship by ada then (by phone). Only Sale.reopen('s-1') "
        "lets it start again"
    )


SQS = {"Records": [{"eventSource": "aws:sqs", "messageId": "m-1", "body": '{"id": "s-1"}'}]}
HTTP: dict[str, Any] = {"requestContext": {"http": {}}, "headers": {}, "body": '{"id": "s-1"}'}


def handle(event: Mapping[str, Any], task_id: str = "body.id", **options: Any) -> Any:
    return handles(Sale.ship, task_id=task_id, **options)(lambda _, __: None)(event, None)


def counted() -> dict[str, int]:
    return {str(state): number for state, number in Sale.counts().items() if number}


CALLS: dict[str, tuple[Callable[[], object], object]] = {
    "start": (lambda: refusal(lambda task_id: Sale.ship.start(task_id).__enter__()), refused("start ship")),
    "run of an earlier step": (lambda: refusal(Sale.pay.run, print), refused("start pay")),
    "run of a branch": (lambda: refusal(Sale.refund.run, print), refused("start refund")),
    "result": (lambda: (Sale.pay.result("s-1"), Sale.ship.result("s-1")), ({"paid": 42}, None)),
    "handles, for a queue": (lambda: handle(SQS, "id"), {"batchItemFailures": []}),
    "handles, as asked for": (
        lambda: handle(SQS, "id", replies=Replies(cancelled="raise"))["batchItemFailures"],
        [{"itemIdentifier": "m-1"}],
    ),
    "handles, for a client": (lambda: handle(HTTP)["statusCode"], 410),
    "handles, for a caller": (lambda: handle({"id": "s-1"}, "id")["state"], "cancelled"),
    "run_all": (lambda: [step.run_all(print).refused for step in (Sale.pay, Sale.ship)], [{}, {}]),
    "send": (lambda: Sale.paid.send("s-1", 1).effect, "cancelled"),
    "create_or_merge": (lambda: Sale.create_or_merge("s-1").effect, "cancelled"),
    "create_or_merge with a rule": (
        lambda: Sale.create_or_merge("s-1", repeat=Repeat.every(timedelta(days=1))).effect,
        "cancelled",
    ),
    "cancel": (lambda: Sale.cancel("s-1", reason="again", by="bob").effect, "already_cancelled"),
    "ignore": (lambda: refusal(Sale.ship.ignore, reason="x"), refused("ignore ship")),
    "reopen at a step": (lambda: refusal(Sale.ship.reopen), refused("reopen ship")),
    "reopen_many": (lambda: list(Sale.ship.reopen_many(["s-1"]).refused), ["s-1"]),
    "unlock": (lambda: refusal(Sale.ship.unlock, reason="x"), refused("unlock ship")),
    "counts": (counted, {"cancelled": 1}),
    "query": (lambda: [task.task_id for task in Sale.cancelled.query()], ["s-1"]),
    "query of the dead letters": (lambda: list(Sale.ship.ignored.query()), []),
    "to_dict": (lambda: Sale.get_task("s-1").to_dict()["state"], "cancelled"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_a_cancelled_task_changes_nothing(name: str) -> None:
    call, expected = CALLS[name]
    Sale.create("s-1")
    with Sale.pay.start("s-1") as ctx:
        ctx.store_result({"paid": 42})
    fail(Sale.ship, "s-1")
    cancel()
    row = Sale.get_task("s-1").attribute_values
    assert (call(), Sale.get_task("s-1").attribute_values) == (expected, row)


def test_a_task_with_the_id_of_a_cancelled_one_is_not_created() -> None:
    Sale.create("s-1")
    cancel()
    with pytest.raises(
        TaskAlreadyExistsError, match=r"already exists, and it was cancelled at pay by ada at .* \(by phone\)"
    ):
        Sale.create("s-1")


def test_a_row_that_another_program_has_taken_the_record_from_is_still_cancelled() -> None:
    Sale.create("s-1")
    cancel()
    change(Sale, "s-1", cancelled=None)
    assert refusal(Sale.pay.run, print).startswith("cannot start pay of Sale 's-1': it was cancelled. Only")
    Sale.delete_task("s-1")


def test_a_task_from_elsewhere_can_be_created_as_cancelled() -> None:
    task = Sale.create("s-1", state=Sale.cancelled)
    assert task.cancelled is not None
    assert (task.state, task.cancelled.step, Sale.reopen("s-1").state) == (Sale.cancelled, 100, Sale.pay.pending)


def test_a_cancelled_task_can_be_deleted() -> None:
    for task_id in ("s-1", "s-2"):
        Sale.create(task_id)
        cancel(task_id)
    Sale.delete_task("s-1")
    assert list(Sale.delete_use_case().succeeded) == ["s-2"]


@pytest.mark.parametrize("status", ["pending", "failed", "ignored", "abandoned"])
def test_a_reopen_lets_a_cancelled_task_continue_at_the_step_where_it_was(status: str, clock: StoppedClock) -> None:
    Sale.create("s-1")
    Sale.pay.run("s-1", lambda ctx: ctx.go_to(Sale.refund))
    if status == "failed":
        fail(Sale.refund, "s-1")
    elif status == "ignored":
        Sale.refund.ignore("s-1", reason="x")
    elif status == "abandoned":
        die(Sale.refund, "s-1")
        clock.advance(timedelta(hours=1))
    task = cancel().task
    assert task.cancelled is not None
    assert (task.state, task.cancelled.step, task.skipped_steps) == (Sale.cancelled, 900, [200, 900, 950])
    reopened = Sale.reopen("s-1", by="bob")
    assert (reopened.state, reopened.attempt, reopened.cancelled) == (Sale.refund.pending, 0, None)
    assert (reopened.skipped_steps, reopened.expire_time) == ([200], None)
    succeed(Sale.refund, "s-1")
    assert Sale.get_task("s-1").state == Sale.ship.succeeded


def test_a_reopen_without_a_step_reopens_an_ignored_task_too() -> None:
    Sale.create("s-1", state=Sale.ship.ignored)
    assert Sale.reopen("s-1").state == Sale.ship.pending
    succeed(Sale.ship, "s-1")
    with pytest.raises(Exception, match="cannot reopen Sale 's-1': it is ship succeeded, and it has ended"):
        Sale.reopen("s-1")


def test_the_same_write_removes_what_the_task_waited_for() -> None:
    Sale.create("s-1", wait_for=Sale.paid, until=timedelta(days=3))
    with recorded() as requests:
        task = cancel().task
    assert requests.operations == ["GetItem", "UpdateItem", "Query"]  # the last one for the time to live of its data
    assert (task.awaited_signals, task.wait_until, task.waits_for) == (None, None, None)
    assert Sale.reopen("s-1").waits_for is None
    assert list(Sale.pay.due_ids()) == ["s-1"]


def test_a_parent_is_blocked_by_a_cancelled_child_and_not_woken_after_its_own_cancel() -> None:
    Sale.create("s-1")
    Sale.pay.run("s-1", lambda ctx: [ctx.create(Rent, each, wait=True) for each in ("r-1", "r-2")])
    assert Rent.cancel("r-1", reason="by phone", go_to=Rent.refund).effect == "moved"
    succeed(Rent.refund, "r-1")
    blocked = "s-1 is blocked by rent to cancel r-1, which ended as cancelled"
    assert [str(each) for each in find_blocked([Sale.ship])[0]] == [blocked]
    cancel()
    succeed(Rent.pay, "r-2")
    assert (Rent.get_task("r-2").state, Sale.get_task("s-1").state) == (Rent.pay.succeeded, Sale.cancelled)


def test_a_task_that_repeats_has_no_more_occurrences_until_it_is_reopened(clock: StoppedClock) -> None:
    Rent.create("r-1", repeat=Repeat.every(timedelta(days=1)))
    clock.advance(timedelta(days=1))
    moved = Rent.cancel("r-1", reason="x")
    assert moved.task.last_run is not None
    assert (moved.effect, moved.task.last_run.outcome) == ("moved", "cancelled")
    fail(Rent.refund, "r-1")
    assert Rent.get_task("r-1").state == Rent.refund.ignored
    Rent.refund.reopen("r-1")
    succeed(Rent.refund, "r-1")
    ended = Rent.get_task("r-1")
    assert (ended.state, ended.expire_time) == (Rent.cancelled, None)
    clock.advance(timedelta(days=1))
    assert Rent.reopen("r-1").due_time > clock.now()


def test_a_member_of_a_group_leaves_it_and_enters_it_again_by_a_reopen() -> None:
    for task_id in ("s-1", "s-2", "s-3"):
        Sale.create(task_id, group="g")
    for task_id in ("s-1", "s-2"):
        cancel(task_id)
    assert (Sale.group("g").turn, Sale.get_task("s-2").turn_due_time) == ("s-3", None)
    Sale.reopen("s-2")
    assert Sale.group("g").waiting() == ["s-2"]


@pytest.mark.parametrize(("of", "kept"), [(Sale, KEPT), (Rent, timedelta(days=1))])
def test_a_cancelled_task_is_kept_for_its_own_time(of: Any, kept: timedelta, clock: StoppedClock) -> None:
    of.create("s-1")
    cancel(of=of)
    if of is Rent:
        succeed(Rent.refund, "s-1")
    assert of.get_task("s-1").expire_time == (clock.now() + kept).replace(microsecond=0)


def test_a_branch_step_leads_a_cancelled_task_to_its_end() -> None:
    Sale.create("s-1", wait_for=Sale.paid)
    done = cancel(go_to=Sale.refund)
    assert (done.effect, done.task.state, done.task.waits_for) == ("moved", Sale.refund.pending, None)
    assert cancel().effect == "already_cancelled"
    assert refusal(Sale.ship.run, print) == (
        "cannot start ship of Sale 's-1': it is refund pending, because it was cancelled at pay by ada then (by phone)"
    )
    assert Sale.create_or_merge("s-1").effect == "cancelled"
    Sale.refund.run("s-1", lambda ctx: ctx.go_to(Sale.report))
    with Sale.report.start("s-1") as ctx:
        ctx.store_result("7 euros")
    task = Sale.get_task("s-1")
    assert task.cancelled is not None
    assert (task.state, task.cancelled.step, task.skipped_steps) == (Sale.cancelled, 100, [100, 200])
    assert (Sale.report.result(task), Sale.reopen("s-1").state) == ("7 euros", Sale.pay.pending)


def test_a_member_of_a_group_keeps_its_turn_or_its_place_for_the_branch_step() -> None:
    for task_id in ("r-1", "r-2", "r-3"):
        Rent.create(task_id, group="g")
    Rent.pay.ignore("r-1", reason="x")
    for task_id in ("r-2", "r-3"):
        assert Rent.cancel(task_id, reason="x").effect == "moved"
    assert list(Rent.refund.due_ids()) == ["r-2"]
    succeed(Rent.refund, "r-2")
    assert list(Rent.refund.due_ids()) == ["r-3"]
    succeed(Rent.refund, "r-3")
    assert (Rent.group("g").turn, Rent.get_task("r-3").state) == (None, Rent.cancelled)


def test_a_member_whose_turn_has_passed_enters_its_group_again_for_the_branch_step() -> None:
    for task_id in ("r-1", "r-2", "r-3"):
        Rent.create(task_id, group="g")
    for task_id in ("r-1", "r-2"):
        Rent.pay.ignore(task_id, reason="x")
        assert Rent.cancel(task_id, reason="x").effect == "moved"
    assert (Rent.group("g").turn, Rent.group("g").waiting()) == ("r-3", ["r-1", "r-2"])
    Rent.pay.ignore("r-3", reason="x")
    for task_id in ("r-1", "r-2"):
        succeed(Rent.refund, task_id)
    assert Rent.cancel("r-3", reason="x").effect == "moved"
    succeed(Rent.refund, "r-3")
    assert (Rent.group("g").turn, Rent.get_task("r-3").state) == (None, Rent.cancelled)


def test_a_run_that_was_cancelled_with_a_branch_step_records_nothing_more() -> None:
    Sale.create("s-1")
    run = entered(Sale.pay, "s-1")
    cancel(go_to=Sale.refund, even_running=True)
    with pytest.raises(Exception, match=r"ada cancelled the task \(by phone\)"):
        run.__exit__(None, None, None)
    assert list(Sale.refund.due_ids()) == ["s-1"]


@pytest.mark.parametrize("go_to", [Sale.ship, Rent.refund, "refund"])
def test_only_a_branch_step_of_the_use_case_takes_a_cancelled_task(go_to: Any) -> None:
    with pytest.raises(ValueError, match="go_to takes a branch step of Sale, not"):
        cancel(go_to=go_to)


def test_a_request_in_between_is_not_stored(network: Network) -> None:
    Sale.create("s-1")
    succeed(Sale.pay, "s-1")
    before(network, "UpdateItem", lambda: cancel(go_to=Sale.refund))
    assert Sale.create_or_merge("s-1").effect == "cancelled"
    assert Sale.get_task("s-1").queued is None


def test_a_signal_in_between_is_not_stored(network: Network) -> None:
    Sale.create("s-1", wait_for=Sale.paid)
    before(network, "UpdateItem", cancel)
    assert (Sale.paid.send("s-1", 1).effect, Sale.get_task("s-1").signals) == ("cancelled", {})


@pytest.mark.parametrize(("go_to", "expected"), [(Sale.refund, ("stored", True)), (None, ("cancelled", False))])
def test_a_repeated_payment_is_not_paid_back_again_after_the_branch_that_had_it(go_to: Any, expected: Any) -> None:
    Sale.create("s-1", wait_for=Sale.paid)
    Sale.paid.send("s-1", 1, key="event-1")
    cancel(go_to=go_to)
    if go_to is not None:
        succeed(Sale.refund, "s-1")
    sent = Sale.paid.send("s-1", 1, key="event-1")
    assert (sent.effect, sent.will_be_read) == expected
