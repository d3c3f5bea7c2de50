"""What passes through a use case with `count_transitions=True` is counted, about, and never gets in the way."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from pynamodb_tracker import ExecutionContext, GiveUp, RetryLater, Step, UseCase
from pynamodb_tracker.control import flow
from pynamodb_tracker.presentation.glance import glance
from pynamodb_tracker.presentation.steps import passing_of
from pynamodb_tracker.presentation.task_facts import steps_of
from pynamodb_tracker.testing import StoppedClock
from tests.support.recorder import recorded
from tests.support.rows import client, keys, stored
from tests.support.shop import AppTask
from tests.support.workers import fail, succeed

pytestmark = pytest.mark.usefixtures("table")

MINUTE = timedelta(minutes=1)


class Letter(AppTask):
    use_case_id = UseCase("counted letter", count_transitions=True)

    write = Step(10, max_attempts=2)
    post = Step(20)


class Stamp(AppTask):
    use_case_id = UseCase("counted stamp", count_transitions=True)

    stick = Step(10)


class Plain(AppTask):
    use_case_id = UseCase("letter that nobody counts")

    post = Step(10)


@pytest.fixture(autouse=True)
def _fresh(clock: StoppedClock) -> Iterator[None]:
    clock.advance(datetime(2026, 11, 24, 9, 30, tzinfo=UTC) - clock.now())
    flow._counts.forget()
    yield
    flow._counts.forget()


def hours_of(model: Any) -> Sequence[flow.Hour]:
    return glance([model]).models[model].hours or ()


def counted(model: Any = Letter) -> list[tuple[int, dict[str, int]]]:
    return [(hour.begin.hour, hour.numbers) for hour in hours_of(model) if hour.numbers]


def test_what_has_gathered_for_ten_minutes_is_added_to_the_item_of_its_hour(clock: StoppedClock) -> None:
    for task_id in ("l-1", "l-2", "l-3"):
        Letter.create(task_id)
    Letter.create_or_merge("l-4")
    Letter.create_or_merge("l-4")
    with Letter.write.start("l-1") as ctx:
        ctx.create(Stamp, "s-1")
        ctx.create(Plain, "p-1")
    succeed(Letter.post, "l-1")
    fail(Letter.write, "l-2")
    fail(Letter.write, "l-3", GiveUp("no paper"))
    fail(Letter.write, "l-4", RetryLater(MINUTE, "no ink", use_attempt=False))
    assert counted() == []
    clock.advance(40 * MINUTE)
    succeed(Letter.write, "l-2")
    first = {"created": 4, "succeeded#10": 1, "succeeded#20": 1, "failed#10": 1, "ignored#10": 1}
    took = {"took0#10": 1, "took0#20": 1}
    assert counted() == [(9, first | took), (10, {"succeeded#10": 1, "took0#10": 1})]
    assert counted(Stamp) == []
    clock.advance(11 * MINUTE)
    Stamp.create("s-2")
    assert counted(Stamp) == [(9, {"created": 1}), (10, {"created": 1})]
    item = stored_hour("counted letter#flow", "#flow#2026112409")
    assert (item["group_of"], item["expire_time"]) == (
        {"S": "counted letter"},
        {"N": str(int(datetime(2026, 12, 24, 9, tzinfo=UTC).timestamp()))},
    )


class Parcel(AppTask):
    use_case_id = UseCase("counted parcel", count_transitions=True)

    check = Step(10)
    pack = Step(20)
    send = Step(30)
    refund = Step(90, branch=True)


def test_tasks_come_to_the_step_that_their_runs_have_chosen(clock: StoppedClock) -> None:
    def choose(ctx: ExecutionContext[Parcel]) -> None:
        match ctx.task.task_id:
            case "fraud":
                ctx.go_to(Parcel.refund)
            case "voucher":
                ctx.go_to(Parcel.send)
            case "test":
                ctx.end_task()
            case _:
                pass

    Parcel.create_many(["p-1", "p-2", "fraud", "voucher", "test"])
    Parcel.check.run_all(choose)
    Parcel.pack.run_all(lambda _: None)
    Parcel.send.run_all(lambda _: None)
    clock.advance(11 * MINUTE)
    Parcel.create("p-3")
    came = {each.step.name: sum(each.came) for each in passing_of(steps_of(Parcel), hours_of(Parcel))}
    assert came == {"check": 6, "pack": 2, "send": 3, "refund": 1}


def stored_hour(task_id: str, range_key: str) -> dict[str, Any]:
    key = {"task_id": {"S": task_id}, "use_case_id": {"S": range_key}}
    found: dict[str, Any] = client(AppTask).get_item(TableName=AppTask.Meta.table_name, Key=key)["Item"]
    return found


def test_each_ten_minutes_begin_with_their_first_transition(clock: StoppedClock) -> None:
    for number, pause in enumerate((10 * MINUTE, MINUTE, MINUTE)):
        Letter.create(f"l-{number}")
        clock.advance(pause)
    assert counted() == [(9, {"created": 2})]


def test_what_was_counted_for_another_connection_is_not_sent_with_it(clock: StoppedClock) -> None:
    Letter.create("l-1")
    AppTask.tracker.table.reconnect()  # as a program that changes its settings
    clock.advance(10 * MINUTE)
    Letter.create("l-2")
    assert counted() == []


def test_sixty_transitions_are_one_request(clock: StoppedClock) -> None:
    del clock
    with recorded() as requests:
        Letter.create_many(f"l-{number}" for number in range(119))
    assert counted() == [(9, {"created": 60})]
    assert len(requests.operations) == 119 + 1


def test_in_lambda_the_first_transition_is_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    Letter.create("l-1")
    Letter.create("l-2")
    assert counted() == [(9, {"created": 1})]


def test_a_process_that_may_not_write_it_warns_once_and_counts_no_more(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []
    untils: list[timedelta] = []

    class Refusing:
        def dispatch(self, operation: str, _request: Any) -> Any:
            tries.append(operation)
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, operation)

    monkeypatch.setattr(flow, "_MOST", 1)
    monkeypatch.setattr(flow, "connection_until", lambda _, until: untils.append(until - clock.now()) or Refusing())
    code = "ThrottlingException"
    Letter.create("l-1")
    code = "AccessDeniedException"
    for task_id in ("l-2", "l-3"):
        Letter.create(task_id)
    assert (tries, untils) == (["UpdateItem"] * 2, [timedelta(seconds=0.5)] * 2)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "this process stops counting the flow of" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
def test_a_child_does_not_send_what_its_parent_has_counted() -> None:
    Letter.create("l-1")
    child = os.fork()
    if child == 0:
        os._exit(0 if not flow._counts._known else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert flow._counts._known


def test_nothing_is_written_for_other_use_cases_and_what_is_written_is_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_MOST", 1)
    Plain.create("p-1")
    succeed(Plain.post, "p-1")
    assert len(list(keys(AppTask))) == 1
    Letter.create("l-1")
    assert stored(Letter, "l-1")["status"] == {"N": "10"}
    assert sum(Letter.counts().values()) == 1
    assert Letter.delete_use_case().succeeded == ["l-1"]
