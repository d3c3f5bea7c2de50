"""`export` and `load` keep what is left of a round: parts, steps passed over, postponements, and a cancel."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import Repeat, RetryLater, Step, Task, TaskAlreadySucceededError, UseCase, clock
from pynamodb_tracker.presentation.text import stamp
from pynamodb_tracker.testing import StoppedClock, local_table
from pynamodb_tracker.writes.lock import new_token
from tests.cli.command import run
from tests.support.rows import change, stored

CANCELLED = {"step": "pay", "time": "2026-01-01T12:00:00Z", "by": "ada", "reason": "withdrawn"}
HERE = "tests.cli.test_transfer_of_rounds:Payout"


class PayoutTask(Task):
    class Meta:
        table_name = "payouts"
        region = "us-east-1"


class Payout(PayoutTask):
    use_case_id = UseCase("payout")

    check = Step(10)
    pay = Step(20, give_up_after=timedelta(hours=1))
    book = Step(30, also_from=(pay.ignored,))
    refund = Step(90, branch=True)

    model = UnicodeAttribute(null=True)  # the library has parameters of that name


@pytest.fixture(autouse=True)
def table(store: StoppedClock) -> Iterator[StoppedClock]:
    with local_table(PayoutTask):
        yield store
        Payout.delete_table()


def moved() -> list[dict[str, Any]]:
    """Export all tasks, delete them, and load them; return what was exported."""
    text = run("export", of=HERE).out
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        Payout.delete_task(line["task_id"])
    loaded = run("load", "-", text=text, of=HERE)
    assert (loaded.code, loaded.err) == (0, "")
    assert sorted(run("export", of=HERE).lines) == sorted(text.splitlines())
    return lines


def test_parts_that_are_done_are_not_repeated_and_passed_steps_stay_passed() -> None:
    calls: list[str] = []
    Payout.create("p", model="instant")
    with Payout.check.start("p") as ctx:
        ctx.go_to(Payout.book)
    with suppress(ZeroDivisionError), Payout.book.start("p") as ctx:
        ctx.checkpoint("charge", lambda: {"id": 7})
        raise ZeroDivisionError

    [line] = moved()

    assert (line["checkpoints"], line["skipped_steps"]) == ({"book": {"charge": {"id": 7}}}, ["pay"])
    assert Payout.book.run("p", lambda ctx: ctx.checkpoint("charge", lambda: calls.append("again"))) == {"id": 7}
    assert calls == []
    with pytest.raises(TaskAlreadySucceededError) as caught:
        Payout.pay.run("p", lambda _: None)
    assert caught.value.skipped


def test_postponements_count_and_a_task_is_given_up_by_the_age_of_its_first_failure(table: StoppedClock) -> None:
    Payout.create("p", state=Payout.pay.pending)
    for _ in range(2):
        with suppress(RetryLater), Payout.pay.start("p"):
            raise RetryLater(timedelta(0), use_attempt=False)
    begun = clock.now()
    table.advance(timedelta(minutes=50))

    [line] = moved()

    assert (line["postpone_count"], line["first_failure"]) == (2, stamp(begun))
    assert Payout.get_task("p").postpone_count == 2
    table.advance(timedelta(minutes=11))
    with suppress(RetryLater), Payout.pay.start("p"):
        raise RetryLater(timedelta(0), use_attempt=False)
    assert Payout.get_task("p").state == Payout.pay.ignored


@pytest.mark.parametrize("group", [None, "g"])
def test_a_cancelled_task_stays_so_and_can_be_reopened_where_it_was(table: StoppedClock, group: str | None) -> None:
    Payout.create("p", state=Payout.pay.pending, group=group)
    Payout.cancel("p", reason="withdrawn", by="ada")
    before = Payout.get_task("p").cancelled
    table.advance(timedelta(days=1))

    moved()

    task = Payout.get_task("p")
    assert (task.state, task.cancelled) == (Payout.cancelled, before)
    assert Payout.reopen("p").state == Payout.pay.pending


def test_a_task_that_repeats_begins_with_the_next_occurrence_without_any_of_it() -> None:
    Payout.create("p", repeat=Repeat.every(timedelta(days=1)))
    with suppress(ZeroDivisionError), Payout.check.start("p") as ctx:
        ctx.checkpoint("charge", lambda: 7)
        raise ZeroDivisionError
    assert "checkpoints" not in json.loads(run("export", of=HERE).out)


def test_parts_of_another_round_are_not_shown() -> None:
    Payout.create("p", state=Payout.pay.pending)
    with suppress(ZeroDivisionError), Payout.pay.start("p") as ctx:
        ctx.checkpoint("charge", lambda: 7)
        raise ZeroDivisionError

    line = json.loads(run("export", of=HERE).out)
    assert (line["checkpoints"], line.keys() >= {"first_failure"}) == ({"pay": {"charge": 7}}, True)
    assert "parts done" in run("show", "p", of=HERE).out

    parts = stored(Payout, "p")["checkpoints"]["M"]
    change(Payout, "p", checkpoints={"M": {**parts, "15/charge": {"S": "8"}}})  # of a step that was taken away since
    assert json.loads(run("export", of=HERE).out)["checkpoints"] == {"pay": {"charge": 7}}

    change(Payout, "p", round={"S": new_token()})
    assert not json.loads(run("export", of=HERE).out).keys() & {"checkpoints", "first_failure", "parts_done"}
    assert "parts done" not in run("show", "p", of=HERE).out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"checkpoints": {"send": {"charge": 7}}}, "Payout has no step 'send'"),
        ({"checkpoints": {"pay": 7}}, "is not results of parts"),
        ({"skipped_steps": "pay"}, "Expecting value"),
        ({"skipped_steps": ["send"]}, "Payout has no step 'send'"),
        ({"postpone_count": 0}, "0 is not a whole number above 0"),
        ({"first_failure": "noon"}, "'noon' is not a time"),
        ({"cancelled": CANCELLED, "state": "pay.failed"}, "has the state cancelled, or is at a branch"),
        ({"cancelled": {**CANCELLED, "step": "send"}, "state": "cancelled"}, "Payout has no step 'send'"),
        ({"cancelled": "ada", "state": "cancelled"}, "Expecting value"),
        ({"postpone_count": 1, "repeat": "every 1h"}, "cannot be loaded with postpone_count and a group or a rule"),
    ],
)
def test_what_cannot_be_loaded_of_a_round_is_a_bad_line(line: dict[str, Any], words: str) -> None:
    assert words in run("load", "-", text=json.dumps({"task_id": "p", **line}), of=HERE).err


def test_a_task_of_a_group_keeps_its_parts() -> None:
    Payout.create("p", group="g")
    with suppress(ZeroDivisionError), Payout.check.start("p") as ctx:
        ctx.checkpoint("charge", lambda: 7)
        raise ZeroDivisionError
    text = run("export", of=HERE).out.replace('"check.failed"', '"check.pending"').replace('"p"', '"q"')
    Payout.delete_task("p")
    assert run("load", "-", text=text, of=HERE).err == ""
    assert Payout.check.run("q", lambda ctx: ctx.checkpoint("charge", lambda: 8)) == 7
