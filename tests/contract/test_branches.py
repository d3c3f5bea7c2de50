"""`ctx.skip_to` and `ctx.end_task`: a run chooses what comes after it, and the steps between are passed over."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pynamodb_tracker import (
    AsyncContext,
    DefinitionError,
    ExecutionContext,
    LockLostError,
    Repeat,
    Step,
    TaskAlreadySucceededError,
    UseCase,
)
from pynamodb_tracker.aws_lambda import handles
from tests.support.recorder import recorded
from tests.support.rows import stored
from tests.support.shop import AppTask
from tests.support.workers import Broken

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.usefixtures("table")]


class Sale(AppTask):
    use_case_id = UseCase("sale_with_branches")

    check = Step(100)
    pack = Step(200, also_from=(check.failed,))
    ship = Step(300)
    refund = Step(900, aside=True)


class Parcel(AppTask):
    use_case_id = UseCase("parcel_of_a_branch")

    send = Step(100)


def refused(step: Any, task_id: str = "s") -> TaskAlreadySucceededError:
    with pytest.raises(TaskAlreadySucceededError) as caught, step.start(task_id):
        pass
    return caught.value


def branch(choose: Callable[[ExecutionContext[Sale]], object], of: Any = Sale.check, **given: Any) -> None:
    Sale.create("s", **given)
    with of.start("s") as ctx:
        choose(ctx)


def test_a_step_aside_is_reached_only_by_choice_and_its_success_is_the_end() -> None:
    branch(lambda ctx: ctx.skip_to(Sale.refund))
    assert (Sale.get_task("s").state, Sale.get_task("s").passed_over) == (Sale.refund.pending, [200, 300])
    assert [refused(step).passed_over for step in (Sale.check, Sale.pack, Sale.ship)] == [False, True, True]
    assert Sale.pack.answer("s") is None

    Sale.refund.run("s", lambda _: None)
    assert (Sale.get_task("s").state, str(Sale.get_task("s").state)) == (Sale.ship.succeeded, "ship succeeded")

    Sale.create("plain", state=Sale.ship.pending)
    Sale.ship.run("plain", lambda _: None)
    assert Sale.get_task("plain").state == Sale.refund.succeeded
    assert "passed_over" not in stored(Sale, "plain")


def test_the_end_and_a_later_step_are_targets_and_the_next_one_passes_nothing_over() -> None:
    branch(lambda ctx: ctx.skip_to(Sale.pack))
    assert "passed_over" not in stored(Sale, "s")
    with Sale.pack.start("s") as ctx:
        ctx.end_task()
        ctx.end_task()
    assert (Sale.get_task("s").state, Sale.get_task("s").passed_over) == (Sale.ship.succeeded, [300, 900])
    assert refused(Sale.refund).passed_over


def test_a_target_that_cannot_be_is_refused_without_a_request() -> None:
    Sale.create("s", state=Sale.pack.pending)
    with Sale.pack.start("s") as ctx, recorded() as requests:
        for wrong in (Sale.check, Sale.pack, Parcel.send):
            with pytest.raises(ValueError, match=r"cannot skip to .*: write a later step of Sale"):
                ctx.skip_to(wrong)
        with pytest.raises(TypeError, match="skip_to takes a step"):
            ctx.skip_to("refund")  # type: ignore[arg-type]
        ctx.skip_to(Sale.refund)
        with pytest.raises(ValueError, match="it has chosen another target"):
            ctx.end_task()
        assert not requests
    with pytest.raises(LockLostError, match="the block has ended"):
        ctx.skip_to(Sale.refund)


def test_nothing_waits_at_the_end_and_a_step_aside_may_wait() -> None:
    Sale.create("s", state=Sale.ship.pending)
    with suppress(Broken), Sale.ship.start("s") as ctx:
        ctx.create(Parcel, "p")
        with pytest.raises(ValueError, match="leads to the end"):
            ctx.create(Parcel, "p2", wait=True)
        ctx.skip_to(Sale.refund)
        ctx.create(Parcel, "p2", wait=True)
        raise Broken
    Sale.create("t")
    with Sale.check.start("t") as ctx:
        ctx.create(Parcel, "p3", wait=True)
        with pytest.raises(ValueError, match="the next step is to wait"):
            ctx.end_task()
        ctx.skip_to(Sale.refund)
    assert (Sale.get_task("t").waits, Sale.get_task("t").state) == (1, Sale.refund.pending)


def test_a_task_that_ends_early_counts_for_its_parent_and_hands_on_its_turn() -> None:
    Sale.create("parent")
    with Sale.check.start("parent") as ctx:
        ctx.create(Sale, "child", wait=True)
    Sale.create("a", group="g")
    Sale.create("b", group="g")
    for task_id in ("child", "a"):
        with Sale.check.start(task_id) as ctx:
            ctx.end_task()
    assert Sale.get_task("parent").waits is None
    assert [task.task_id for task in Sale.check.todo()] == ["b"]


def test_another_round_begins_without_what_was_passed_over() -> None:
    branch(lambda ctx: ctx.skip_to(Sale.ship), repeat=Repeat.every(timedelta(days=1)), due_time=timedelta(0))
    assert Sale.get_task("s").passed_over == [200]
    Sale.ship.run("s", lambda _: None)
    assert (Sale.get_task("s").state, "passed_over" in stored(Sale, "s")) == (Sale.check.pending, False)


def test_a_run_that_is_asked_for_meanwhile_follows_an_early_end() -> None:
    Sale.create("s")
    with Sale.check.start("s") as ctx:
        Sale.create_or_merge("s")
        ctx.end_task()
    assert Sale.get_task("s").state == Sale.check.pending
    assert {"passed_over", "again"}.isdisjoint(stored(Sale, "s"))


def test_a_step_that_is_run_after_all_is_not_passed_over() -> None:
    branch(lambda ctx: ctx.skip_to(Sale.refund))
    with Sale.pack.start("s", also_from=(Sale.refund.pending,)):
        pass
    assert (Sale.get_task("s").state, "passed_over" in stored(Sale, "s")) == (Sale.ship.pending, False)


def test_reopening_the_branch_keeps_it_and_a_start_from_the_end_forgets_it() -> None:
    branch(lambda ctx: ctx.skip_to(Sale.refund))
    Sale.refund.ignore("s", reason="wrong")
    Sale.refund.reopen("s")
    assert Sale.get_task("s").passed_over == [200, 300]
    Sale.refund.run("s", lambda _: None)
    Sale.check.run("s", lambda _: None, also_from=(Sale.ship.succeeded,))
    assert "passed_over" not in stored(Sale, "s")


def test_a_failed_run_has_chosen_nothing() -> None:
    Sale.create("s")
    with suppress(Broken), Sale.check.start("s") as ctx:
        ctx.skip_to(Sale.refund)
        raise Broken
    assert (Sale.get_task("s").state, "passed_over" in stored(Sale, "s")) == (Sale.check.failed, False)


def test_a_transaction_takes_the_branch_and_nothing_is_chosen_after_it() -> None:
    Sale.create("s")
    with Sale.check.start("s") as ctx:
        ctx.skip_to(Sale.refund)
        ctx.create(Parcel, "p")
        with ctx.transaction(succeed=True):
            pass
        with pytest.raises(LockLostError, match="a transaction has recorded its success"):
            ctx.end_task()
    assert (Sale.get_task("s").state, Parcel.get_task("p").state) == (Sale.refund.pending, Parcel.send.pending)


def test_an_async_block_chooses_too() -> None:
    async def choose(ctx: AsyncContext[Sale]) -> None:
        ctx.skip_to(Sale.refund)

    Sale.create("s")
    asyncio.run(Sale.check.arun("s", choose))
    assert Sale.get_task("s").state == Sale.refund.pending


def test_a_request_for_a_step_that_was_passed_over_is_a_conflict() -> None:
    branch(lambda ctx: ctx.skip_to(Sale.refund))
    handler = handles(Sale.pack, task_id="body.id")(lambda _ctx, _event: None)
    event = {"requestContext": {"http": {}}, "headers": {"content-type": "application/json"}, "body": '{"id": "s"}'}
    assert handler(event, None)["statusCode"] == 409


def test_steps_aside_have_the_highest_numbers_and_one_step_is_plain() -> None:
    with pytest.raises(DefinitionError, match="steps aside have the highest numbers"):
        type("Wrong", (AppTask,), {"use_case_id": UseCase("wrong_branch"), "a": Step(1, aside=True), "b": Step(9)})
    with pytest.raises(DefinitionError, match="has only steps aside"):
        type("Wrong", (AppTask,), {"use_case_id": UseCase("wrong_branch"), "a": Step(1, aside=True)})
