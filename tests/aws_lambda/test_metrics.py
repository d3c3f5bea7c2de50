"""Metrics in CloudWatch's embedded metric format."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import ExecutionContext, Repeat, Step, TaskNotStartableError, UseCase
from pynamodb_tracker.aws_lambda import EmfHook, UnreadableEventError, handles
from pynamodb_tracker.instrumentation import add_hook
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, sqs
from tests.aws_lambda.shop import Context, Order, ShopTask, no_access, ready, ship
from tests.aws_lambda.test_batches import BROKEN
from tests.support.workers import die

AT_START = ("Started", "TakenOver")
AT_END = ("Succeeded", "Failed", "Ignored", "Refused", "Broken")

handler = handles(Order.ship, task_id="order_id", metrics=True)(ship)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def counted(capsys: pytest.CaptureFixture[str]) -> list[dict[str, int]]:
    return [
        {name: value for name, value in line.items() if name[0].isupper() and name != "Duration" and value}
        for line in lines(capsys)
    ]


def test_each_task_is_two_lines_of_the_format(clock: StoppedClock, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")

    @handles(Order.ship, task_id="order_id", metrics=True)
    def slow(ctx: ExecutionContext[Order], event: Any) -> None:
        clock.advance(timedelta(seconds=1.5))
        ship(ctx, event)

    slow(bare("o-1"), Context(clock))

    found = lines(capsys)
    for line, metrics in zip(found, (AT_START, AT_END), strict=True):
        about = line.pop("_aws")
        assert 1e12 < about["Timestamp"] < 1e13, "it is in milliseconds"
        of_start = metrics == AT_START
        assert about["CloudWatchMetrics"] == [
            {
                "Namespace": "pynamodb_tracker",
                "Dimensions": [["use_case_id", "step"]],
                "Metrics": [
                    *({"Name": name, "Unit": "Count"} for name in metrics),
                    *([] if of_start else [{"Name": "Duration", "Unit": "Milliseconds"}]),
                ],
            }
        ]
    about_step, ended = {"use_case_id": "order", "step": "ship"}, dict.fromkeys(AT_END, 0) | {"Succeeded": 1}
    assert found == [{**about_step, "Started": 1, "TakenOver": 0}, {**about_step, **ended, "Duration": 1500.0}]


def one_task_of_each_kind(clock: StoppedClock) -> None:
    """Create ``o-1`` ready to run, ``done`` succeeded, and ``spent``, whose two attempts both died."""
    ready("o-1", "spent")
    Order.create("done", state=Order.ship.succeeded)
    for _ in range(2):
        die(Order.ship, "spent")
        clock.advance(timedelta(minutes=6))


def test_each_outcome_is_counted_once(clock: StoppedClock, capsys: pytest.CaptureFixture[str]) -> None:
    one_task_of_each_kind(clock)
    event = sqs(bare("done"), bare("spent"), bare("o-1", **BROKEN), bare("o-1", **BROKEN), bare("missing"), "{")

    handler(event, Context(clock))
    assert counted(capsys) == [
        {"Repeated": 1},
        {"Refused": 1, "Ignored": 1},
        {"Started": 1},
        {"Failed": 1},
        {"Started": 1},
        {"Ignored": 1},
        {"Refused": 1},
        {"Unreadable": 1},
    ]
    clock.advance(timedelta(seconds=1))
    handler(sqs(bare("spent"), bare("o-1")), Context(clock))
    assert counted(capsys) == [{"Refused": 1}] * 2


def test_what_the_table_refused_is_counted_and_takes_no_time(
    context: Context, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Order.ship, "start", no_access)
    with pytest.raises(UpdateError):
        handler(sqs(bare("o-1")), context)
    [line] = lines(capsys)
    assert (line["Refused"], line["Broken"], "Duration" in line) == (1, 1, False)


def test_a_line_is_written_before_the_next_record_runs(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1", "o-2")
    told = []
    look = handles(Order.ship, task_id="order_id", metrics=True)(lambda _ctx, _event: told.append(counted(capsys)))
    look(sqs(bare("o-1"), bare("o-2")), context)
    assert told == [[{"Started": 1}], [{"Succeeded": 1}, {"Started": 1}]]


def test_a_task_of_a_worker_that_died_is_taken_over(clock: StoppedClock, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")
    die(Order.ship, "o-1")
    clock.advance(timedelta(minutes=6))
    handler(bare("o-1"), Context(clock))
    started, ended = lines(capsys)
    assert (started["step"], started["Started"], started["TakenOver"]) == ("ship", 1, 1)
    assert ("TakenOver" in ended, ended["Succeeded"]) == (False, 1)


def test_a_worker_that_failed_or_gave_back_did_not_die(clock: StoppedClock, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1", "reopened")
    with pytest.raises(KeyboardInterrupt):
        Order.ship.run("o-1", interrupted)
    die(Order.ship, "reopened")
    clock.advance(timedelta(minutes=6))
    Order.ship.ignore("reopened", reason="later")
    Order.ship.reopen("reopened")
    handler(sqs(bare("o-1", **BROKEN), bare("o-1"), bare("reopened")), Context(clock))
    assert [line["TakenOver"] for line in lines(capsys) if "TakenOver" in line] == [0, 0, 0]


def interrupted(_ctx: object) -> None:
    raise KeyboardInterrupt


def test_they_are_written_though_the_error_leaves(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")
    with pytest.raises(Exception, match="no paper"):
        handler(bare("o-1", **BROKEN), context)
    with pytest.raises(UnreadableEventError):
        handler({}, context)
    assert counted(capsys) == [{"Started": 1}, {"Failed": 1}, {"Unreadable": 1}]


def test_a_custom_namespace(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")
    handles(Order.ship, task_id="order_id", metrics="Shop/Orders")(ship)(bare("o-1"), context)
    named = [line["_aws"]["CloudWatchMetrics"][0]["Namespace"] for line in lines(capsys)]
    assert named == ["Shop/Orders"] * 2


class Parcel(ShopTask):
    use_case_id = UseCase("Größe")

    pack = Step(10)


def test_dimensions_are_ascii_as_cloudwatch_wants_them(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    Parcel.create("p-1")
    handles(Parcel.pack, task_id="id", metrics=True)(lambda _ctx, _event: None)({"id": "p-1"}, context)
    assert {line["use_case_id"] for line in lines(capsys)} == {"Gr\\xf6\\xdfe"}


def test_nothing_is_written_unless_they_are_switched_on(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")
    handles(Order.ship, task_id="order_id")(ship)(bare("o-1"), context)
    assert capsys.readouterr().out == ""


def test_an_occurrence_that_was_given_up_is_counted_and_logged(
    clock: StoppedClock, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    Order.create("o-1", repeat=Repeat.every(timedelta(days=1)))
    confirm = handles(Order.confirm, task_id="order_id", metrics=True)(ship)
    for _ in range(Order.confirm.max_attempts):
        confirm(sqs(bare("o-1", **BROKEN)), Context(clock))
    *failed, last = [line for line in lines(capsys) if "Failed" in line]
    assert ("SkippedOccurrences" in failed[-1], last["Failed"], last["SkippedOccurrences"]) == (False, 1, 1)
    assert {"Name": "SkippedOccurrences", "Unit": "Count"} in last["_aws"]["CloudWatchMetrics"][0]["Metrics"]
    assert (caplog.records[-1].levelname, "gave up its occurrence" in caplog.text) == ("ERROR", True)


@pytest.fixture
def hooked() -> Iterator[None]:
    """Have the metrics of all runs of the process written."""
    remove = add_hook(EmfHook("Shop"))
    yield
    remove()


@pytest.mark.usefixtures("hooked")
def test_a_hook_counts_each_run_of_a_script(clock: StoppedClock, capsys: pytest.CaptureFixture[str]) -> None:
    one_task_of_each_kind(clock)
    capsys.readouterr()

    for task_id in ("done", "spent", "spent", "o-1"):
        with suppress(TaskNotStartableError):
            Order.ship.run(task_id, lambda _: clock.advance(timedelta(seconds=2)))
        clock.advance(timedelta(seconds=1))

    *_, ended = found = lines(capsys)
    assert (ended["_aws"]["CloudWatchMetrics"][0]["Namespace"], ended["Duration"]) == ("Shop", 2000)
    assert [{name for name, value in line.items() if value == 1} for line in found] == [
        {"Repeated"},
        {"Refused", "Ignored"},
        {"Refused"},
        {"Started"},
        {"Succeeded"},
    ]
