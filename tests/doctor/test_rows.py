"""What the doctor finds in rows: tasks that wait for nobody, and requests that no run has taken in."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from pynamodb_tracker import ExecutionContext, Signal, Step, Task, UseCase
from pynamodb_tracker.clock import NEVER, stamp
from pynamodb_tracker.doctor import examine_rows
from pynamodb_tracker.testing import StoppedClock, local_table, stopped_clock
from tests.support.rows import change, client


class DeskTask(Task):
    class Meta:
        table_name = "desk-of-the-doctor"
        region = "us-east-1"


class Letter(DeskTask):
    use_case_id = UseCase("letter")

    split = Step(10)
    collect = Step(20)


class Page(DeskTask):
    use_case_id = UseCase("page")

    write = Step(10)


@pytest.fixture(autouse=True)
def clock() -> Iterator[StoppedClock]:
    with local_table(DeskTask), stopped_clock() as stopped:
        yield stopped


def split(ctx: ExecutionContext[Letter]) -> None:
    for number in range(3):
        ctx.create(Page, f"{ctx.task.task_id}/{number}", wait=True)


def nothing(_ctx: ExecutionContext[Page]) -> None:
    pass


def waiting(clock: StoppedClock) -> None:
    """Let a task wait for two of three others."""
    Letter.create("l-1")
    Letter.split.run("l-1", split)
    Page.write.run("l-1/0", nothing)
    clock.advance(timedelta(seconds=1))


def lose(task_id: str) -> None:
    client(DeskTask).delete_item(TableName="desk-of-the-doctor", Key=Page.tracker.key(task_id))


def test_a_task_that_waits_for_tasks_that_are_gone_is_found_and_the_advice_frees_it(clock: StoppedClock) -> None:
    waiting(clock)
    assert examine_rows(DeskTask) == []
    lose("l-1/2")
    (finding,) = examine_rows(DeskTask)
    assert finding.found == "waiting for more tasks than there are: letter 'l-1'"
    Letter.collect.ignore("l-1", reason="a page is gone")
    Letter.collect.run("l-1", lambda _: None, also_from=(Letter.collect.ignored,))
    assert examine_rows(DeskTask) == []


def test_a_damaged_task_that_waits_is_listed_and_does_not_end_the_check(clock: StoppedClock) -> None:
    waiting(clock)
    lose("l-1/2")
    change(Letter, "l-1", round={"N": "1"})
    assert [finding.subject for finding in examine_rows(DeskTask)] == [
        "damaged tasks: round",
        "tasks that wait for others",
    ]


def test_children_that_end_during_the_scan_are_no_finding(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(clock)
    lose("l-1/2")
    look = Letter.get.__func__  # type: ignore[attr-defined]  # of a class method

    def end_first(*given: object, **options: object) -> object:
        Page.write.run("l-1/1", nothing)
        return look(Letter, *given, **options)

    monkeypatch.setattr(Letter, "get", end_first)
    assert examine_rows(DeskTask) == []


def test_a_group_that_stands_still_is_found_and_the_advice_mends_it(clock: StoppedClock) -> None:
    for number in range(3):
        Page.create(f"p-{number}", group="customer-7")
    clock.advance(timedelta(minutes=1))
    assert list(examine_rows(Page)) == []
    DeskTask._get_connection().delete_item("p-0", "page")
    (finding,) = examine_rows(Page)
    assert "Page.group('customer-7')" in finding.found
    Page.group("customer-7").repair()
    assert list(examine_rows(Page)) == []


def test_a_member_that_is_parked_beyond_its_limit_is_found_and_the_advice_mends_it(clock: StoppedClock) -> None:
    Page.create("p-1", group="customer-7")
    change(Page, "p-1", due_time={"S": stamp(NEVER)}, wait_until={"S": stamp(clock.now())}, blockers={"N": "1"})
    clock.advance(timedelta(minutes=1))
    assert "Page.group('customer-7')" in [finding.found for finding in examine_rows(Page)][-1]
    assert Page.group("customer-7").repair() == "p-1"
    assert list(Page.write.due_ids()) == ["p-1"]


def test_a_task_that_awaits_an_answer_that_nobody_declares_is_found_and_others_are_not(clock: StoppedClock) -> None:
    class Form(DeskTask):
        use_case_id = UseCase("form")

        collect = Step(10)
        signed = Signal()

    Form.create("f-1", wait_for=Form.signed)
    Form.create("f-2", wait_for=Form.signed, until=timedelta(days=1))
    change(Form, "f-2", awaited_signals={"SS": ["signed", "sealed"]})
    clock.advance(timedelta(seconds=1))

    (finding,) = examine_rows(DeskTask)

    assert finding.found == "awaiting signals that no class declares: form 'f-2' (sealed)"
    change(Form, "f-2", v={"N": "99"})
    assert examine_rows(DeskTask) == []
