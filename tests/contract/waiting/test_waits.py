"""Signals that count, those that come too late, and what a step no longer waits for once it has done without."""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    BoundStep,
    ExecutionContext,
    Repeat,
    Signal,
    SignalAlreadyReceivedError,
    Step,
    Task,
    TaskNotReadyError,
    UseCase,
)
from pynamodb_tracker.clock import NEVER, stamp
from pynamodb_tracker.testing import StoppedClock
from tests.support.rows import change, stored
from tests.support.workers import succeed

pytestmark = pytest.mark.usefixtures("table")
HOUR = timedelta(hours=1)
OF_WAIT = {"blockers", "awaited_signals", "wait_until"}


class DeskTask(Task):
    class Meta:
        table_name = "desk-of-waits"
        region = "us-east-1"


class Claim(DeskTask):
    use_case_id = UseCase("claim of waits")

    check, decide, close = Step(10), Step(20), Step(30)
    undo = Step(90, branch=True)
    paid, approved = Signal(), Signal()


class Part(DeskTask):
    use_case_id = UseCase("part of waits")

    check = Step(10)
    sealed = Signal()


TABLES = [DeskTask]


def wait(*names: str, until: timedelta | None = HOUR, parts: int = 0, **options: Any) -> None:
    """Let the second step wait for these signals and parts."""
    with Claim.check.start("c", **options) as ctx:
        for name in names:
            ctx.wait_for(getattr(Claim, name))
        for number in range(parts):
            ctx.create(Part, f"c/{number}", wait=True)
        if until:
            ctx.wait_until(until)


@pytest.mark.parametrize(
    ("first", "second", "is_other"),
    [
        ({"value": 5, "key": "a"}, {"value": 5, "key": "b"}, True),
        ({"value": 5, "key": "a"}, {"value": 6, "key": "a"}, False),
        ({"value": 5, "key": "a"}, {"value": 5}, False),
        ({"value": 5}, {"value": 6, "key": "a"}, True),
        ({"value": 1}, {"value": True}, True),
        ({"value": [{"a": 0}]}, {"value": [{"a": False}]}, True),
        ({"value": 1}, {"value": 1.0}, False),
        ({"value": {"a": 1, "b": None}}, {"value": {"b": None, "a": 1}}, False),
    ],
)
def test_two_signals_are_the_same_by_their_keys_or_else_by_their_json(
    first: dict[str, Any], second: dict[str, Any], *, is_other: bool
) -> None:
    Claim.create("c")
    Claim.paid.send("c", **first)
    if is_other:
        with pytest.raises(SignalAlreadyReceivedError, match=f"another {'key' if 'key' in first else 'value'}"):
            Claim.paid.send("c", **second)
    else:
        sent = Claim.paid.send("c", **second)
        assert (sent.effect, sent.will_be_read) == ("stored", True)


def test_a_signal_that_the_task_has_done_without_is_late_for_the_rest_of_the_round(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    Claim.create("c")
    wait("paid", "approved")
    Claim.approved.send("c")
    clock.advance(2 * HOUR)
    succeed(Claim.decide, "c")
    with caplog.at_level(logging.WARNING):
        sent = Claim.paid.send("c", 5)
    assert (sent.effect, sent.will_be_read) == ("late", False)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    succeed(Claim.close, "c")
    assert (Claim.paid.send("c", 5).will_be_read, Claim.get_task("c").paid) == (False, None)
    with Claim.check.start("c", also_from=[Claim.close.succeeded]) as ctx:
        pass
    assert "missed_signals" not in stored(Claim, "c")
    assert Claim.paid.send("c", 5, round=ctx.round).effect == "early"


def test_a_signal_that_a_later_step_waits_for_again_is_awaited_again(clock: StoppedClock) -> None:
    Claim.create("c")
    wait("paid")
    clock.advance(2 * HOUR)
    Claim.decide.run("c", lambda ctx: ctx.wait_for(Claim.paid))
    assert "missed_signals" not in stored(Claim, "c")
    assert Claim.paid.send("c").effect == "resumed"


@pytest.mark.parametrize("is_early", [True, False], ids=["before the run", "after the run"])
def test_a_wait_that_is_over_holds_nothing_up(clock: StoppedClock, *, is_early: bool) -> None:
    Claim.create("c")
    wait("paid", parts=2)
    clock.advance(2 * HOUR)
    if is_early:
        Claim.approved.send("c")
    Claim.decide.run("c", lambda ctx: ctx.wait_for(Claim.approved))
    if not is_early:
        assert stored(Claim, "c")["awaited_signals"] == {"SS": ["approved"]}
        assert Claim.approved.send("c").effect == "resumed"
    assert OF_WAIT.isdisjoint(stored(Claim, "c"))
    assert Claim.close.run("c", lambda _: "closed") == "closed"


def test_a_later_wait_of_the_round_counts_its_own_children_alone(clock: StoppedClock) -> None:
    Claim.create("c")
    wait(parts=2)
    clock.advance(2 * HOUR)
    with Claim.decide.start("c") as ctx:
        for name in ("c/1", "c/new"):  # one of them goes on since the first wait
            ctx.create(Part, name, wait=True)
    for name, left in {"c/0": 2, "c/new": 1, "c/1": None}.items():
        succeed(Part.check, name)
        assert Claim.get_task("c").blockers == left
    succeed(Claim.close, "c")


def test_a_child_that_ends_while_its_parent_waits_for_it_once_more_counts() -> None:
    Claim.create("c")
    wait(until=None, parts=1)
    Claim.decide.ignore("c", reason="again")
    with Part.check.start("c/0"):
        wait(until=None, parts=1, also_from=[Claim.decide.ignored])
    assert list(Claim.decide.due_ids()) == ["c"]


def test_a_start_from_another_state_does_without_what_that_waits_for() -> None:
    Claim.create("c")
    wait("paid", until=None, parts=1)
    Claim.decide.ignore("c", reason="paid in cash")
    with pytest.raises(ZeroDivisionError), Claim.close.start("c", also_from=[Claim.decide.ignored]):
        raise ZeroDivisionError
    Claim.close.ignore("c", reason="not now")
    assert Claim.close.reopen("c").waits_for is None
    succeed(Claim.close, "c")
    assert OF_WAIT.isdisjoint(stored(Claim, "c"))


def test_a_member_of_a_group_that_is_woken_while_it_waits_is_due_at_its_limit() -> None:
    for name in "cb":
        Claim.create(name, group="g")
    wait(parts=1)
    Claim.decide.ignore("c", reason="later")
    Claim.decide.reopen("c")
    Claim.check.ignore("b", reason="not now")
    assert Claim.get_task("c").due_time == Claim.get_task("c").wait_until


def test_a_member_that_is_parked_beyond_its_limit_is_repaired() -> None:
    Claim.create("c", group="g")
    wait(parts=1)
    change(Claim, "c", due_time={"S": stamp(NEVER)})
    assert (Claim.get_task("c").due_time, Claim.group("g").repair()) == (NEVER, "c")
    assert Claim.get_task("c").due_time == Claim.get_task("c").wait_until


def test_a_created_task_may_wait_for_a_signal(clock: StoppedClock) -> None:
    Claim.create("c")
    with Claim.check.start("c") as ctx:
        ctx.create(Part, "p", wait_for=Part.sealed, until=HOUR)
        with pytest.raises(TypeError, match="a signal that Part declares"):
            ctx.create(Part, "q", wait_for=Claim.paid)
        with pytest.raises(ValueError, match="cannot have group"):
            ctx.create(Part, "q", wait_for=Part.sealed, group="g")
    assert Part.create_many([{"task_id": "q", "wait_for": Part.sealed, "until": HOUR}]).succeeded == ["q"]
    for name in "pq":
        task = Part.get_task(name)
        assert (task.waits_for is not None, task.due_time) == (True, clock.now() + HOUR)
        assert Part.sealed.send(name).effect == "resumed"


def send_approval(_: object = None) -> None:
    assert Claim.approved.send("c", 5, round=Claim.get_task("c").round).will_be_read


def end_in_a_transaction(ctx: ExecutionContext[Claim]) -> None:
    send_approval()
    with pytest.raises(TaskNotReadyError, match="without the signal approved"), ctx.transaction(succeed=True):
        pass


ENDS: dict[str, tuple[BoundStep[Claim], Callable[[ExecutionContext[Claim]], object]]] = {
    "the last step": (Claim.close, send_approval),
    "another step": (Claim.check, lambda ctx: [ctx.end_task(), send_approval()]),
    "a branch after a cancel": (Claim.undo, send_approval),
    "a transaction": (Claim.close, end_in_a_transaction),
}


@pytest.mark.parametrize("has_others", [True, False], ids=["others", "none"])
@pytest.mark.parametrize("end", ENDS)
def test_a_run_does_not_end_a_task_whose_signal_it_does_not_know(end: str, *, has_others: bool) -> None:
    step, block = ENDS[end]
    Claim.create("c", state=step.pending)
    if has_others:
        Claim.paid.send("c", 1)
    if end == "a branch after a cancel":
        Claim.cancel("c", reason="by phone", go_to=step)
    step.run_all(block)
    task = Claim.get_task("c")
    assert (task.state, task.attempt) == (step.pending, 0)
    read = []

    def decide(ctx: ExecutionContext[Claim]) -> None:
        read.append(ctx.task.approved and ctx.task.approved.value)
        ctx.end_task()

    step.run_all(decide)
    assert read == [5]
    assert Claim.get_task("c").state in {Claim.close.succeeded, Claim.cancelled}


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_signal_that_only_a_newer_program_declares_does_not_keep_a_task_from_ending(*, in_transaction: bool) -> None:
    Claim.create("c", state=Claim.close.pending)
    with Claim.close.start("c") as ctx:
        signal = {"M": {"value": {"S": "1"}, "time": {"S": stamp(ctx.task.update_time)}, "token": {"S": "0" * 24}}}
        change(Claim, "c", signals={"M": {"of a newer program": signal}})
        if in_transaction:
            with ctx.transaction(succeed=True):
                pass
    assert Claim.get_task("c").state == Claim.close.succeeded


def test_a_round_does_not_end_without_its_signal(clock: StoppedClock) -> None:
    Part.create("p", repeat=Repeat.every(HOUR))
    Part.check.run_all(print)
    clock.advance(HOUR)
    rounds = []

    def check(ctx: ExecutionContext[Part]) -> None:
        rounds.append(ctx.round)
        Part.sealed.send("p", 5, round=ctx.round)

    for _ in range(2):
        Part.check.run_all(check)
    assert rounds[0] == rounds[1] != Part.get_task("p").round
