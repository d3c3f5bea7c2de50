"""What an invocation logs."""

import json
import logging
import sys
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext, TaskLockedError
from pynamodb_tracker.aws_lambda import UnreadableEventError, handles
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, fifo, names, sqs
from tests.aws_lambda.shop import REQUEST, Broken, Context, Order, ready, ship
from tests.aws_lambda.test_batches import BROKEN
from tests.support.workers import die, raising

handler = handles(Order.ship, task_id="order_id")(ship)

SECRET = "4111 1111"  # noqa: S105 - the number of a card, as it were
NEW = {"task_id": "id"}


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "pynamodb_tracker"]


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pynamodb_tracker")


def test_a_success_has_all_fields(clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    ready("o-1")
    slow = handles(Order.ship, task_id="order_id")(lambda _ctx, _event: clock.advance(timedelta(seconds=1.5)))
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


def test_each_outcome_has_a_log_level(clock: StoppedClock, context: Context, caplog: pytest.LogCaptureFixture) -> None:
    ready("failing", "held", "set-aside")
    Order.create("early")
    Order.create("done", state=Order.ship.succeeded)
    Order.ship.ignore("set-aside", reason="cancelled")
    die(Order.ship, "held")
    clock.advance(timedelta(seconds=1))

    ids = ("failing", "held", "early", "done", "set-aside", "missing")
    handler(sqs(*(bare(task_id, **BROKEN) for task_id in ids)), context)
    handler(sqs(bare("failing", **BROKEN)), context)

    assert [(level, message.partition(": ")[0]) for level, message in told(caplog)] == [
        ("WARNING", "ship of Order 'failing' (attempt 1) failed"),
        ("INFO", "ship of Order 'held' was not started"),
        ("INFO", "ship of Order 'early' was not started"),
        ("WARNING", "ship of Order 'set-aside' was not started"),
        ("WARNING", "ship of Order 'missing' was not started"),
        ("ERROR", "ship of Order 'failing' (attempt 2) became ignored and will not run again unless it is reopened"),
    ]
    assert [record.reason for record in caplog.records] == [  # type: ignore[attr-defined]  # the handler sets it
        *("failed", "locked", "not_ready", "ignored", "not_found"),
        "ignored",
    ]


def test_a_repeated_delivery_is_one_short_line_at_debug(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    Order.create("done", state=Order.deliver.succeeded)
    caplog.set_level("DEBUG", "pynamodb_tracker")
    handler(sqs(bare("done")), context)
    assert told(caplog)[-1] == ("DEBUG", "ship of Order 'done' had succeeded before")


def test_a_function_of_the_event_that_raises_is_shown_with_the_task_and_its_lines_and_no_value(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    def new_order(event: dict[str, Any]) -> dict[str, Any]:
        raise KeyError(event["card"])

    creating = handles(Order.ship, task_id="order_id", create_if_missing=new_order)(ship)
    creating(sqs(bare("o-1", card="4111 1111")), context)
    [record] = caplog.records
    assert record.getMessage().startswith("record m-1: task 'o-1': create_if_missing raised KeyError for an object")
    assert (record.levelname, record.__dict__["task_id"]) == ("ERROR", "o-1")
    shown = logging.Formatter().format(record)
    assert 'in new_order\n    raise KeyError(event["card"])' in shown
    assert "4111" not in shown


def test_no_traceback_shows_a_value_that_cannot_be_stored(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    creating = handles(Order.ship, task_id="order_id", create_if_missing=lambda _: {"amount": "4111"})(ship)
    creating(sqs(bare("o-1")), context)
    [record] = caplog.records
    assert record.getMessage().startswith("record m-1: task 'o-1': ship of Order 'o-1' cannot be created")
    assert "4111" not in logging.Formatter().format(record)


def test_an_unreadable_message_is_named_without_its_values(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    handler(sqs({"card": "4111 1111"}), context)
    [(level, message)] = told(caplog)
    assert level == "ERROR"
    assert message.startswith(
        "record m-1: 'order_id' of the path 'order_id' is not in an object with ['card']: "
        "correct the path or the trigger"
    )
    assert "4111" not in message
    assert caplog.records[0].outcome == "unreadable"  # type: ignore[attr-defined]  # the handler sets it


def test_an_event_that_cannot_be_read_is_logged_once(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnreadableEventError):
        handler({}, context)
    why = "'order_id' of the path 'order_id' is not in an empty object: correct the path or the trigger"
    assert told(caplog) == [("ERROR", why)]


def test_records_that_are_not_started_are_logged(clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    handler(fifo(("a", "{"), ("a", "{")), Context(clock))
    handler(sqs("{", bare("o-1"), bare("o-2")), Context(clock, 0.5))
    assert [each for each in told(caplog) if each[0] != "ERROR"] == [
        ("INFO", "record m-2 was not started: an earlier one in its group comes first"),
        ("WARNING", "no time left for 2 records from m-2 on: they will be redelivered"),
    ]


def test_a_task_whose_last_worker_died_is_an_error(clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    ready("o-1")
    for _ in range(2):
        die(Order.ship, "o-1")
        clock.advance(timedelta(minutes=6))
    handler(sqs(bare("o-1")), Context(clock))
    clock.advance(timedelta(seconds=1))
    handler(sqs(bare("o-1")), Context(clock))
    of_handler = [record for record in caplog.records if hasattr(record, "outcome")]
    assert [record.levelname for record in of_handler] == ["ERROR", "WARNING"]


def test_a_secret_of_a_function_that_lost_its_lock_is_not_logged(
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

    *_, outlived, ended = told(caplog)
    assert "ended after its lock had expired" in outlived[1]
    text = "ship of Order 'o-1' (attempt 1) ended, but that may not be recorded: Broken"
    assert ended == ("WARNING", text)
    assert "4111" not in caplog.text


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
    monkeypatch.setattr(Order.ship, "start", raising(OSError("no such host")))
    with pytest.raises(OSError, match="no such host"):
        handler(sqs(bare("o-1")), context)
    [record] = caplog.records
    assert (record.levelname, record.exc_info and record.exc_info[0]) == ("ERROR", OSError)


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ({"task_id": "order"}, {"order": {"id": "o-1", "card": SECRET}}),
        ({"task_id": lambda body: int(body["card"])}, {"card": SECRET}),
        ({"task_id": "id", "payload": lambda record: int(json.loads(record["body"])["card"])}, {"card": SECRET}),
        ({**NEW, "create_if_missing": lambda body: {"amount": int(body["card"])}}, {"id": "o", "card": SECRET}),
        ({**NEW, "create_if_missing": lambda body: {"amount": body["card"]}}, {"id": "o", "card": SECRET}),
        ({**NEW, "create_if_missing": lambda body: {"label": body}}, {"id": "o", "card": SECRET}),
    ],
    ids=["no text", "task_id", "payload", "attributes", "no number", "no text of an attribute"],
)
def test_the_log_has_no_values(arguments: Any, body: Any, context: Context, caplog: pytest.LogCaptureFixture) -> None:
    assert names(handles(Order.ship, **arguments)(ship)(sqs(body), context)) == ["m-1"]
    assert len(caplog.records) == 1
    assert SECRET not in caplog.text


def test_an_attempt_that_exits_is_logged(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    ready("o-1")
    exits = handles(Order.ship, task_id="order_id")(lambda _ctx, _event: sys.exit(3))
    for _ in range(2):
        assert names(exits(sqs(bare("o-1"), "{"), context))[-1] == "m-2"
    assert [level for level, _ in told(caplog)] == ["WARNING", "ERROR", "ERROR", "ERROR"]
