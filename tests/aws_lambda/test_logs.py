"""What the log of an invocation tells."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext, TaskLockedError
from pynamodb_tracker.aws_lambda import UnreadableEventError, handles
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, fifo, sqs
from tests.aws_lambda.shop import REQUEST, Broken, Context, Order, ship
from tests.aws_lambda.test_batches import BROKEN, ready

handler = handles(Order.ship, task_id="order_id")(ship)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "pynamodb_tracker"]


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pynamodb_tracker")


def test_a_success_has_all_fields(clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    ready("o-1")

    @handles(Order.ship, task_id="order_id")
    def slow(_ctx: object, _event: object) -> None:
        clock.advance(timedelta(seconds=1.5))

    slow(sqs(bare("o-1")), Context(clock))

    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == ("INFO", "ship of Order 'o-1' (attempt 1) succeeded")
    expected = {
        "use_case_id": "order",
        "step": "ship",
        "task_id": "o-1",
        "attempt": 1,
        "fence": 1,
        "request_id": REQUEST,
        "trigger": "sqs",
        "record": "m-1",
        "outcome": "succeeded",
        "reason": None,
        "duration_ms": 1500.0,
    }
    assert {name: getattr(record, name) for name in expected} == expected


def test_each_outcome_matters_as_much_as_it_does(
    clock: StoppedClock, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    ready("failing", "held", "set-aside")
    Order.create("early")
    Order.create("done", state=Order.ship.succeeded)
    Order.ship.ignore("set-aside", reason="cancelled")
    held = Order.ship.start("held")
    held.__enter__()
    clock.advance(timedelta(seconds=1))

    ids = ("failing", "held", "early", "done", "set-aside", "missing")
    handler(sqs(*(bare(task_id, **BROKEN) for task_id in ids)), context)
    handler(sqs(bare("failing", **BROKEN)), context)

    assert [(level, message.partition(": ")[0]) for level, message in told(caplog)] == [
        ("WARNING", "ship of Order 'failing' (attempt 1) failed"),
        ("INFO", "ship of Order 'held' was not started"),
        ("INFO", "ship of Order 'early' was not started"),
        ("INFO", "ship of Order 'done' was not started"),
        ("WARNING", "ship of Order 'set-aside' was not started"),
        ("WARNING", "ship of Order 'missing' was not started"),
        ("ERROR", "ship of Order 'failing' (attempt 2) was set aside, and waits for a person to reopen it"),
    ]
    assert [record.reason for record in caplog.records] == [  # type: ignore[attr-defined]  # the handler sets it
        *("failed", "locked", "not_ready", "succeeded", "ignored", "not_found"),
        "ignored",
    ]


def test_a_message_that_cannot_be_read_is_named_and_none_of_its_values(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    handler(sqs({"card": "4111 1111"}), context)

    [(level, message)] = told(caplog)
    assert level == "ERROR"
    assert message.startswith("record m-1: no task id by 'order_id' in an object with ['card']")
    assert "4111" not in message
    assert caplog.records[0].outcome == "unreadable"  # type: ignore[attr-defined]  # the handler sets it


def test_an_event_that_cannot_be_read_is_told_once(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnreadableEventError):
        handler({}, context)

    assert told(caplog) == [
        ("ERROR", "no task id by 'order_id' in an empty object: LookupError: there is no 'order_id' in an empty object")
    ]


def test_what_is_left_for_later_is_told(clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    handler(fifo(("a", "{"), ("a", "{")), Context(clock))
    handler(sqs("{", bare("o-1")), Context(clock, 0.5))

    assert [message for level, message in told(caplog) if level == "INFO"] == [
        "record m-2 is left for later",
        "record m-2 is left for later",
    ]


def test_a_task_whose_last_worker_died_is_set_aside_loudly(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    ready("o-1")
    for _ in range(2):
        Order.ship.start("o-1").__enter__()
        clock.advance(timedelta(minutes=6))

    handler(sqs(bare("o-1")), Context(clock))
    clock.advance(timedelta(seconds=1))
    handler(sqs(bare("o-1")), Context(clock))

    assert [level for level, _ in told(caplog)] == ["ERROR", "WARNING"]


def test_a_secret_of_a_function_that_lost_its_lock_is_not_told(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    ready("o-1")

    @handles(Order.ship, task_id="order_id")
    def freezes(_ctx: object, _event: object) -> None:
        clock.advance(timedelta(minutes=6))
        with pytest.raises(TaskLockedError), Order.ship.start("o-1"):
            Order.ship.run("o-1", lambda _: None)
        raise Broken("4111 1111")

    with pytest.raises(Broken):
        freezes(bare("o-1"), Context(clock))

    assert told(caplog) == [("WARNING", "ship of Order 'o-1' (attempt 1) ended unrecorded: Broken")]


def test_a_success_in_a_transaction_counts_though_the_function_raised_after_it(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    ready("o-1")

    @handles(Order.ship, task_id="order_id")
    def handler(ctx: ExecutionContext[Order], _event: object) -> None:
        with ctx.transaction(succeed=True):
            pass
        raise Broken("4111 1111")

    assert handler(bare("o-1"), context)["state"] == "deliver pending"
    assert [level for level, _ in told(caplog)] == ["ERROR", "INFO"]


def test_an_odd_error_brings_its_traceback(
    context: Context, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: Any, **__: Any) -> Any:
        raise OSError("no such host")

    monkeypatch.setattr(Order.ship, "start", start)
    handler(sqs(bare("o-1")), context)

    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None
    assert record.exc_info[0] is OSError
