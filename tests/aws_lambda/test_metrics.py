"""Metrics in CloudWatch's embedded metric format."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.aws_lambda import handles
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, sqs
from tests.aws_lambda.shop import Context, Order, ship
from tests.aws_lambda.test_batches import BROKEN, ready

COUNTS = ("Started", "Succeeded", "Failed", "Ignored", "TakenOver", "Refused")

handler = handles(Order.ship, task_id="order_id", metrics=True)(ship)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def counted(line: dict[str, Any]) -> dict[str, int]:
    return {name: line[name] for name in COUNTS if line[name]}


def test_an_invocation_writes_one_line_of_the_format(clock: StoppedClock, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1", "o-2")

    @handles(Order.ship, task_id="order_id", metrics=True)
    def slow(ctx: ExecutionContext[Order], event: Any) -> None:
        clock.advance(timedelta(seconds=1.5))
        ship(ctx, event)

    slow(sqs(bare("o-1"), bare("o-2", **BROKEN)), Context(clock))

    [line] = lines(capsys)
    about = line.pop("_aws")
    assert isinstance(about["Timestamp"], int)
    assert about["CloudWatchMetrics"] == [
        {
            "Namespace": "pynamodb_tracker",
            "Dimensions": [["use_case_id", "step"]],
            "Metrics": [
                *({"Name": name, "Unit": "Count"} for name in COUNTS),
                {"Name": "Duration", "Unit": "Milliseconds"},
            ],
        }
    ]
    assert line == {
        "use_case_id": "order",
        "step": "ship",
        "Started": 2,
        "Succeeded": 1,
        "Failed": 1,
        "Ignored": 0,
        "TakenOver": 0,
        "Refused": 0,
        "Duration": [1500.0, 1500.0],
    }


def test_refusals_and_what_was_set_aside_are_counted_once(
    clock: StoppedClock, capsys: pytest.CaptureFixture[str]
) -> None:
    ready("o-1", "spent")
    Order.create("done", state=Order.ship.succeeded)
    for _ in range(2):
        Order.ship.start("spent").__enter__()
        clock.advance(timedelta(minutes=6))
    event = sqs(bare("done"), bare("spent"), bare("o-1", **BROKEN), bare("o-1", **BROKEN), bare("missing"), "{")

    handler(event, Context(clock))
    clock.advance(timedelta(seconds=1))
    handler(sqs(bare("spent"), bare("o-1")), Context(clock))

    first, second = lines(capsys)
    assert counted(first) == {"Started": 2, "Failed": 1, "Ignored": 2, "Refused": 3}
    assert counted(second) == {"Refused": 2}
    assert "Duration" not in second


def test_a_task_of_a_worker_that_died_is_taken_over(clock: StoppedClock, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")
    Order.ship.start("o-1").__enter__()
    clock.advance(timedelta(minutes=6))

    handler(bare("o-1"), Context(clock))

    assert counted(*lines(capsys)) == {"Started": 1, "Succeeded": 1, "TakenOver": 1}


def test_who_failed_and_who_gave_back_died_not(clock: StoppedClock, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")
    with pytest.raises(KeyboardInterrupt):
        Order.ship.run("o-1", interrupted)
    handler(sqs(bare("o-1", **BROKEN)), Context(clock))
    handler(sqs(bare("o-1")), Context(clock))

    assert [line["TakenOver"] for line in lines(capsys)] == [0, 0]


def interrupted(_ctx: object) -> None:
    raise KeyboardInterrupt


def test_they_are_written_though_the_error_leaves(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")

    with pytest.raises(Exception, match="no paper"):
        handler(bare("o-1", **BROKEN), context)

    assert counted(*lines(capsys)) == {"Started": 1, "Failed": 1}


def test_a_namespace_of_ones_own(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")
    handles(Order.ship, task_id="order_id", metrics="Shop")(ship)(bare("o-1"), context)

    [line] = lines(capsys)
    assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Shop"


def test_nothing_is_written_unless_they_are_switched_on(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1")
    handles(Order.ship, task_id="order_id")(ship)(bare("o-1"), context)

    assert capsys.readouterr().out == ""


def test_a_line_has_a_hundred_durations_and_the_counts_are_on_one(
    context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [f"o-{number}" for number in range(101)]
    ready(*ids)

    handler(sqs(*map(bare, ids)), context)

    first, second = lines(capsys)
    assert (first["Started"], len(first["Duration"])) == (101, 100)
    assert (len(second["Duration"]), set(COUNTS) & second.keys()) == (1, set())
    assert second["_aws"]["CloudWatchMetrics"][0]["Metrics"] == [{"Name": "Duration", "Unit": "Milliseconds"}]
