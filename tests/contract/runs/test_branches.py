"""`ctx.go_to` and `ctx.end_task`: a run chooses what comes after it, and the steps between are passed over."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker import (
    AsyncContext,
    DefinitionError,
    ExecutionContext,
    GiveUp,
    LockLostError,
    Repeat,
    Signal,
    Step,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    UseCase,
)
from pynamodb_tracker.aws_lambda import handles
from tests.support.recorder import recorded
from tests.support.rows import stored
from tests.support.shop import AppTask
from tests.support.workers import Broken

pytestmark = [pytest.mark.usefixtures("table")]


class Sale(AppTask):
    use_case_id = UseCase("sale_with_branches")

    check = Step(100)
    pack = Step(200, also_from=(check.failed,))
    ship = Step(300)
    refund = Step(900, branch=True)

    approved = Signal()


class Dispute(AppTask):
    use_case_id = UseCase("dispute_with_two_branch_steps")

    pay = Step(100)
    appeal = Step(800, branch=True)
    sue = Step(900, branch=True)


class Parcel(AppTask):
    use_case_id = UseCase("parcel_of_a_branch")

    send = Step(100)


def refused(step: Any, task_id: str = "s") -> TaskAlreadySucceededError:
    with pytest.raises(TaskAlreadySucceededError) as caught, step.start(task_id):
        pass
    return caught.value


def request_for(task_id: str) -> dict[str, Any]:
    return {
        "requestContext": {"http": {}},
        "headers": {"content-type": "application/json"},
        "body": f'{{"id": "{task_id}"}}',
    }


def branch(choose: Callable[[ExecutionContext[Sale]], object], of: Any = Sale.check, **given: Any) -> None:
    Sale.create("s", **given)
    with of.start("s") as ctx:
        choose(ctx)


def test_a_branch_step_is_reached_only_by_choice_and_its_success_is_the_end() -> None:
    branch(lambda ctx: ctx.go_to(Sale.refund))
    assert (Sale.get_task("s").state, Sale.get_task("s").skipped_steps) == (Sale.refund.pending, [200, 300])
    assert [refused(step).skipped for step in (Sale.check, Sale.pack, Sale.ship)] == [False, True, True]
    assert Sale.pack.result("s") is None
    Sale.refund.run("s", lambda _: None)
    assert (Sale.get_task("s").state, str(Sale.get_task("s").state)) == (Sale.ship.succeeded, "ship succeeded")


def test_a_plain_end_passes_over_the_branch_steps_and_a_chosen_one_is_done() -> None:
    handler = handles(Dispute.appeal, task_id="body.id")(lambda _ctx, _event: None)
    Dispute.create_many([{"task_id": each, "state": Dispute.pay.pending} for each in ("plain", "chosen")])
    Dispute.pay.run("plain", lambda _: None)
    Dispute.pay.run("chosen", lambda ctx: ctx.go_to(Dispute.appeal))
    Dispute.appeal.run("chosen", lambda _: "paid", store_result=True)
    assert {each: Dispute.get_task(each).skipped_steps for each in ("plain", "chosen")} == {
        "plain": [800, 900],
        "chosen": [900],
    }
    assert [refused(Dispute.appeal, each).skipped for each in ("plain", "chosen")] == [True, False]
    assert [handler(request_for(each), None)["statusCode"] for each in ("plain", "chosen")] == [409, 200]


def test_a_choice_costs_no_request_of_its_own() -> None:
    Sale.create_many(["s", "t"])
    for task_id in ("s", "t"):
        with recorded() as requests, Sale.check.start(task_id) as ctx:
            ctx.end_task() if task_id == "s" else ctx.go_to(Sale.refund)
        assert requests.operations == ["UpdateItem", "UpdateItem"]


def test_the_end_of_a_class_without_branch_steps_stores_nothing_about_them() -> None:
    Parcel.create("p")
    with recorded() as requests, Parcel.send.start("p"):
        pass
    assert "skipped_steps" not in requests[-1].written


def test_the_end_and_a_later_step_are_targets_and_the_next_one_passes_nothing_over() -> None:
    branch(lambda ctx: ctx.go_to(Sale.pack))
    assert "skipped_steps" not in stored(Sale, "s")
    with Sale.pack.start("s") as ctx:
        ctx.end_task()
        ctx.end_task()
    assert (Sale.get_task("s").state, Sale.get_task("s").skipped_steps) == (Sale.ship.succeeded, [300, 900])
    assert refused(Sale.refund).skipped


def test_a_target_that_cannot_be_is_refused_without_a_request() -> None:
    Sale.create("s", state=Sale.pack.pending)
    with Sale.pack.start("s") as ctx, recorded() as requests:
        for wrong in (Sale.check, Sale.pack, Parcel.send):
            with pytest.raises(ValueError, match=r"cannot go to .*: write a later step of Sale"):
                ctx.go_to(wrong)
        with pytest.raises(TypeError, match="go_to takes a step"):
            ctx.go_to("refund")  # type: ignore[arg-type]
        ctx.go_to(Sale.refund)
        with pytest.raises(ValueError, match="it has chosen another target"):
            ctx.end_task()
        assert not requests
    with pytest.raises(LockLostError, match="the block has ended"):
        ctx.go_to(Sale.refund)


def test_a_branch_step_may_wait() -> None:
    Sale.create("s", state=Sale.ship.pending)
    with suppress(Broken), Sale.ship.start("s") as ctx:
        ctx.create(Parcel, "p")
        with pytest.raises(ValueError, match="leads to the end"):
            ctx.create(Parcel, "p2", wait=True)
        ctx.go_to(Sale.refund)
        ctx.create(Parcel, "p2", wait=True)
        raise Broken
    Sale.create("t")
    with Sale.check.start("t") as ctx:
        ctx.create(Parcel, "p3", wait=True)
        ctx.go_to(Sale.refund)
    assert (Sale.get_task("t").blockers, Sale.get_task("t").state) == (1, Sale.refund.pending)


def wait_for_a_child(ctx: ExecutionContext[Sale]) -> None:
    ctx.create(Parcel, "p", wait=True)


def wait_for_an_answer(ctx: ExecutionContext[Sale]) -> None:
    ctx.wait_for(Sale.approved)


def wait_until(ctx: ExecutionContext[Sale]) -> None:
    ctx.wait_until(timedelta(days=1))


@pytest.mark.parametrize("wait", [wait_for_a_child, wait_for_an_answer, wait_until])
def test_a_run_that_ends_the_task_waits_for_nothing(wait: Callable[[ExecutionContext[Sale]], None]) -> None:
    Sale.create_many(["s", "t"])
    with Sale.check.start("s") as ctx:
        wait(ctx)
        with pytest.raises(ValueError, match="the next step is to wait"):
            ctx.end_task()
    with Sale.check.start("t") as ctx:
        ctx.end_task()
        with pytest.raises(ValueError, match="leads to the end"):
            wait(ctx)


def test_a_task_that_ends_early_counts_for_its_parent_and_hands_on_its_turn() -> None:
    Sale.create("parent")
    with Sale.check.start("parent") as ctx:
        ctx.create(Sale, "child", wait=True)
    Sale.create("a", group="g")
    Sale.create("b", group="g")
    for task_id in ("child", "a"):
        with Sale.check.start(task_id) as ctx:
            ctx.end_task()
    assert Sale.get_task("parent").blockers is None
    assert [task.task_id for task in Sale.check.due()] == ["b"]


def test_another_round_begins_without_what_was_passed_over() -> None:
    branch(lambda ctx: ctx.go_to(Sale.ship), repeat=Repeat.every(timedelta(days=1)), due_time=timedelta(0))
    assert Sale.get_task("s").skipped_steps == [200]
    Sale.ship.run("s", lambda _: None)
    assert (Sale.get_task("s").state, "skipped_steps" in stored(Sale, "s")) == (Sale.check.pending, False)


def test_a_run_that_is_asked_for_meanwhile_follows_an_early_end() -> None:
    Sale.create("s")
    with Sale.check.start("s") as ctx:
        Sale.create_or_merge("s")
        ctx.end_task()
    assert Sale.get_task("s").state == Sale.check.pending
    assert {"skipped_steps", "queued"}.isdisjoint(stored(Sale, "s"))


def test_a_step_that_is_run_after_all_is_not_passed_over() -> None:
    branch(lambda ctx: ctx.go_to(Sale.refund))
    with Sale.pack.start("s", also_from=(Sale.refund.pending,)):
        pass
    assert (Sale.get_task("s").state, "skipped_steps" in stored(Sale, "s")) == (Sale.ship.pending, False)


def test_a_step_that_is_given_up_after_all_is_ignored_and_not_passed_over() -> None:
    branch(lambda ctx: ctx.go_to(Sale.refund))
    with suppress(GiveUp), Sale.pack.start("s", also_from=(Sale.refund.pending,)):
        raise GiveUp
    with pytest.raises(TaskIgnoredError):
        Sale.pack.run("s", lambda _: None)


def test_a_step_that_was_passed_over_the_second_time_has_no_answer() -> None:
    Sale.create("s", state=Sale.pack.pending)
    Sale.pack.run("s", lambda _: "packed", store_result=True)
    assert Sale.pack.result("s") == "packed"
    Sale.check.run("s", lambda ctx: ctx.go_to(Sale.ship), also_from=(Sale.ship.pending,))
    assert Sale.pack.result("s") is None


def test_reopening_the_branch_keeps_it_and_a_start_from_the_end_forgets_it() -> None:
    branch(lambda ctx: ctx.go_to(Sale.refund))
    Sale.refund.ignore("s", reason="wrong")
    Sale.refund.reopen("s")
    assert Sale.get_task("s").skipped_steps == [200, 300]
    Sale.refund.run("s", lambda _: None)
    Sale.check.run("s", lambda _: None, also_from=(Sale.ship.succeeded,))
    assert "skipped_steps" not in stored(Sale, "s")


def test_a_failed_run_has_chosen_nothing() -> None:
    Sale.create("s")
    with suppress(Broken), Sale.check.start("s") as ctx:
        ctx.go_to(Sale.refund)
        raise Broken
    assert (Sale.get_task("s").state, "skipped_steps" in stored(Sale, "s")) == (Sale.check.failed, False)


def test_a_transaction_takes_the_branch_and_nothing_is_chosen_after_it() -> None:
    Sale.create("s")
    with Sale.check.start("s") as ctx:
        ctx.go_to(Sale.refund)
        ctx.create(Parcel, "p")
        with ctx.transaction(succeed=True):
            pass
        with pytest.raises(LockLostError, match="a transaction has recorded its success"):
            ctx.end_task()
    assert (Sale.get_task("s").state, Parcel.get_task("p").state) == (Sale.refund.pending, Parcel.send.pending)


def test_a_run_without_its_answer_may_end_the_task_after_a_transaction_that_failed() -> None:
    Sale.create("s", wait_for=Sale.approved, until=timedelta(0))
    with Sale.check.start("s") as ctx:
        with suppress(TransactWriteError), ctx.transaction(succeed=True) as transaction:
            transaction.condition_check(Parcel, "none", "parcel", condition=Parcel.status.exists())
        ctx.end_task()
        with ctx.transaction(succeed=True):
            pass
    assert Sale.get_task("s").state == Sale.ship.succeeded


def test_an_async_block_chooses_too() -> None:
    async def choose(ctx: AsyncContext[Sale]) -> None:
        if ctx.task.task_id == "s":
            await ctx.go_to(Sale.refund)
        else:
            await ctx.end_task()

    for task_id, state in (("s", Sale.refund.pending), ("t", Sale.ship.succeeded)):
        Sale.create(task_id)
        asyncio.run(Sale.check.arun(task_id, choose))
        assert Sale.get_task(task_id).state == state


def test_a_request_for_a_step_that_was_passed_over_is_a_conflict() -> None:
    branch(lambda ctx: ctx.go_to(Sale.refund))
    handler = handles(Sale.pack, task_id="body.id")(lambda _ctx, _event: None)
    assert handler(request_for("s"), None)["statusCode"] == 409


def test_branch_steps_have_the_highest_numbers_and_one_step_is_plain() -> None:
    with pytest.raises(DefinitionError, match="branch steps have the highest numbers"):
        type("Wrong", (AppTask,), {"use_case_id": UseCase("wrong_branch"), "a": Step(1, branch=True), "b": Step(9)})
    with pytest.raises(DefinitionError, match="has only branch steps"):
        type("Wrong", (AppTask,), {"use_case_id": UseCase("wrong_branch"), "a": Step(1, branch=True)})
