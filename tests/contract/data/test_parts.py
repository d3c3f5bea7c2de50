"""`ctx.checkpoint`: what a part of a run has done is not done again by a later attempt."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pynamodb_tracker import (
    AsyncContext,
    ExecutionContext,
    GiveUp,
    LockLostError,
    Repeat,
    Step,
    TaskAlreadySucceededError,
    UseCase,
)
from pynamodb_tracker.clock import StoppedClock
from tests.support.network import Network, error, passing
from tests.support.recorder import recorded
from tests.support.rows import change, nested, stored
from tests.support.shop import AppTask, created
from tests.support.workers import Broken, die

# Atomicity and late requests are the business of tests/race.
pytestmark = [pytest.mark.usefixtures("table", "task"), pytest.mark.parametrize("engine", ["moto"], indirect=True)]


class Bill(AppTask):
    use_case_id = UseCase("bill_in_parts")

    charge = Step(100, lock_for=timedelta(minutes=1))
    book = Step(200)


CREATED = Bill, "b"


class Calls(list[str]):
    def part(self, ctx: ExecutionContext[Any], name: str, result: object = None) -> Any:
        return ctx.checkpoint(name, lambda: self.append(name) or result or name)


def attempt(calls: Calls, *names: str, error: BaseException | None = None, of: Any = Bill.charge) -> None:
    error = error or Broken()
    with suppress(type(error)), of.start("b") as ctx:
        for name in names:
            calls.part(ctx, name)
        raise error


@pytest.mark.parametrize("error", [Broken(), KeyboardInterrupt()])
def test_a_part_that_is_done_is_not_repeated_and_has_its_result(error: BaseException) -> None:
    calls = Calls()
    attempt(calls, "charge", "mail", error=error)
    with Bill.charge.start("b") as ctx:
        assert [calls.part(ctx, name) for name in ("charge", "mail", "log")] == ["charge", "mail", "log"]
    assert calls == ["charge", "mail", "log"]
    assert "checkpoints" not in stored(Bill, "b")


def test_a_part_is_not_repeated_after_its_worker_has_died(stopped_clock: StoppedClock) -> None:
    calls = Calls()
    run = Bill.charge.start("b")
    calls.part(run.__enter__(), "charge")
    stopped_clock.advance(timedelta(minutes=2))
    with Bill.charge.start("b") as ctx:
        assert (calls.part(ctx, "charge"), ctx.attempt) == ("charge", 2)
    assert calls == ["charge"]
    with pytest.raises(LockLostError):
        run.__exit__(None, None, None)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("last", [1, 2, 3, 4, 5])
def test_of_three_parts_only_one_that_was_interrupted_is_done_twice_with_one_key(
    network: Network, stopped_clock: StoppedClock, last: int, *, applied: bool
) -> None:
    keys, sent = list[str](), list[str]()

    def kill(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        sent.append(operation)
        if len(sent) < last:
            return send()
        if len(sent) == last and applied:
            send()
        raise Killed

    def work(ctx: ExecutionContext[Bill]) -> None:
        for name in ("charge", "mail", "log"):
            ctx.checkpoint(name, partial(keys.append, ctx.key(name)))

    network.rule = kill
    with suppress(Killed):
        run = Bill.charge.start("b")
        work(run.__enter__())
        run.__exit__(None, None, None)
    network.rule = passing
    stopped_clock.advance(timedelta(minutes=2))
    with suppress(TaskAlreadySucceededError):
        Bill.charge.run("b", work)
    interrupted = 2 <= last <= 4 and not applied
    assert [keys.count(key) for key in dict.fromkeys(keys)] == [
        2 if interrupted and number == last - 2 else 1 for number in range(3)
    ]


def test_the_first_attempt_gets_what_reading_back_gives_and_none_is_a_result() -> None:
    with suppress(Broken), Bill.charge.start("b") as ctx:
        assert ctx.checkpoint("charge", lambda: {1: (2, 3)}) == {"1": [2, 3]}
        assert ctx.checkpoint("mail", lambda: None) is None
        raise Broken
    with Bill.charge.start("b") as ctx:
        assert ctx.checkpoint("charge", lambda: 1 / 0) == {"1": [2, 3]}
        assert ctx.checkpoint("mail", lambda: 1 / 0) is None


def test_a_part_that_raises_is_called_again_and_stores_nothing() -> None:
    with pytest.raises(ZeroDivisionError), Bill.charge.start("b") as ctx:
        ctx.checkpoint("charge", lambda: 1 / 0)
    assert "checkpoints" not in stored(Bill, "b")
    with Bill.charge.start("b") as ctx:
        assert ctx.checkpoint("charge", lambda: 7) == 7


@pytest.mark.parametrize("result", ["x" * 1023, "é" * 512, {1, 2}, float("nan"), "\ud800", nested(200)])
def test_a_result_that_cannot_be_stored_gives_the_task_up(result: object) -> None:
    with pytest.raises(GiveUp, match=r"part 'charge' of charge of Bill 'b' \(attempt 1\) is done"):
        Bill.charge.run("b", lambda ctx: ctx.checkpoint("charge", lambda: result))
    assert Bill.get_task("b").state == Bill.charge.ignored


def failing(network: Network, *codes: str) -> None:
    """Let each next write of parts end with the next one of these errors, without being applied."""
    left = [*codes]

    def rule(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        if left and "checkpoints" in request.get("UpdateExpression", ""):
            raise error(operation, left.pop(0))
        return send()

    network.rule = rule


def parts_of(task_id: str = "b") -> list[str]:
    return sorted(stored(Bill, task_id)["checkpoints"]["M"].keys() - {"round"})


def test_a_result_that_dynamodb_refuses_gives_the_task_up_too_and_is_not_stored_with_another_one(
    network: Network,
) -> None:
    calls = Calls()
    failing(network, "ValidationException")
    with suppress(Broken), Bill.charge.start("b") as ctx:
        with pytest.raises(GiveUp, match="its result cannot be stored"):
            calls.part(ctx, "charge")
        calls.part(ctx, "mail")
        raise Broken
    assert parts_of() == ["100/mail"]


def test_a_result_whose_write_got_no_answer_is_stored_although_the_next_one_is_refused(network: Network) -> None:
    failing(network, "AccessDeniedException", "ValidationException")
    with pytest.raises(GiveUp, match="part 'mail'"):
        Bill.charge.run("b", lambda ctx: [ctx.checkpoint(name, lambda: 7) for name in ("charge", "mail")])
    assert (Bill.get_task("b").state, parts_of()) == (Bill.charge.ignored, ["100/charge"])


@pytest.mark.parametrize(("beyond", "error"), [(0, Broken), (1, GiveUp)])
def test_all_results_of_a_task_have_8_kb_with_their_names(beyond: int, error: type[Exception]) -> None:
    def work(ctx: ExecutionContext[Bill]) -> None:
        _ = [calls.part(ctx, f"part {number}", "x" * 1000) for number in range(8)]
        used = sum(len(key + text["S"]) for key, text in stored(Bill, "b")["checkpoints"]["M"].items())
        calls.part(ctx, "é", "x" * (8192 + beyond - used - len('100/é""'.encode())))
        raise Broken

    calls = Calls()
    with pytest.raises(error):
        Bill.charge.run("b", work)
    assert len(parts_of()) == 9 - beyond


def test_storing_a_part_is_one_request_that_saves_nothing_else() -> None:
    with Bill.charge.start("b") as ctx:
        ctx.task.data["half"] = "way"
        with recorded() as requests:
            ctx.checkpoint("charge", lambda: 7)
        assert [request.written for request in requests] == [{"checkpoints", "saves"}]
        assert stored(Bill, "b")["checkpoints"] == {"M": {"round": {"S": ctx._claim.round}, "100/charge": {"S": "7"}}}
        ctx.checkpoint("charge", lambda: 8)


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_a_part_has_a_short_name(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 64 characters"), Bill.charge.start("b") as ctx:
        ctx.checkpoint(name, lambda: 1)


def test_a_name_that_cannot_be_stored_is_refused_before_the_part_is_done() -> None:
    with pytest.raises(ValueError, match="lone surrogate"), Bill.charge.start("b") as ctx:
        ctx.checkpoint("\ud800", pytest.fail)
    assert Bill.get_task("b").state == Bill.charge.failed


def test_a_part_does_not_begin_within_itself() -> None:
    with pytest.raises(RuntimeError, match="already runs"), Bill.charge.start("b") as ctx:
        ctx.checkpoint("charge", lambda: ctx.checkpoint("charge", lambda: 1))


def test_reopen_keeps_the_parts_unless_it_is_to_forget_them() -> None:
    calls = Calls()
    attempt(calls, "charge")
    Bill.charge.reopen("b")
    attempt(calls, "charge")
    assert calls == ["charge"]
    Bill.charge.reopen("b", clear_checkpoints=True)
    attempt(calls, "charge")
    assert (calls, Bill.charge.reopen_many(["b"]).succeeded) == (["charge", "charge"], ["b"])
    attempt(calls, "charge")
    assert (len(calls), Bill.charge.reopen_many(["b"], clear_checkpoints=True).succeeded) == (2, ["b"])
    attempt(calls, "charge")
    assert len(calls) == 3


def test_steps_have_parts_of_their_own() -> None:
    calls = Calls()
    attempt(calls, "post")
    with Bill.book.start("b", also_from=(Bill.charge.failed,)) as ctx:
        calls.part(ctx, "post")
    assert (calls, stored(Bill, "b")["checkpoints"]["M"].keys()) == (["post", "post"], {"round", "100/post"})


def test_a_request_waits_for_the_run_that_has_done_a_part() -> None:
    calls = Calls()
    attempt(calls, "charge")
    assert Bill.create_or_merge("b").effect == "queued"
    for _ in range(2):
        for step in (Bill.charge, Bill.book):
            with step.start("b") as ctx:
                if step is Bill.charge:
                    calls.part(ctx, "charge")
    assert (calls, Bill.get_task("b").state) == (["charge", "charge"], Bill.book.succeeded)


def leave_a_part_behind() -> None:
    """End a task whose row still has a part, of a step that it did not end by its success."""
    attempt(Calls(), "charge")
    with Bill.book.start("b", also_from=(Bill.charge.failed,)):
        pass
    assert "checkpoints" in stored(Bill, "b")


def test_what_starts_the_task_over_removes_the_parts() -> None:
    leave_a_part_behind()
    assert Bill.create_or_merge("b").effect == "restarted"
    assert "checkpoints" not in stored(Bill, "b")


def test_a_start_from_the_end_removes_the_parts() -> None:
    leave_a_part_behind()
    die(Bill.charge, "b", also_from=(Bill.book.succeeded,))
    assert "checkpoints" not in stored(Bill, "b")


@created(repeat=Repeat.every(timedelta(hours=1)))
def test_the_next_occurrence_has_no_parts(stopped_clock: StoppedClock) -> None:
    calls = Calls()
    stopped_clock.advance(timedelta(hours=1))
    for _ in range(3):
        attempt(calls, "charge")
    assert calls == ["charge"]
    assert "checkpoints" not in stored(Bill, "b")
    stopped_clock.advance(timedelta(hours=1))
    attempt(calls, "charge")
    with Bill.book.start("b", also_from=(Bill.charge.failed,)) as ctx:
        calls.part(ctx, "post")
    assert Bill.get_task("b").state == Bill.charge.pending
    assert "checkpoints" not in stored(Bill, "b")


@created(repeat=Repeat.every(timedelta(hours=1)))
def test_the_next_occurrence_has_no_part_whose_write_got_no_answer(
    network: Network, stopped_clock: StoppedClock
) -> None:
    stopped_clock.advance(timedelta(hours=1))
    failing(network, "AccessDeniedException")
    attempt(Calls(), "charge", error=GiveUp())
    assert Bill.get_task("b").state == Bill.charge.pending
    assert "checkpoints" not in stored(Bill, "b")


def test_a_part_of_another_round_is_repeated() -> None:
    change(Bill, "b", checkpoints={"M": {"round": {"S": "another"}, "100/charge": {"S": '"paid then"'}}})
    with Bill.charge.start("b") as ctx:
        assert ctx.checkpoint("charge", lambda: "paid now") == "paid now"


def test_a_part_that_has_raised_can_be_tried_again_in_the_same_run() -> None:
    with Bill.charge.start("b") as ctx:
        with pytest.raises(ZeroDivisionError):
            ctx.checkpoint("charge", lambda: 1 / 0)
        assert ctx.checkpoint("charge", lambda: "paid") == "paid"


def test_an_async_run_awaits_its_parts() -> None:
    calls: list[str] = []

    async def charge() -> str:
        calls.append("charge")
        return "paid"

    async def fail(ctx: AsyncContext[Bill]) -> None:
        assert await ctx.checkpoint("charge", charge) == "paid"
        raise Broken

    async def work(ctx: AsyncContext[Bill]) -> str:
        return await ctx.checkpoint("charge", charge)

    with pytest.raises(Broken):
        asyncio.run(Bill.charge.arun("b", fail))
    assert (asyncio.run(Bill.charge.arun("b", work)), calls) == ("paid", ["charge"])


def test_an_async_part_that_a_timeout_has_cancelled_as_it_began_can_be_tried_again() -> None:
    async def charge() -> str:
        return "paid"

    async def work(ctx: AsyncContext[Bill]) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await ctx.checkpoint("charge", charge)
        return await ctx.checkpoint("charge", charge)

    assert asyncio.run(Bill.charge.arun("b", work)) == "paid"


def test_a_part_of_an_async_run_that_is_not_async_itself_is_not_repeated() -> None:
    calls = Calls()

    async def work(ctx: AsyncContext[Bill]) -> object:
        part: Any = partial(calls.append, "charge")
        return await ctx.checkpoint("charge", part)

    assert (asyncio.run(Bill.charge.arun("b", work)), calls) == (None, ["charge"])


def test_an_async_part_in_a_run_that_is_not_is_not_done() -> None:
    async def charge() -> int:
        return 1

    with pytest.raises(TypeError, match=r"await ctx\.checkpoint"), Bill.charge.start("b") as ctx:
        _ = ctx.checkpoint("charge", charge)
    assert Bill.get_task("b").state == Bill.charge.failed
